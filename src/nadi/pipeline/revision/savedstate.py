"""The state that an older nadi left in a checkpoint of Spark, for the upgrade: a job of one task copies the frames of all buckets into a folder.

    saved = copy_state(session, spec, folder)
    for bucket in range(spec.buckets):
        saved.parts(bucket)                     # segments, then deltas, as `Kernel.load` takes them

The job reads the state store's data source, which loads the version of a batch into an instance of its own. It holds one slot of the executor, whatever the
size of the state, so that the apps that run already go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from nadi.config.ownership import make_folders
from nadi.errors import error
from nadi.kernel.segments import Part
from nadi.pipeline.cutting.restored import last_batch
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.state.frames import from_frames
from nadi.pipeline.state.layout import DIRECTORY_KEY, Directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_BYTES = 16_000_000  # bytes of frames that travel to the copying task at a time
_SETTINGS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
    # Spark takes the kind of the store from the checkpoint too late: the plan of a MapState is refused before
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
_COLUMNS = "label int, key long, start long, length long"


@dataclass(frozen=True, slots=True)
class SavedBucket:
    """The frames of one bucket in a file: where each one lies (start, length), by its key."""

    file: Path
    directory: Directory
    places: dict[int, tuple[int, int]]

    def frames(self) -> Iterator[bytes]:
        """Those that count, in order. Errors: STATE_FRAMES_DAMAGED."""
        with self.file.open("rb") as source:
            for key in self.directory.live():
                if key not in self.places:
                    raise error("STATE_FRAMES_DAMAGED", bucket=self.file.stem, frame=key)
                start, length = self.places[key]
                source.seek(start)
                yield source.read(length)


@dataclass(frozen=True, slots=True)
class SavedState:
    """The state of every bucket after the same cut."""

    cut: int
    saved: tuple[SavedBucket, ...]

    @property
    def buckets(self) -> int:
        """How many there are."""
        return len(self.saved)

    def parts(self, bucket: int) -> Iterator[Part]:
        """Segments, then deltas."""
        return from_frames(self.saved[bucket].frames())


def copy_state(session: SparkSession, spec: AppSpec, folder: Path) -> SavedState:
    """Copy the state after the last committed batch into an empty folder, which executors share.

    Errors: NOTHING_COMMITTED before the first batch; STATE_FRAMES_DAMAGED where buckets stand after different cuts. What Spark raises otherwise goes up.
    """
    checkpoint = spec.place.state / "checkpoint"
    batch = last_batch(checkpoint)
    if batch is None:
        raise error("NOTHING_COMMITTED", app=spec.app)
    make_folders(folder)
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    rows = (
        session.read.format("statestore")
        .option("path", str(checkpoint))
        .option("batchId", batch)
        .option("stateVarName", "frames")
        .option("flattenCollectionTypes", "true")
        .load()
        .selectExpr("int(key.bk) as label", "user_map_key.k as key", "user_map_value.v as frame")
    )
    index = rows.coalesce(1).mapInArrow(_Copier(str(folder)), _COLUMNS).toArrow()
    return _saved(spec, folder, index)


class _Copier:
    """What the task does: frames to the end of the file of their bucket, and where they lie to whoever asked."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ends: dict[int, int] = {}
        for batch in batches:
            found: list[tuple[int, int, int, int]] = []
            for label, key, frame in zip(*(batch.column(i) for i in range(3)), strict=True):
                of, data = label.as_py(), frame.as_buffer()
                start = ends.get(of, 0)
                with open(Path(self._folder) / f"{of}.frames", "ab" if start else "wb") as out:
                    out.write(data)
                ends[of] = start + len(data)
                found.append((of, key.as_py(), start, len(data)))
            columns = list(zip(*found, strict=True)) if found else [(), (), (), ()]
            kinds = (pa.int32(), pa.int64(), pa.int64(), pa.int64())
            arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=["label", "key", "start", "length"])


def _saved(spec: AppSpec, folder: Path, index: pa.Table) -> SavedState:
    places: dict[int, dict[int, tuple[int, int]]] = {}
    for label, key, start, length in zip(*(index.column(i).to_pylist() for i in range(4)), strict=True):
        places.setdefault(label, {})[key] = (start, length)
    saved = tuple(_bucket(folder / f"{label}.frames", places.get(label, {})) for label in spec.labels)
    cuts = {bucket.directory.cut for bucket in saved}
    if len(cuts) != 1:
        raise error("STATE_FRAMES_DAMAGED", bucket="all", frame=f"directory: cuts {sorted(cuts)}")
    return SavedState(cuts.pop(), saved)


def _bucket(file: Path, places: dict[int, tuple[int, int]]) -> SavedBucket:
    if DIRECTORY_KEY not in places:
        raise error("STATE_FRAMES_DAMAGED", bucket=file.stem, frame=DIRECTORY_KEY)
    start, length = places[DIRECTORY_KEY]
    with file.open("rb") as source:
        source.seek(start)
        return SavedBucket(file, Directory.unpack(source.read(length)), places)
