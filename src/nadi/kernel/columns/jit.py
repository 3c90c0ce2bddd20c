"""Loops compiled by Numba: those written in this package, and those that are generated for a query.

The machine code of generated loops is kept in a folder, so that only the first start of an app compiles: `$NADI_CACHE`, else `~/.cache/nadi`.
With `NUMBA_DISABLE_JIT=1` the same text runs as plain Python. With `NADI_CHECKED=1` loops check their indices: one that is outside of its array is an
IndexError, and costs time in every loop (docs/internals/security.md).
"""

from __future__ import annotations

import builtins
import ctypes
import hashlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import config
from numba.core.errors import NumbaError

from nadi.config.ownership import make_folders
from nadi.kernel.columns.cached import CHECKED, build, cache_folder
from nadi.kernel.columns.passes import Shortened
from nadi.kernel.columns.sweeping import FILES, touch, use

_DECORATING = threading.RLock()
"""Held while Numba chooses a folder: where it keeps what it compiles is a setting of the process, which `_folder_of` changes for a moment."""

_interpreted = False
_ready: dict[tuple[Path | None, str, tuple[tuple[str, str], ...]], Any] = {}
"""The generated loops that this process has compiled or loaded: the kernels of other buckets, and those that take over their state, have the same ones."""
_READY = 64
"""So many are kept."""

PLAIN: bool = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]  # numba sets it from the environment
"""Whether loops run as Python."""

_OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "fastmath": False,
    "boundscheck": CHECKED,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,  # nobody hands a loop to another one as a value
    "pipeline_class": Shortened,
}
_HELD: dict[str, Any] = {**_OPTIONS, "_nrt": False}
"""Of what allocates nothing, and whose arrays its caller holds: Numba need not count references, which costs ten times what a short loop does."""
_SCALARS = {"int64": types.int64, "float64": types.float64, "bool": types.boolean}


def loop(function: Any) -> Callable[..., Any]:
    """Compile a function of this package when it is first called. Never `fastmath`, never parallel: floats add up from left to right.

    Its parameters have no types in the text: Numba takes those of the arguments.
    """
    return _cached(function, _OPTIONS)


def locked(function: Any) -> Callable[..., Any]:
    """As `loop`, for what changes Python's objects: it keeps Python's lock."""
    return _cached(function, {**_OPTIONS, "nogil": False})


def _cached(function: Any, options: dict[str, Any]) -> Callable[..., Any]:
    made: Callable[..., Any]
    try:
        with _folder_of(function):
            made = numba.njit(**options)(function)
    except RuntimeError:  # Numba finds no folder for its cache
        made = numba.njit(**{**options, "cache": False})(function)
    return made


@contextmanager
def _folder_of(function: Any) -> Iterator[None]:
    """Let Numba keep a function of this package in a folder for what it calls: it looks at the function's own file only, and would go on with the machine
    code of functions elsewhere that have changed since.
    """
    settings: Any = config
    told = hashlib.sha256("\0".join(_called(function.__code__, function.__globals__, set())).encode()).hexdigest()[:16]
    with _DECORATING:
        before = settings.CACHE_DIR
        if not before:
            use(cache_folder())
        folder = (Path(before) if before else cache_folder() / "own") / told
        settings.CACHE_DIR = str(folder)
        try:
            yield
        finally:
            settings.CACHE_DIR = before
    touch(folder)


def _called(code: CodeType, names: Mapping[str, Any], seen: set[CodeType]) -> Iterator[str]:
    """What decides on the code of a function: its own, and of what it names constants and, in turn, functions."""
    if code in seen:
        return
    seen.add(code)
    yield f"{code.co_qualname} {code.co_code.hex()} {[c for c in code.co_consts if not isinstance(c, CodeType)]!r}"
    modules = [m for name in code.co_names if isinstance(m := names.get(name), ModuleType)]
    for name in code.co_names:
        if name not in names and not hasattr(builtins, name) and (ahead := _defined(code.co_filename).get(name)):
            yield from _called(ahead, names, seen)
        for found in (names.get(name), *(getattr(m, name, None) for m in modules)):
            if (plain := getattr(found, "py_func", None)) is not None:
                yield from _called(plain.__code__, plain.__globals__, seen)
            elif isinstance(found, (bool, int, float, str, tuple)):
                yield f"{name}={found!r}"


@lru_cache(4)
def _defined(path: str) -> dict[str, CodeType]:
    """The functions of a module by name: one that calls another one further down is decorated before that is there."""
    try:
        module = compile(Path(path).read_text(encoding="utf-8"), path, "exec")
    except OSError:  # without its file Numba keeps no function of a module
        return {}
    return {code.co_name: code for code in module.co_consts if isinstance(code, CodeType)}


