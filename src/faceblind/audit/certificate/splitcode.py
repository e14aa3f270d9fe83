"""A split written down without names: one letter a row, in the order of the table, runs counted.

``3f2at-`` is three rows of `fit`, two of `attack`, one of `test` and one that is not used. With the table, whose digest
fixes the order of its rows, it is the split again.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import FormatError
from faceblind.data.split import PARTS, IdentitySplit

LETTERS = {"fit": "f", "attack": "a", "validation": "v", "test": "t", "": "-"}
_NAMES = {letter: name for name, letter in LETTERS.items()}
_RUN = re.compile(f"([1-9][0-9]{{0,11}})?([{re.escape(''.join(_NAMES))}])")


def encode(part: NDArray[np.str_]) -> str:
    """Return the runs of an (n,) array of part names."""
    letters = "".join(LETTERS[str(name)] for name in part)
    runs = ((len(list(group)), letter) for letter, group in itertools.groupby(letters))
    return "".join(letter if length == 1 else f"{length}{letter}" for length, letter in runs)


def decode(text: str, rows: int) -> NDArray[np.str_]:
    """Return the (rows,) part names.

    Raises
    ------
    FormatError
        The text is not such a code, or not of as many rows.
    """
    found = _RUN.findall(text)
    if "".join(length + letter for length, letter in found) != text:
        raise FormatError("the parts of the split are not a code of counted letters f, a, v, t and -")
    lengths = [int(length or 1) for length, _ in found]
    if sum(lengths) != rows:  # before anything of that size is made
        raise FormatError(f"the parts of the split are for {sum(lengths):,} rows, the table has {rows:,}")
    return np.repeat(np.array([_NAMES[letter] for _, letter in found], dtype="<U10"), lengths)


def shared_identities(split: IdentitySplit, identity: NDArray[np.str_]) -> dict[str, int]:
    """Count the identities that two parts share, by name, for each of the six pairs of parts."""
    people = {name: set(identity[split.rows(name)].tolist()) for name in PARTS}
    return {f"{a} and {b}": len(people[a] & people[b]) for a, b in itertools.combinations(PARTS, 2)}


def describe_split(split: IdentitySplit, identity: NDArray[np.str_]) -> dict[str, Any]:
    """Return what a certificate says about a split."""
    shared = shared_identities(split, identity)
    return {
        "rule": split.rule,
        "counts": split.counts(identity),
        "unused_rows": int((split.part == "").sum()),
        "shared_identities": shared,
        "disjoint": not any(shared.values()),
        "parts": {
            "encoding": "one letter a row in the order of the table (f fit, a attack, v validation, t test, - unused); "
            "a number before a letter repeats it",
            "rows": int(split.part.size),
            "runs": encode(split.part),
        },
    }
