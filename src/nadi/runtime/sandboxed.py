"""What runs in the process of a sandbox (see `sandbox`). It stands alone: standard library and the JavaScript engine, nothing of nadi.

    python -S -s -P -B sandboxed.py <file of the JavaScript engine>

Frames on standard input and output: a length of 4 bytes and that much JSON. The first frame is the set-up, each further one a call [name, arguments].
An answer is `{"value": …}`, or `{"failed": kind, "reason": …}`. The process ends with its input. It must not import when a script runs: files can no
longer be opened.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import importlib
import json
import marshal
import os
import re
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import SimpleNamespace
from typing import Any

LONGEST = 16 << 20
"""Bytes of an answer."""

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_EXACT = 1 << 53  # whole numbers up to here are numbers of JavaScript

_PIN = """(() => {
    const pin = (why) => function () { throw new TypeError(why); };
    const Clock = Date, none = "there is no clock in script functions: take the time as an argument";
    const Pinned = function Date(...parts) {
        if (!new.target || parts.length === 0) throw new TypeError(none);
        return Reflect.construct(Clock, parts, new.target);
    };
    Pinned.prototype = Clock.prototype;
    Pinned.prototype.constructor = Pinned;
    Pinned.UTC = Clock.UTC; Pinned.parse = Clock.parse; Pinned.now = pin(none);
    globalThis.Date = Pinned;
    Math.random = pin("there is no chance in script functions: their results must be the same again");
    for (const name of ["performance", "WeakRef", "FinalizationRegistry", "SharedArrayBuffer", "Atomics", "queueMicrotask"]) delete globalThis[name];
})()"""

_CALL = """(() => {
    const { parse, stringify } = JSON, big = BigInt, is = Object.is, text = String, finite = Number.isFinite;
    const whole = Number.isInteger, exact = Number.isSafeInteger;
    return (name, f, values, special) => {
        globalThis[name] = f;
        const data = parse(values);
        for (const [place, kind, value] of parse(special)) data[place] = kind === "long" ? big(value) : Number(value);
        const made = f(data);
        switch (typeof made) {
            case "undefined": return "null";
            case "bigint": return text(made);
            case "number":
                if (!finite(made)) return text(made);
                if (is(made, -0)) return "-0.0";
                // above 2^53 the digits name the number without being its value: they are read as a floating-point number
                return whole(made) && !exact(made) && made < 1e21 && made > -1e21 ? stringify(made) + ".0" : stringify(made);
            case "function": case "symbol": throw new TypeError("a " + typeof made + " is no value");
        }
        const json = stringify(made);
        if (json === undefined) throw new TypeError("the object returned is no value");
        return json;
    };
})()"""


_TEXT = """(() => {
    const { apply } = Reflect, told = Function.prototype.toString;
    return (f) => typeof f === "function" ? apply(told, f, []) : "";
})()"""


class ScriptError(Exception):
    """A script failed; the text says how. `kind` is "failed" or "memory"."""

    def __init__(self, reason: str, kind: str = "failed") -> None:
        super().__init__(reason)
        self.kind = kind


def main(engine: str) -> None:
    """Serve until the input ends."""
    quickjs = _load("_quickjs", engine)
    try:
        setup = receive()
        functions = make_functions(setup, quickjs)
        seal(setup)
        limit = setup["seconds"]
        for function in functions.values():
            with timed(limit):
                function.prepare()
        send({"value": "ready"})
    except Exception as problem:
        send({"failed": "setup", "reason": f"{type(problem).__name__}: {problem}"[:2000]})
        return
    while True:
        name, arguments = receive()
        function = functions[name]
        with timed(limit):
            answer = answered(function, arguments)
        _write(answer)
        with timed(limit):
            function.prepare()


@contextlib.contextmanager
def timed(seconds: float) -> Iterator[None]:
    """Bound the processor time of what reads or runs the text of a script: the signal ends the process, whatever the script does."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _load(name: str, file: str) -> Any:
    loader = ExtensionFileLoader(name, file)
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


# ---- frames


def receive() -> Any:
    """The next frame; the process ends where there is none."""
    (length,) = struct.unpack("=I", _read(4))
    return json.loads(_read(length))