def callback(function: Any) -> tuple[int, Any]:
    """A function of one int64 for C to call, as its address and what keeps it there. It does not have Python's lock."""
    if PLAIN:
        plain = ctypes.CFUNCTYPE(None, ctypes.c_int64)(function)
        return int(ctypes.cast(plain, ctypes.c_void_p).value or 0), plain
    made: Any
    try:
        with _folder_of(function):
            made = numba.cfunc(types.void(types.int64), cache=True)(function)
    except RuntimeError:
        made = numba.cfunc(types.void(types.int64))(function)
    return int(made.address), made


def part(function: Any) -> Callable[..., Any]:
    """Compile a function that is a part of loops: it stands in each of them as if it were written there. It makes no arrays."""
    return _cached(function, {**_HELD, "forceinline": True})


def bare(function: Any) -> Callable[..., Any]:
    """Compile a function that makes no arrays, as those that it calls: none of them counts who holds the arrays that it is given, which takes longer than what
    a small one does."""
    return _cached(function, _HELD)


@contextmanager
def interpreted() -> Iterator[None]:
    """Loops that are generated meanwhile run as Python: for tests of many apps, as each of them would take a second to compile."""
    global _interpreted  # noqa: PLW0603  # a switch for the process, as Numba's own
    before, _interpreted = _interpreted, True
    try:
        yield
    finally:
        _interpreted = before


def generated(
    source: str,
    name: str,
    parameters: Sequence[tuple[str, str]],
    names: Mapping[str, object],
    plain: Mapping[str, object],
) -> Any:
    """Compile a function from its text now, or take it from the cache. It makes no arrays, nor does what it calls.

    Args:
        source: the module's text, which defines `name`.
        parameters: per parameter its name and dtype: "int64" of a scalar, "int64[]" of an array that is written, "const int64[]" of one that is only read.
        names: what else the text refers to: functions of this package, which the cache knows by `build`. `plain`: the same for Python.
    """
    if PLAIN or _interpreted:
        scope = dict(plain)
        exec(_code(source, name), scope)
        return scope[name]
    path = _kept(source)
    asked = (path, source, tuple(parameters))
    if (known := _ready.get(asked)) is not None:
        return known
    if len(_ready) >= _READY:
        _ready.clear()
    scope = {**names, "__name__": __name__}  # what is loaded from the cache asks for its module
    exec(compile(source, str(path or f"<{name}>"), "exec"), scope)
    _ready[asked] = _machine_code(scope[name], path, parameters)
    return _ready[asked]


def _machine_code(function: Any, path: Path | None, parameters: Sequence[tuple[str, str]]) -> Any:
    """Compile a loop, or take it from the cache."""
    signature = types.void(*(_type(dtype) for _name, dtype in parameters))
    if path is not None:
        try:
            with _alone(path), _DECORATING:
                return numba.njit(signature, **_HELD)(function)
        except NumbaError:
            raise  # the loop's text is wrong: a shape that should have been refused
        except Exception as problem:  # whatever reading a damaged file raises
            warnings.warn(f"compiled loops in {path.parent} cannot be used: {problem!r}", RuntimeWarning, stacklevel=2)
    with _DECORATING:
        return numba.njit(signature, **{**_HELD, "cache": False})(function)


@lru_cache(256)
def _code(source: str, name: str) -> Any:
    """Python's code of a loop: where loops run as Python, many kernels of one app are made."""
    return compile(source, f"<{name}>", "exec")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Of several processes that want the same loop one compiles it, and the others take it from the cache."""
    if FILES is None:  # processes compile side by side there
        yield
        return
    with path.with_suffix(".lock").open("a") as lock:
        FILES.flock(lock, FILES.LOCK_EX)
        yield


def _type(dtype: str) -> Any:
    if not dtype.endswith("[]"):
        return _SCALARS[dtype]
    constant = dtype.startswith("const ")
    scalar = numba.from_dtype(np.dtype(dtype.removeprefix("const ").removesuffix("[]")))
    return types.Array(scalar, 1, "C", readonly=constant)


def _kept(source: str) -> Path | None:
    """The file that stands for a text in the cache; None where no folder can be written."""
    try:
        folder = cache_folder()
        use(folder)
        path = folder / f"loop_{hashlib.sha256((source + build()).encode()).hexdigest()[:24]}.py"
        if path.exists():
            touch(path)
        else:
            make_folders(folder)
            fresh = path.with_suffix(f".{os.getpid()}")
            fresh.write_text(source, encoding="utf-8")
            fresh.replace(path)
    except OSError:
        return None
    return path
