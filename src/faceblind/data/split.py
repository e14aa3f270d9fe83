"""Four identity-disjoint splits: fit | attack | validation | test.

The eraser learns from `fit`, attackers from `attack` (people the eraser never saw, as a real attacker would) and also
from `fit`; hyper-parameters and thresholds are frozen on `validation`; `test` is looked at once. No identity is in two
splits. The manifest says where every image went.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import FormatError, SplitError, UsageError
from faceblind._files import write_text
from faceblind.data.findings import Finding

PARTS = ("fit", "attack", "validation", "test")
DEFAULT_SHARES: Mapping[str, float] = {"fit": 0.30, "attack": 0.25, "validation": 0.20, "test": 0.25}
_LEAST = 2


class Labelled(Protocol):
    """Rows with a key and an identity each: embeddings, or photographs of faces."""

    @property
    def sample(self) -> NDArray[np.str_]:
        """Unique keys, (n,)."""
        ...

    def require_identity(self) -> NDArray[np.str_]:
        """Return the identity of each row, (n,)."""
        ...


@dataclass(frozen=True, eq=False)
class IdentitySplit:
    """Which rows of a table belong to which part.

    Attributes
    ----------
    part : (n,) str
        ``fit``, ``attack``, ``validation``, ``test``, or ``""`` for rows that are not used.
    rule : str
        How the split was made, for the record.
    """

    part: NDArray[np.str_]
    rule: str

    @classmethod
    def draw(
        cls,
        embeddings: Labelled,
        *,
        seed: int = 0,
        shares: Mapping[str, float] | Sequence[float] = DEFAULT_SHARES,
    ) -> IdentitySplit:
        """Draw a seeded split of the identities.

        Identities with a single image have no mated pair and a mean that is noise: they are left out.

        Parameters
        ----------
        shares : mapping or sequence in the order of `PARTS`
            Shares of the usable identities (sum at most 1), or counts of identities (all >= 2).

        Raises
        ------
        SplitError
            Too few identities with two images for two in every part, or for the counts asked for.
        """
        identity = embeddings.require_identity()
        names, counts = np.unique(identity, return_counts=True)
        usable = names[counts >= _LEAST]
        sizes = _sizes(shares, int(usable.size), int(names.size))
        order = np.random.default_rng([seed, 0x5B117]).permutation(usable.size)
        where: dict[str, str] = {}
        start = 0
        for name, size in sizes.items():
            where |= dict.fromkeys(usable[order[start : start + size]].tolist(), name)
            start += size
        part = np.array([where.get(str(name), "") for name in identity], dtype="<U10")
        text = ", ".join(f"{name} {size}" for name, size in sizes.items())
        return cls(part, f"identities with two or more images, shuffled with seed {seed}: {text}")

    @classmethod
    def from_csv(cls, path: str | Path, embeddings: Labelled) -> IdentitySplit:
        """Read a manifest with columns sample, identity, split, as `save` writes it.

        Raises
        ------
        FormatError
            Missing file or columns, an unknown split name, a sample that the table lacks, repeated, or of another identity.
        SplitError
            A part has fewer than two identities.
        """
        path = Path(path)
        rows = read_manifest(path)
        index = {str(key): row for row, key in enumerate(embeddings.sample)}
        identity = embeddings.require_identity()
        part = np.full(embeddings.sample.size, "", dtype="<U10")
        for line, (sample, person, name) in enumerate(rows, start=2):
            row = index.get(sample)
            if row is None:
                raise FormatError(f"{path} line {line}: sample {sample!r} is not in the table")
            if str(identity[row]) != person:
                raise FormatError(
                    f"{path} line {line}: {sample!r} is {person!r} here but {str(identity[row])!r} in the table"
                )
            if name not in PARTS:
                raise FormatError(f"{path} line {line}: split {name!r} is none of {', '.join(PARTS)}")
            if part[row]:
                raise FormatError(f"{path} line {line}: sample {sample!r} is listed twice")
            part[row] = name
        split = cls(part, f"read from {path.name}")
        for name in PARTS:
            people = np.unique(identity[split.rows(name)]).size
            if people < _LEAST:
                raise SplitError(f"{path}: split {name!r} has {people} identities, at least {_LEAST} are needed")
        return split

    def rows(self, part: str) -> NDArray[np.intp]:
        """Return the rows of a part."""
        return np.flatnonzero(self.part == part)

    def save(self, path: str | Path, embeddings: Labelled) -> None:
        """Write the manifest: columns sample, identity, split; rows that are not used are not listed."""
        buffer = io.StringIO()
        identity = embeddings.require_identity()
        # The csv module leaves a carriage return bare when lines end in "\n", and would read two lines of it.
        bare = any("\r" in text for column in (embeddings.sample, identity) for text in column.tolist())
        writer = csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL if bare else csv.QUOTE_MINIMAL)
        writer.writerow(["sample", "identity", "split"])
        writer.writerows(
            (sample, person, name)
            for sample, person, name in zip(embeddings.sample, identity, self.part, strict=True)
            if name
        )
        write_text(path, buffer.getvalue())

    def counts(self, identity: NDArray[Any]) -> dict[str, dict[str, int]]:
        """Count identities and samples per part."""
        return {
            name: {"identities": int(np.unique(identity[self.rows(name)]).size), "samples": int(self.rows(name).size)}
            for name in PARTS
        }

    def shared_identities(self, identity: NDArray[Any]) -> Finding | None:
        """Return a finding when an identity is in more than one part (only a manifest can do that)."""
        seen: dict[str, set[str]] = {}
        for person, name in zip(identity.tolist(), self.part.tolist(), strict=True):
            if name:
                seen.setdefault(person, set()).add(name)
        shared = {person: parts for person, parts in seen.items() if len(parts) > 1}
        if not shared:
            return None
        examples = tuple(f"{person}: {' and '.join(sorted(parts))}" for person, parts in list(shared.items())[:5])
        return Finding(
            kind="identity_shared_between_splits",
            severity="error",
            count=len(shared),
            examples=examples,
            message="identities are in more than one split, so the test is not on unseen people: give each identity one split",
        )


def parse_shares(text: str) -> dict[str, float]:
    """Read four comma-separated shares or counts in the order fit, attack, validation, test."""
    try:
        values = [float(item) for item in text.split(",")]
    except ValueError as error:
        raise UsageError(
            f"cannot read the split {text!r}: write four shares or counts such as 0.3,0.25,0.2,0.25"
        ) from error
    if len(values) != len(PARTS):
        raise UsageError(f"a split has four numbers (fit, attack, validation, test), {text!r} has {len(values)}")
    return dict(zip(PARTS, values, strict=True))


def _sizes(shares: Mapping[str, float] | Sequence[float], usable: int, all_names: int) -> dict[str, int]:
    given = dict(shares) if isinstance(shares, Mapping) else dict(zip(PARTS, shares, strict=False))
    if len(shares) != len(PARTS) or set(given) != set(PARTS) or not all(0 < v < math.inf for v in given.values()):
        raise SplitError(f"a split needs a positive share or count for each of {', '.join(PARTS)}, got {shares}")
    need = _LEAST * len(PARTS)
    if usable < need:
        raise SplitError(
            f"an audit needs at least {need} identities with two or more images ({_LEAST} in each of {', '.join(PARTS)}); "
            f"the table has {usable} of {all_names}"
        )
    if max(given.values()) > 1:  # counts
        if any(value != int(value) for value in given.values()):
            raise SplitError(f"a split is four shares or four whole numbers of identities, got {given}")
        sizes = {name: int(given[name]) for name in PARTS}
        if min(sizes.values()) < _LEAST or sum(sizes.values()) > usable:
            raise SplitError(
                f"split counts {sizes} ask for {sum(sizes.values())} identities, at least {_LEAST} each; "
                f"the table has {usable} with two or more images"
            )
        return sizes
    if sum(given.values()) > 1 + 1e-9:
        raise SplitError(f"split shares add up to {sum(given.values()):g}, more than 1")
    sizes = {name: max(_LEAST, int(round(given[name] * usable, 6))) for name in PARTS}
    while sum(sizes.values()) > usable:  # tiny tables: the minimum of two made it too many
        sizes[max(sizes, key=lambda name: sizes[name])] -= 1
    if sum(given.values()) > 1 - 1e-9:
        sizes["test"] += usable - sum(sizes.values())
    return sizes


def read_manifest(path: Path) -> list[tuple[str, str, str]]:
    """Read (sample, identity, split) rows of a manifest."""
    if not path.is_file():
        raise FormatError(f"no split manifest at {path}")
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            missing = {"sample", "identity", "split"} - set(reader.fieldnames or ())
            if missing:
                raise FormatError(f"{path} lacks the columns {', '.join(sorted(missing))}")
            return [(row["sample"], row["identity"], row["split"]) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{path} is not a CSV file: {error}") from error
