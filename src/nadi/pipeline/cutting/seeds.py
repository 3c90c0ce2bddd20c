"""What kernels begin with after a restore, for hosts that do not have the node's state folder: the files of `nadi.pipeline.cutting.restored` as objects
`s-<hash of all of them>-<bucket>` beside the state log. They go when a cut has been committed."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nadi.errors import NadiError
from nadi.kernel.segments import Part, parts_of, reader
from nadi.pipeline.cutting.restored import bucket_file
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.store import ObjectStore
from nadi.pipeline.statelog.stores import open_store

BLOCK = 4 * 1024 * 1024  # bytes that are read at once


def give_seed(spec: AppSpec) -> AppSpec:
    """The app with what it begins with where its hosts find it; the same where it begins with nothing, or they have the folder. Errors: STATE_LOG_FAILED,
    DISK_FULL."""
    if not (spec.apart and spec.begin):
        return replace(spec, seed="")
    paths = [bucket_file(Path(spec.begin), bucket) for bucket in range(spec.buckets)]
    found = hashlib.blake2b(digest_size=16)
    for path in paths:
        found.update(path.stat().st_size.to_bytes(8))
        for block in _blocks(path):
            found.update(block)
    seeded = replace(spec, seed=f"s-{found.hexdigest()}")
    store = open_store(seeded.seed_place)
    for bucket, path in enumerate(paths):
        name = _name(seeded, bucket)
        if not _is_whole(store, name, path.stat().st_size):
            store.delete([name])
            store.put(name, _blocks(path))
    return seeded


def drop_seeds(spec: AppSpec) -> None:
    """A cut has been committed: nobody begins with them any more. What cannot be deleted stays."""
    if spec.apart:
        with suppress(NadiError):
            store = open_store(spec.seed_place)
            store.delete(store.list("s-"))


def seed_parts(spec: AppSpec, bucket: int) -> Iterator[Part]:
    """What the kernel of a bucket begins with. Errors: STATE_LOG_FAILED, FileNotFoundError."""
    store, name = open_store(spec.seed_place), _name(spec, bucket)

    def blocks() -> Iterator[bytes]:
        for offset in itertools.count(0, BLOCK):
            if not (block := store.get(name, offset, BLOCK)):
                return
            yield block

    yield from parts_of(reader(blocks()))


def _name(spec: AppSpec, bucket: int) -> str:
    return f"{spec.seed}-{bucket}"


def _is_whole(store: ObjectStore, name: str, size: int) -> bool:
    """Whether an object is there and has so many bytes: one that was torn has not."""
    try:
        return len(store.get(name, max(0, size - 1), 2)) == min(size, 1)
    except FileNotFoundError:
        return False


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as source:
        while block := source.read(BLOCK):
            yield block
