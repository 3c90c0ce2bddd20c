"""The sandbox of scripts: what cannot get out of it, what it bounds, what it keeps between calls (nothing), and when it ends."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from descriptors import is_readable

from nadi.errors import NadiError
from nadi.lang.tree import Type
from nadi.plan.nodes import Script
from nadi.runtime.sandbox import Limits, Sandbox

Make = Callable[..., Sandbox]
LIMITS = Limits(seconds=0.2)


@pytest.fixture
def make() -> Iterator[Make]:
    """Sandboxes with functions f, g, … of one language; they are closed behind the test."""
    made: list[Sandbox] = []

    def sandbox(language: str, *bodies: str, limits: Limits = LIMITS) -> Sandbox:
        names = "fghijk"[: len(bodies)]
        made.append(
            Sandbox({n: Script(n, language, Type.OBJECT, b) for n, b in zip(names, bodies, strict=True)}, limits)
        )
        return made[-1]

    yield sandbox
    for one in made:
        one.close()


def failure(sandbox: Sandbox, name: str = "f", *arguments: object) -> NadiError:
    with pytest.raises(NadiError) as failed:
        sandbox.call(name, arguments)
    return failed.value


def has_ended(pid: int) -> bool:
    """Waits for the end of a process, up to a generous time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return is_readable(descriptor, 30.0)
    finally:
        os.close(descriptor)


# ---- values


VALUES = [
    None,
    True,
    0,
    -5,
    2**31,
    2**53 - 1,
    2**53,
    2**62 + 1,
    -(2**63),
    0.1,
    1e300,
    5e-324,
    math.inf,
    -math.inf,
    "",
    "a\x00b",
    "é😀",
    "\ud800",
    'quote " and \\ and \u2028',
    {"a": [1, 2.5, None, {"b": "c"}], "__proto__": 1},
    [],
]


@pytest.mark.parametrize(("language", "body"), [("javascript", "return data[0];"), ("python", "return data[0]")])
def test_every_value_comes_back_as_it_went_in(make: Make, language: str, body: str) -> None:
    sandbox = make(language, body)
    for value in VALUES:
        found = sandbox.call("f", (value,))
        assert found == value
        assert type(found) is type(value)


@pytest.mark.parametrize(("language", "body"), [("javascript", "return data[0];"), ("python", "return data[0]")])
def test_numbers_that_are_none_and_the_sign_of_zero_come_back(make: Make, language: str, body: str) -> None:
    sandbox = make(language, body)
    not_a_number, zero = sandbox.call("f", (math.nan,)), sandbox.call("f", (-0.0,))
    assert isinstance(not_a_number, float)
    assert math.isnan(not_a_number)
    assert isinstance(zero, float)
    assert math.copysign(1, zero) == -1


def test_a_number_of_javascript_beyond_2_to_the_53_is_read_as_the_number_it_is(make: Make) -> None:
    sandbox = make("javascript", "return 2 ** 62;", "return 1e21;", "return 10n ** 18n;")
    assert [sandbox.call(name, ()) for name in "fgh"] == [float(2**62), 1e21, 10**18]


def test_no_value_at_all_is_null(make: Make) -> None:
    assert make("javascript", "", "return undefined;", "return;").call("f", ()) is None
    assert make("python", "").call("f", ()) is None


@pytest.mark.parametrize(
    ("language", "body"),
    [
        ("javascript", "return function () {};"),
        ("javascript", "return Symbol('a');"),
        ("javascript", "var a = []; a.push(a); return a;"),
        ("javascript", "return {a: 1n};"),
        ("python", "return {1, 2}"),
        ("python", "return {1: 2}"),
        ("python", "return (x for x in data)"),
        ("python", "a = []\na.append(a)\nreturn a"),
        ("python", "return 1j"),
    ],
)
def test_what_is_no_value_outside_of_its_language_is_an_error(make: Make, language: str, body: str) -> None:
    assert failure(make(language, body), "f", 1).condition in ("SCRIPT_FAILED", "SCRIPT_TIME", "SCRIPT_MEMORY")


