"""Photographs in, vectors and skips out: threads decode ahead of the encoder, within a window."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import EncoderError, ImageError
from faceblind.data.embeddings import bad_rows
from faceblind.encoders.ahead import worked_ahead
from faceblind.encoders.encoder import Encoder
from faceblind.encoders.folder import Photo
from faceblind.encoders.images import load_image
from faceblind.encoders.shards import Skip, Stamp


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedded:
    """One batch of photographs, done."""

    stamps: tuple[Stamp, ...]
    """Of every photograph, in order."""
    vectors: NDArray[np.float32]
    """(m, d): of those that have one, in order."""
    skipped: tuple[Skip, ...]
    """The others, in order."""


def embed_batches(
    groups: Sequence[Sequence[Photo]], encoder: Encoder, *, batch_size: int, workers: int
) -> Generator[Embedded, None, None]:
    """Embed photographs in order.

    Parameters
    ----------
    groups
        Photographs; a batch never spans two groups, so what a group gives does not depend on the others.
    batch_size
        Photographs per batch, fewer at the end of a group.
    workers
        Threads that decode. At most ``batch_size + workers`` photographs wait for the encoder.

    Raises
    ------
    EncoderError
        The encoder failed, or its vectors are not what it promises.
    """
    read = partial(_read, encoder)
    window = batch_size + workers
    with worked_ahead(read, chain(*groups), workers=workers, window=window, name="faceblind-decode") as reads:
        for group in groups:
            for start in range(0, len(group), batch_size):
                yield _encode(list(islice(reads, min(batch_size, len(group) - start))), encoder)


@dataclass(frozen=True, eq=False)
class _Read:
    stamp: Stamp
    prepared: NDArray[Any] | None
    reason: str = ""


def _read(encoder: Encoder, photo: Photo) -> _Read:
    stamp = Stamp.of(photo.sample, photo.path)  # before reading, so that a later change shows
    try:
        return _Read(stamp, encoder.prepare(load_image(photo.path)))
    except ImageError as error:
        return _Read(stamp, None, str(error).removeprefix(f"{photo.path}: "))


def _encode(batch: Sequence[_Read], encoder: Encoder) -> Embedded:
    reasons = {i: read.reason for i, read in enumerate(batch) if read.prepared is None}
    readable = [(i, read.prepared) for i, read in enumerate(batch) if read.prepared is not None]
    vectors = _run(encoder, [prepared for _, prepared in readable])
    bad = bad_rows(vectors)
    for rows, what in ((bad.non_finite, "holds NaN or infinity"), (bad.zero, "is all zeros")):
        reasons |= {readable[row][0]: f"its vector {what}" for row in rows}
    usable = [row for row, (i, _) in enumerate(readable) if i not in reasons]
    return Embedded(
        stamps=tuple(read.stamp for read in batch),
        vectors=vectors[usable],
        skipped=tuple(Skip(batch[i].stamp.sample, reason) for i, reason in sorted(reasons.items())),
    )


def _run(encoder: Encoder, prepared: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    name, dim = encoder.fingerprint.encoder, encoder.dim
    if not prepared:
        return np.empty((0, dim), dtype=np.float32)
    vectors = np.asarray(encoder.run(prepared))
    if vectors.shape != (len(prepared), dim) or vectors.dtype != np.float32:
        raise EncoderError(
            f"encoder {name!r} gave {vectors.dtype} of shape {vectors.shape} for {len(prepared)} photos; "
            f"it promises float32 of shape {(len(prepared), dim)}"
        )
    return vectors
