"""Whoever writes to a state folder, an object store or a database of nadi gets no code run: nothing that is read there can name code."""

from __future__ import annotations

import ast
import gzip
import io
import pickle
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import nadi
from nadi.errors import NadiError
from nadi.io.sources.file_manifest import Entry, Manifest
from nadi.kernel.segments import parts_of, reader
from nadi.persistence.revisions import _unzipped
from nadi.pipeline.state.frames import from_frames
from nadi.received import read_json

SOURCE = Path(nadi.__file__).parent
NAME_CODE = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "jsonpickle", "marshal"}
"""Modules whose formats make a reader run what the bytes say."""
MARSHAL = {"functions/pythonscripts.py", "runtime/sandboxed.py"}
"""The node compiles a script, and its own sandbox gets it through a pipe: no file, no network."""
RUN_TEXT = {"functions/javascript.py", "kernel/columns/jit.py", "kernel/rows/compile.py", "runtime/sandboxed.py"}
"""Modules that run a text: the generated code of queries, and scripts in their sandbox."""


WORDS = re.compile(r"\b(?:exec|eval|allow_pickle|shell|" + "|".join(sorted(NAME_CODE)) + r")\b")


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """The modules of nadi by their paths that have one of these words; the others can do nothing of what is looked for here."""
    texts = {file: file.read_text(encoding="utf-8") for file in sorted(SOURCE.rglob("*.py"))}
    return [
        (file.relative_to(SOURCE).as_posix(), ast.parse(text)) for file, text in texts.items() if WORDS.search(text)
    ]


def imported(module: ast.Module) -> set[str]:
    """The names of the top packages that a module imports, wherever it does."""
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            found |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def called(module: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """The calls of a module, with the last name of what they call."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            target = node.func
            yield getattr(target, "id", getattr(target, "attr", "")), node


def test_no_module_reads_a_format_that_can_name_code():
    found = {name: imported(module) & NAME_CODE for name, module in modules()}
    assert {name: names for name, names in found.items() if names} == {name: {"marshal"} for name in MARSHAL}


def test_only_generated_code_and_scripts_are_run_as_text():
    assert {
        name for name, module in modules() for what, _call in called(module) if what in ("exec", "eval")
    } == RUN_TEXT


def test_no_call_lifts_the_bounds_of_a_reader():
    for name, module in modules():
        for _what, call in called(module):
            given = {word.arg: word.value for word in call.keywords if word.arg}
            for word in ("allow_pickle", "shell"):
                value = given.get(word)
                assert value is None or (isinstance(value, ast.Constant) and value.value is False), (name, word)


class Bomb:
    """Makes a file where it is unpickled."""

    def __init__(self, proof: Path) -> None:
        self._proof = proof

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self._proof), "w"))


def _segments(bomb: bytes) -> None:
    list(parts_of(reader([bomb])))


def _frames(bomb: bytes) -> None:
    list(from_frames([memoryview(bomb)]))


def _manifest(bomb: bytes) -> None:
    read_json(_unzipped(gzip.compress(bomb)))


READERS: dict[str, Callable[[bytes], object]] = {
    "JSON": read_json,
    "segments": _segments,
    "frames": _frames,
    "manifest": _manifest,
}


@pytest.mark.parametrize("name", READERS)
def test_a_pickle_in_place_of_a_state_is_no_state(tmp_path: Path, name: str):
    proof = tmp_path / "ran"
    pickle.loads(pickle.dumps(Bomb(proof))).close()
    assert proof.exists()  # it works where it is believed
    proof.unlink()
    with pytest.raises((NadiError, ValueError, EOFError, msgspec.MsgspecError)):
        READERS[name](pickle.dumps(Bomb(proof)))
    assert not proof.exists()


def test_a_pickle_in_the_index_of_a_file_source_is_not_read(tmp_path: Path):
    proof, out = tmp_path / "ran", io.BytesIO()
    np.save(out, np.array([Bomb(proof)], dtype=object), allow_pickle=True)
    (tmp_path / "index").mkdir()
    (tmp_path / "index/1.offsets.npy").write_bytes(out.getvalue())
    entry = Entry(number=1, path="x", size=1, mtime=1, edges=1, kind="line", rows=1, first=0, time=0)
    with pytest.raises(ValueError, match="Python objects"):
        Manifest(tmp_path).offsets(entry)
    assert not proof.exists()
