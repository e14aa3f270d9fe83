"""Embedding one shard of photographs wherever there is room: in this process, in another, on another machine.

A shard is written into the working folder by whoever embeds it, so the working folder and the photographs must lie where
all workers see them, under the same paths.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from faceblind._errors import DataError, EncoderError, OutputError
from faceblind.data.meta import Fingerprint
from faceblind.encoders.encoder import Encoder
from faceblind.encoders.folder import Photo
from faceblind.encoders.pipeline import Embedded, embed_batches
from faceblind.encoders.shards import WorkFolder

_PATIENCE = 90
"""Seconds until a file that another machine wrote must be seen here; NFS keeps the look of a folder for up to 60."""


@dataclass(frozen=True, kw_only=True)
class EmbedTask:
    """A shard to embed."""

    shard: int
    photos: tuple[Photo, ...]

    @classmethod
    def of(cls, shard: int, photos: Sequence[Photo]) -> EmbedTask:
        """Make a task that means the same in another folder."""
        return cls(shard=shard, photos=tuple(replace(photo, path=photo.path.absolute()) for photo in photos))

    def __str__(self) -> str:
        return f"photographs {self.photos[0].sample} to {self.photos[-1].sample}"


@dataclass(frozen=True, kw_only=True)
class EmbedRecord:
    """A shard that was embedded and written."""

    shard: int
    photos: int


@dataclass(frozen=True, kw_only=True, eq=False)
class EmbedJob:
    """Embeds shards into a working folder; see `faceblind._engine.Job`."""

    encoder: Encoder
    fingerprint: Fingerprint
    """Of the encoder where the run began."""
    root: Path
    work: Path
    batch_size: int
    workers: int
    """Threads that decode."""

    def open(self) -> None:
        """Check that this machine has the same encoder and sees the same folders.

        Raises
        ------
        EncoderError
            Other weights, preprocessing or library versions, which may give other vectors.
        DataError, OutputError
            The photographs or the working folder are not to be seen from here.
        """
        here = self.encoder.fingerprint
        if here != self.fingerprint:
            differences = here.differs_from(self.fingerprint) or [
                f"libraries: {dict(here.libraries)} != {dict(self.fingerprint.libraries)}"
            ]
            raise EncoderError(
                f"the encoder {here.encoder!r} on {platform.node()} is not the one that this run began with "
                f"({'; '.join(differences)}): give every machine the same weights and versions"
            )
        if not self.root.is_dir():
            raise DataError(
                f"{platform.node()} sees no folder {self.root}: put the photographs where all machines see them"
            )
        if not WorkFolder(self.work).is_of(self.fingerprint):
            raise OutputError(
                f"{platform.node()} does not see the working folder {self.work}: write the table to a file system that "
                "all machines share"
            )

    def run(self, task: EmbedTask) -> EmbedRecord:
        """Embed a shard and write it."""
        batches = embed_batches([task.photos], self.encoder, batch_size=self.batch_size, workers=self.workers)
        with closing(batches):
            write_shard(WorkFolder(self.work), task.shard, batches)
        return EmbedRecord(shard=task.shard, photos=len(task.photos))


def write_shard(work: WorkFolder, shard: int, batches: Iterable[Embedded]) -> None:
    """Write the batches that make up a shard."""
    parts = list(batches)
    work.write(
        shard,
        [stamp for part in parts for stamp in part.stamps],
        [skip for part in parts for skip in part.skipped],
        np.concatenate([part.vectors for part in parts]),
    )


def await_shards(work: WorkFolder, shards: Iterable[int]) -> None:
    """Wait until shards that other machines wrote are to be seen here.

    Raises
    ------
    OutputError
        They are not, even after a while: the folder is not a shared one.
    """
    left = _PATIENCE
    for shard in shards:
        while not work.has(shard):
            if left <= 0:
                raise OutputError(
                    f"a worker wrote shard {shard} into {work.path}, but it is not to be seen here: write the table to a "
                    "file system that all machines share"
                )
            left -= 1
            time.sleep(1)
