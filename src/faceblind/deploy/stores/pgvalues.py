"""Vectors as PostgreSQL sends and receives them: binary, without text and without a Python object per number.

``vector`` and ``halfvec`` (pgvector) are a length, two unused bytes and big-endian floats. Arrays have a longer header, and
before every element its size. Reading these bytes ourselves needs no driver extension, and gives half precision as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError

_ARRAY_HEADER = 20  # dimensions, null flag, element type, length, lower bound: five int32
_OIDS = {"float4": 700, "float8": 701}


@dataclass(frozen=True)
class Kind:
    """A column type that holds vectors."""

    name: str
    """``vector``, ``halfvec``, ``real[]`` or ``double precision[]``."""
    send: str
    """The function that gives its binary form."""
    element: str
    """NumPy type of a number as sent."""
    array: bool

    @property
    def dtype(self) -> str:
        """Precision in which clean vectors are stored by default."""
        return "float16" if self.element == ">f2" else "float32"

    def _layout(self, dim: int) -> np.dtype[Any]:
        if self.array:
            value: Any = np.dtype([("size", ">i4"), ("value", self.element)])
            return np.dtype([("head", ">i4", (5,)), ("values", value, (dim,))])
        return np.dtype([("head", ">i2", (2,)), ("values", self.element, (dim,))])

    def decode(self, blobs: Sequence[bytes], keys: Sequence[object], dim: int, where: str) -> NDArray[Any]:
        """Return (n, dim) vectors in native byte order.

        Raises
        ------
        DataError
            A vector of another length or with a missing value; the key of its row is named.
        """
        layout = self._layout(dim)
        for key, blob in zip(keys, blobs, strict=True):
            if len(blob) != layout.itemsize or (self.array and blob[4:8] != b"\0\0\0\0"):
                self._refuse(blob, key, dim, where)
        rows = np.frombuffer(b"".join(blobs), layout)["values"]
        values = rows["value"] if self.array else rows
        return np.ascontiguousarray(values, dtype=np.dtype(self.element).newbyteorder("="))

    def encode(self, vectors: NDArray[Any]) -> list[bytes]:
        """Return what the server's receive function takes, one entry a row."""
        n, dim = vectors.shape
        rows = np.zeros(n, self._layout(dim))
        if self.array:
            rows["head"] = (1, 0, _OIDS["float4"], dim, 1)
            rows["values"]["size"] = rows["values"].dtype["value"].itemsize
            rows["values"]["value"] = vectors
        else:
            rows["head"] = (dim, 0)
            rows["values"] = vectors
        flat, width = rows.tobytes(), rows.dtype.itemsize
        return [flat[i * width : (i + 1) * width] for i in range(n)]

    def dim_of(self, blob: bytes) -> int:
        """Return the length of one vector as sent."""
        if self.array:
            return int.from_bytes(blob[12:16], "big") if int.from_bytes(blob[:4], "big") == 1 else 0
        return int.from_bytes(blob[:2], "big")

    def _refuse(self, blob: bytes, key: object, dim: int, where: str) -> None:
        if self.array and int.from_bytes(blob[:4], "big") > 1:
            raise DataError(f"{where}: row {key} holds an array of more than one dimension: store a plain vector")
        length = self.dim_of(blob)
        if length != dim:
            raise DataError(f"{where}: the vector of row {key} has {length} values where {dim} are expected")
        raise DataError(f"{where}: the vector of row {key} has a missing value: re-embed that image or set it to NULL")


KINDS = {
    "vector": Kind("vector", "vector_send", ">f4", array=False),
    "halfvec": Kind("halfvec", "halfvec_send", ">f2", array=False),
    "_float4": Kind("real[]", "array_send", ">f4", array=True),
    "_float8": Kind("double precision[]", "array_send", ">f8", array=True),
}
"""By the name of the type in the catalogue."""