def _read(length: int) -> bytes:
    parts = []
    while length:
        part = os.read(0, min(length, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def framed(answer: Any) -> bytes:
    body = json.dumps(answer).encode("ascii")
    if len(body) > LONGEST:
        raise ScriptError(f"the result is longer than {LONGEST >> 20} MB")
    return struct.pack("=I", len(body)) + body


def send(answer: Any) -> None:
    _write(framed(answer))


def _write(frame: bytes) -> None:
    view = memoryview(frame)
    while view:
        view = view[os.write(1, view) :]


def answered(function: JavaScriptFunction | PythonFunction, arguments: list[Any]) -> bytes:
    """The frame that answers a call, whatever becomes of it."""
    try:
        return framed({"value": function.call(arguments)})
    except ScriptError as problem:
        return framed({"failed": problem.kind, "reason": str(problem)[:2000]})
    except MemoryError:
        return framed({"failed": "memory", "reason": ""})
    except BaseException as problem:
        line = _line(problem)
        said = f"{type(problem).__name__}: {problem}"[:2000]
        return framed({"failed": "failed", "reason": said + (f" (line {line} of its body)" if line else "")})


def _line(problem: BaseException) -> int:
    """The last line of a script that an exception passed; 0 where it passed none."""
    found, trace = 0, problem.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<script>":
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


# ---- the two languages


def make_functions(setup: dict[str, Any], quickjs: Any) -> dict[str, JavaScriptFunction | PythonFunction]:
    """All functions of the set-up, by name. The text of none has been read: that waits until the process is sealed."""
    modules = {n: (importlib.import_module(n), names) for n, names in setup["modules"].items()}
    made: dict[str, JavaScriptFunction | PythonFunction] = {}
    for name, language, body in setup["functions"]:
        if language == "javascript":
            made[name] = JavaScriptFunction(name, body, quickjs, setup["bytes"])
        else:
            made[name] = PythonFunction(name, body, setup["builtins"], modules)
    return made


class JavaScriptFunction:
    """Each call has an engine of its own, so that nothing can stay; the next one is made while the caller goes on with its work.

    The first one is made with the function, before the process is sealed: its memory does not count as that of scripts.
    """

    def __init__(self, name: str, body: str, quickjs: Any, memory: int) -> None:
        self._name = name
        self._text = f"(function(data) {{\n{body}\n}})"
        self._quickjs = quickjs
        self._memory = memory
        self._engine: tuple[Any, Any, Any] | None = self._made()
        self._ready: tuple[Any, Any, Any] | None = None
        self._used: tuple[Any, Any, Any] | None = None  # taking it down takes time, which the answer need not wait for

    def _made(self) -> tuple[Any, Any, Any]:
        """An engine that has read nothing of the script; with it what calls a function, and what tells the text of one, which no script can change."""
        context = self._quickjs.Context()
        context.set_memory_limit(self._memory)
        context.eval(_PIN)
        return context, context.eval(_CALL), context.eval(_TEXT)

    def prepare(self) -> None:
        """Make the engine of the next call.

        Raises:
            ScriptError: the text is more than one function.
        """
        self._used = None
        if self._ready is None:
            engine, self._engine = self._engine, None
            context, call, text_of = engine or self._made()
            function = context.eval(self._text)
            if (
                engine is not None and text_of(function) != self._text[1:-1]
            ):  # once is enough: the text stays what it is
                raise ScriptError("its text closes the braces that it stands in")
            self._ready = (context, call, function)

    def call(self, arguments: list[Any]) -> Any:
        self.prepare()
        assert self._ready is not None
        _context, call, function = self._used = self._ready
        self._ready = None
        special = [(i, *found) for i, value in enumerate(arguments) if (found := _special(value))]
        for place, *_ in special:
            arguments[place] = None
        try:
            made = call(self._name, function, json.dumps(arguments, allow_nan=False), json.dumps(special))
        except self._quickjs.JSException as problem:
            raise _failure(str(problem)) from None
        return json.loads(made)


def _special(value: Any) -> tuple[str, str] | None:
    """What JSON cannot bring to JavaScript: long numbers, and those that are none."""
    if type(value) is int and not -_EXACT < value < _EXACT:
        return "long", str(value)
    if type(value) is float and (value != value or value in (float("inf"), float("-inf"))):
        return "number", "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return None


def _failure(text: str) -> ScriptError:
    said = text.split("\n    at ")[0].rstrip()
    if said == "InternalError: out of memory":
        return ScriptError(said, "memory")
    found = re.search(r"<input>:(\d+):", text)
    return ScriptError(f"{said} (line {int(found[1]) - 1} of its body)" if found and int(found[1]) > 1 else said)


class PythonFunction:
    """Each call defines the function anew in a namespace of its own, so that nothing can stay."""

    def __init__(self, name: str, code: str, names: list[str], modules: dict[str, tuple[Any, list[str]]]) -> None:
        self._name = name
        self._code = marshal.loads(base64.b64decode(code))
        own: dict[str, Any] = vars(importlib.import_module("builtins"))
        self._builtins: dict[str, Any] = {n: own[n] for n in names} | {"__import__": _importer(modules)}

    def prepare(self) -> None:
        """Nothing is kept between calls that could be prepared."""

    def call(self, arguments: list[Any]) -> Any:
        scope: dict[str, Any] = {"__builtins__": dict(self._builtins)}
        exec(self._code, scope)
        value = scope[self._name](arguments)
        _check(value)
        return value


def _importer(modules: dict[str, tuple[Any, list[str]]]) -> Callable[..., SimpleNamespace]:
    def import_module(name: str, *_more: Any) -> SimpleNamespace:
        """A new namespace with what a module offers: the module itself leads everywhere."""
        module, names = modules[name]
        return SimpleNamespace(**{n: getattr(module, n) for n in names})

    return import_module


def _check(value: Any) -> None:
    """Raise ScriptError where a value, or what is in it, has no form outside of Python."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if not all(isinstance(key, str) for key in part):
                raise ScriptError("the keys of a dict that is returned must be texts")
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple)):
            waiting.extend(part)
        elif not (part is None or isinstance(part, (str, int, float))):
            raise ScriptError(
                f"a {type(part).__name__} is no value of Siddhi; return a text, a number, a bool, None, a list or a dict"
            )


# ---- the walls


def seal(setup: dict[str, Any]) -> None:
    """Give up for good what a script is not to have. What cannot be given up is an error."""
    time.tzset()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the owner is meant, and may have calls to finish
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
        resource.setrlimit(kind, (0, 0))
    if setup["filter"]:
        with open("/proc/self/statm") as statm:
            present = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (present + setup["bytes"],) * 2)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    if setup["filter"]:
        _install(base64.b64decode(setup["filter"]))


def _install(program: bytes) -> None:
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))

    libc = ctypes.CDLL(None, use_errno=True)
    held = ctypes.create_string_buffer(program, len(program))
    given = Program(len(program) // 8, ctypes.cast(held, ctypes.c_void_p))
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(_SECCOMP, _FILTER, ctypes.byref(given), 0, 0):
        raise OSError(ctypes.get_errno(), "the system refuses the filter for system calls (seccomp)")


if __name__ == "__main__":
    main(sys.argv[1])
