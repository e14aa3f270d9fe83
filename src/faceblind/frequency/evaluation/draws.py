"""The draws of people behind a rate, kept beside it: two models that saw the same people are compared draw by draw.

Two intervals that overlap say little. Who is hard to recognise is so for both models, and in the difference that cancels
(`faceblind.measure.paired`); what is needed are both models' rates in the same draws.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import FormatError
from faceblind.measure.paired import PairedDifference, paired_difference


@dataclass(frozen=True, eq=False)
class Draws:
    """A rate in every draw of people.

    Attributes
    ----------
    base : float
        The rate that the draws are draws of.
    people : float
        How many people it rests on.
    values : (b,) float64
        NaN where a draw's threshold is not known.
    of : str
        Digest of the people, in their order, and of the draws: alike for all models that may be compared.
    """

    base: float
    people: float
    values: NDArray[np.float64]
    of: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types: the draws as little-endian float32 in base64."""
        packed = base64.b64encode(self.values.astype("<f4").tobytes()).decode("ascii")
        return {"base": self.base, "people": self.people, "of": self.of, "float32": packed}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Draws:
        """Read what `to_dict` wrote.

        Raises
        ------
        FormatError
            Something is missing or damaged.
        """
        try:
            values = np.frombuffer(base64.b64decode(given["float32"], validate=True), "<f4").astype(np.float64)
            return cls(float(given["base"]), float(given["people"]), values, str(given["of"]))
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"draws of people are damaged ({error}); run: faceblind frequency evaluate") from error


def digest_of(rng: np.random.Generator, *arrays: NDArray[Any]) -> str:
    """Return the digest of what is about to be drawn and of whom: the generator's state and arrays in their order."""
    found = hashlib.sha256(json.dumps(rng.bit_generator.state, sort_keys=True, default=str).encode())
    for array in arrays:
        plain = np.ascontiguousarray(array if array.dtype.kind in "biu" else array.astype(np.str_))
        found.update(f"{plain.dtype.str}{plain.shape}".encode())
        found.update(plain.tobytes())
    return found.hexdigest()


def compared(a: Mapping[str, Any], b: Mapping[str, Any]) -> PairedDifference | None:
    """Compare the rates of two rows of an evaluation; None where their draws are not of the same people, or are not kept."""
    if not a.get("draws") or not b.get("draws"):
        return None
    return paired(Draws.from_dict(a["draws"]), Draws.from_dict(b["draws"]))


def paired(one: Draws, other: Draws) -> PairedDifference | None:
    """Compare two rates; None where their draws are not of the same people."""
    if one.of != other.of or one.values.shape != other.values.shape:
        return None
    return paired_difference(one.base, one.values, other.base, other.values, min(one.people, other.people))
