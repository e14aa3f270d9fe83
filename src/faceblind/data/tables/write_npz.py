"""Write an ``.npz`` archive with the same bytes every time."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from faceblind.data.tables.npy import write_array, write_header
from faceblind.data.tables.npz import META_ARRAY
from faceblind.data.tables.sink import Block, Layout

_EPOCH = (1980, 1, 1, 0, 0, 0)


class NpzSink:
    """An archive of vectors, identities and keys.

    Vectors wait in a nameless temporary file beside the target, because their number must be known first;
    labels wait in memory.
    """

    def __init__(self, path: Path, layout: Layout) -> None:
        self._layout = layout
        self._archive = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED)
        try:
            self._spool: IO[bytes] = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115 (closed in close)
        except OSError:
            self._archive.close()
            raise
        self._identity: list[NDArray[np.str_]] = []
        self._sample: list[NDArray[np.str_]] = []
        self._rows = 0

    def append(self, block: Block) -> None:
        """Add rows."""
        write_array(self._spool, block.vectors)
        self._rows += len(block)
        self._sample.append(_narrow(block.sample))
        if block.identity is not None:
            self._identity.append(_narrow(block.identity))

    def finish(self) -> None:
        """Put the arrays into the archive."""
        layout = self._layout
        shape = (self._rows, layout.dim)
        self._spool.seek(0)

        def vectors(stream: IO[bytes]) -> None:
            write_header(stream, shape, layout.dtype)
            shutil.copyfileobj(self._spool, stream, 1 << 20)

        self._add(layout.embedding, self._rows * layout.dim * layout.dtype.itemsize, vectors)
        if self._identity:
            self._add_array(layout.identity, np.concatenate(self._identity))
        self._add_array(layout.sample, np.concatenate(self._sample))
        self._add_array(META_ARRAY, np.array(layout.meta.to_json()))
        self._archive.close()

    def close(self) -> None:
        """Let go of the files."""
        # On a full disk the archive cannot be completed, and that is not the error to tell.
        with suppress(OSError, ValueError):
            self._archive.close()
        with suppress(OSError):
            self._spool.close()

    def _add_array(self, name: str, array: NDArray[Any]) -> None:
        def write(stream: IO[bytes]) -> None:
            np.lib.format.write_array(stream, array, allow_pickle=False)

        self._add(name, array.nbytes, write)

    def _add(self, name: str, nbytes: int, write: Callable[[IO[bytes]], None]) -> None:
        info = zipfile.ZipInfo(name + ".npy", _EPOCH)
        info.create_system = 3  # Unix, on every system, with the permissions below
        info.external_attr = 0o644 << 16
        with self._archive.open(info, "w", force_zip64=nbytes >= 1 << 31) as stream:
            write(stream)


def _narrow(text: NDArray[np.str_]) -> NDArray[np.str_]:
    # As wide as its longest entry, so that the bytes do not depend on where the text came from.
    return text.astype(f"<U{max(1, int(np.char.str_len(text).max()))}")