@pytest.mark.parametrize(
    ("language", "body", "said"),
    [
        (
            "javascript",
            "\nvar a = 1;\nreturn data[0].b.c;",
            "TypeError: cannot read property 'c' of undefined (line 3 of its body)",
        ),
        ("javascript", "function g() { return g() + 1; }\nreturn g();", "RangeError: Maximum call stack size exceeded"),
        ("javascript", "throw new Error('no');", "Error: no (line 1 of its body)"),
        (
            "python",
            "\n  a = 1\n  return data[0].b",
            "AttributeError: 'int' object has no attribute 'b' (line 3 of its body)",
        ),
        ("python", "raise ValueError('no')", "ValueError: no (line 1 of its body)"),
        (
            "python",
            "def f(n): return f(n)\nreturn f(1)",
            "RecursionError: maximum recursion depth exceeded (line 1 of its body)",
        ),
    ],
)
def test_what_a_script_raises_is_told_with_its_line(make: Make, language: str, body: str, said: str) -> None:
    found = failure(make(language, body), "f", 1)
    assert found.condition == "SCRIPT_FAILED"
    assert said in str(found)


# ---- bounds


ENDLESS = [
    ("javascript", "while (true);"),
    ("javascript", "while (true) { try { while (true); } catch (e) {} finally { continue; } }"),
    ("javascript", "return /(a+)+b/.test('a'.repeat(50));"),
    ("javascript", "return new Array(1e7).fill(0).map(() => Array(10).join('x')).sort();"),
    ("python", "while True:\n  pass"),
    ("python", "while True:\n  try:\n    while True: pass\n  except:\n    pass"),
    ("python", "return (10 ** 10 ** 8) % 7"),
    ("python", "import re\nreturn re.match('(a+)+b', 'a' * 60)"),
    ("python", "from itertools import count\nreturn max(count())"),
]


@pytest.mark.parametrize(("language", "body"), ENDLESS)
def test_a_script_that_does_not_end_is_ended_and_the_next_call_works(make: Make, language: str, body: str) -> None:
    sandbox = make(language, body, "return data[0]")
    assert failure(sandbox, "f", 1).condition in ("SCRIPT_TIME", "SCRIPT_MEMORY")
    assert sandbox.call("g", (7,)) == 7


@pytest.mark.parametrize(
    ("language", "body"),
    [
        ("javascript", "var a = []; while (true) a.push(new Array(100000).fill(1));"),
        ("javascript", "return 'x'.repeat(500000000).length;"),
        ("javascript", "return new ArrayBuffer(500000000).byteLength;"),
        ("python", "a = []\nwhile True: a.append(bytes(1000000))"),
        ("python", "return len('x' * 500000000)"),
        ("python", "return len([0] * 100000000)"),
    ],
)
def test_a_script_that_takes_too_much_memory_fails_and_the_next_call_works(
    make: Make, language: str, body: str
) -> None:
    sandbox = make(language, body, "return data[0]", limits=Limits(seconds=5.0))
    assert failure(sandbox, "f", 1).condition == "SCRIPT_MEMORY"
    assert sandbox.call("g", (7,)) == 7


def test_a_result_that_is_too_long_is_an_error(make: Make) -> None:
    sandbox = make("python", "return 'x' * 20000000", limits=Limits(seconds=5.0, bytes=256 << 20))
    assert "longer than 16 MB" in str(failure(sandbox))


def test_a_process_that_stands_still_is_given_up(make: Make) -> None:
    sandbox = make("python", "return 1", limits=Limits(patience=5.0))  # its start is waited for, too
    assert sandbox.pid is not None
    os.kill(sandbox.pid, signal.SIGSTOP)
    assert failure(sandbox).condition == "SCRIPT_TIME"
    assert sandbox.call("f", ()) == 1


def test_a_process_that_somebody_ended_is_replaced_without_an_error(make: Make) -> None:
    sandbox = make("python", "return 1")
    before = sandbox.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    assert sandbox.call("f", ()) == 1
    assert sandbox.pid != before


