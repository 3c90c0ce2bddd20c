"""The start of the command, before it knows what it is to do."""

from __future__ import annotations

import subprocess
import sys

INTERRUPTED = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == "nadi.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from nadi.__main__ import main
main()
"""


def test_a_ctrl_c_while_modules_are_loaded_ends_the_command_without_a_trace():
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_the_command_and_the_module_are_the_same():
    told = [
        subprocess.run([*command, "check", "--help"], capture_output=True, text=True, check=True).stdout
        for command in ([f"{sys.prefix}/bin/nadi"], [sys.executable, "-m", "nadi"])
    ]
    assert told[0].replace("nadi", "").split() == told[1].replace("python -m nadi", "").split()