def test_a_process_that_cannot_be_started_again_at_once_is_tried_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = make("python", "return 1")
    sandbox.close()
    start, refused = subprocess.Popen, [BlockingIOError("no more processes")] * 2

    def short_of_processes(*arguments: Any, **options: Any) -> object:
        if refused:
            raise refused.pop()
        return start(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", short_of_processes)
    monkeypatch.setattr("nadi.runtime.sandbox.PAUSES", (0.0, 0.0))
    assert sandbox.call("f", ()) == 1
    sandbox.close()
    refused.extend([BlockingIOError("no more processes")] * 3)
    assert failure(sandbox).condition == "SCRIPTS_UNAVAILABLE"


def test_an_app_whose_sandbox_cannot_be_started_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nadi.runtime.sandbox.PROGRAM", "/nowhere.py")
    with pytest.raises(NadiError) as failed:
        Sandbox({"f": Script("f", "python", Type.INT, "return 1")})
    assert failed.value.condition == "SCRIPTS_UNAVAILABLE"


@pytest.mark.skipif(sys.platform != "linux", reason="system calls are filtered on Linux")
def test_on_a_machine_without_a_filter_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    with pytest.raises(NadiError, match="no filter for system calls on s390x"):
        Sandbox({"f": Script("f", "python", Type.INT, "return 1")})


# ---- no way out: these bodies break the rules of the language, which the sandbox does not rely on


ESCAPED = """
    for kind in ().__class__.__base__.__subclasses__():
        if kind.__name__ == "_wrap_close":
            found = kind.__init__.__globals__
    {what}
"""


@pytest.mark.parametrize(
    "what",
    [
        "return found['open']('/etc/passwd', 0)",
        "return found['listdir']('/')",
        "return found['fork']()",
        "return found['posix_spawn']('/bin/true', ['true'], {})",
        "return found['execv']('/bin/true', ['true'])",
        "return found['kill'](found['getppid'](), 9)",
        "return found['kill'](found['getpid'](), 9)",
        "return found['pipe']()",
        "return found['memfd_create']('x')",
        "return found['symlink']('/etc/passwd', '/tmp/x')",
        "return found['sys'].modules['builtins'].open('/etc/passwd').read()",
        "import_ = found['sys'].modules['builtins'].__import__\n    return import_('socket').socket()",
        "return found['sys'].modules['resource'].setrlimit(7, (100, 100))",
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="system calls are filtered on Linux")
def test_a_script_that_escapes_from_its_language_finds_no_way_out_of_the_process(make: Make, what: str) -> None:
    found = failure(make("python", textwrap.dedent(ESCAPED.format(what=what))))
    assert found.condition == "SCRIPT_FAILED"
    refused = ("PermissionError", "not allowed to raise maximum limit", "ModuleNotFoundError", "ImportError")
    assert any(word in str(found) for word in refused), str(found)


@pytest.mark.skipif(sys.platform != "linux", reason="system calls are filtered on Linux")
def test_a_script_that_escapes_into_the_c_library_gets_no_socket_and_no_memory_to_execute(make: Make) -> None:
    what = "c = found['sys'].modules['ctypes'].CDLL(None)\n    return [c.socket(2, 1, 0), c.mmap(0, 4096, 7, 34, -1, 0), c.getppid()]"
    assert make("python", textwrap.dedent(ESCAPED.format(what=what))).call("f", ()) == [-1, -1, -1]


def test_javascript_has_nothing_of_its_surroundings(make: Make) -> None:
    names = "require process std os print load fetch setTimeout Java WebAssembly performance"
    body = f"return '{names}'.split(' ').filter(n => n in globalThis);"
    assert make("javascript", body).call("f", ()) == []


def test_a_process_sees_no_environment(make: Make) -> None:
    body = textwrap.dedent(ESCAPED.format(what="return sorted(k.decode() for k in found['environ']._data)"))
    seen = make("python", body).call("f", ())
    assert isinstance(seen, list)
    assert (
        {"PYTHONHASHSEED", "TZ"} <= set(seen) <= {"LC_CTYPE", "PYTHONHASHSEED", "TZ"}
    )  # Python itself may set the first one


# ---- the same again


@pytest.mark.parametrize(
    ("language", "body"),
    [
        ("javascript", "kept = typeof kept === 'undefined' ? 1 : kept + 1; return kept;"),
        ("javascript", "f.kept = (f.kept || 0) + 1; return f.kept;"),
        ("javascript", "Array.prototype.kept = (Array.prototype.kept || 0) + 1; return [].kept;"),
        ("javascript", "var n = Math.kept || 1; Math.kept = n + 1; return n;"),
        ("javascript", "var m = globalThis[Symbol.for('k')] || 1; globalThis[Symbol.for('k')] = m + 1; return m;"),
        ("python", "global kept\ntry:\n  kept += 1\nexcept Exception:\n  kept = 1\nreturn kept"),
        ("python", "def g(a=[]):\n  a.append(1)\n  return len(a)\nreturn g()"),
    ],
)
def test_nothing_is_kept_from_one_call_to_the_next(make: Make, language: str, body: str) -> None:
    sandbox = make(language, body)
    assert [sandbox.call("f", ()) for _ in range(3)] == [1, 1, 1]


def test_functions_do_not_see_what_others_do(make: Make) -> None:
    sandbox = make(
        "javascript", "shared = 1; Object.prototype.shared = 1; return 1;", "return typeof shared + ({}).shared;"
    )
    assert [sandbox.call(name, ()) for name in "fg"] == [1, "undefinedundefined"]


@pytest.mark.parametrize(
    "body",
    [
        "return Date.now();",
        "return new Date();",
        "return Date();",
        "return Math.random();",
        "return new (new Date(0).constructor)();",
    ],
)
def test_clock_and_chance_are_refused_in_javascript(make: Make, body: str) -> None:
    assert "TypeError: there is no c" in str(failure(make("javascript", body)))


def test_dates_are_computed_from_arguments_in_utc(make: Make) -> None:
    body = "var d = new Date(data[0]); return [d.toISOString(), d.getHours(), d instanceof Date, Date.UTC(1970, 0, 2), Date.parse('1970-01-01T00:00:01')];"
    assert make("javascript", body).call("f", (3_600_000,)) == ["1970-01-01T01:00:00.000Z", 1, True, 86_400_000, 1000]


def test_the_order_of_a_set_is_the_same_in_each_process(make: Make) -> None:
    body = "return list({'a', 'b', 'c', 'd', 'e', 'f'})"
    assert make("python", body).call("f", ()) == make("python", body).call("f", ())


def test_a_javascript_function_can_call_itself(make: Make) -> None:
    assert make("javascript", "return data[0] < 2 ? 1 : data[0] * f([data[0] - 1]);").call("f", (10,)) == 3628800


# ---- no process outlives its owner


def test_a_closed_sandbox_has_no_process(make: Make) -> None:
    sandbox = make("python", "return 1")
    pid = sandbox.pid
    sandbox.close()
    assert pid is not None
    assert has_ended(pid)


def test_a_sandbox_that_nobody_holds_has_no_process() -> None:
    sandbox = Sandbox({"f": Script("f", "python", Type.INT, "return 1")})
    pid = sandbox.pid
    del sandbox
    assert pid is not None
    assert has_ended(pid)


OWNER = """
import os, sys, threading
from nadi.lang.tree import Type
from nadi.plan.nodes import Script
from nadi.runtime.sandbox import Limits, Sandbox
sandbox = Sandbox({"f": Script("f", "python", Type.INT, "while True: pass"), "g": Script("g", "python", Type.INT, "return 1")}, Limits(seconds=1.0))
print(sandbox.pid, flush=True)
"""
READY = "print('ready', flush=True)\nsys.stdin.read()"
ENDS = {
    "killed while it waits": READY,
    "killed during a call": f"threading.Thread(target=sandbox.call, args=('f', ()), daemon=True).start()\n{READY}",
    "killed with a fork that lives on": f"if not os.fork():\n    assert sandbox.pid is None\n    {READY.replace(chr(10), '; ')}; os._exit(0)\nsys.stdin.read()",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_process_ends_with_its_owner_however_that_ends(end: str) -> None:
    command = [sys.executable, "-c", OWNER + ENDS[end]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert owner.stdout.readline() == "ready\n"
        owner.kill()
        assert has_ended(pid)


def test_a_forked_process_has_a_sandbox_of_its_own() -> None:
    program = OWNER + (
        "child = os.fork()\nresult = sandbox.call('g', ())\nif not child:\n    sandbox.close()\n    os._exit(0 if result == 1 else 1)\n"
        "_, status = os.waitpid(child, 0)\nassert status == 0\nassert sandbox.call('g', ()) == 1\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, timeout=60)
