"""What to draw: how many people, how many images of each, and how the people are divided."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from faceblind._errors import DataError, FormatError, SplitError, UsageError
from faceblind.data.datasets.facts import PAPER_SIZES, Facts
from faceblind.data.split import DEFAULT_SHARES, PARTS

LEAST_PEOPLE, LEAST_IMAGES = 2, 2
_CHECKS = ("drawn", "all")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for; None leaves it to the data set.

    Attributes
    ----------
    images : int, "all" or None
        Images of each person (exactly that many).
    people : str or None
        ``"320,80,80"`` (fit, validation, test; attack gets as many as fit, of those left), four numbers in the order of
        `PARTS`, one number (divided like the default), or ``"all"``.
    check : "drawn" or "all"
        Which files are opened.
    leave_out : sample keys or file names that must not be drawn
    queries : "dev" or "final"
        Which queries of DISC2021.
    """

    seed: int = 0
    images: int | str | None = None
    people: str | None = None
    check: str = "drawn"
    leave_out: frozenset[str] = frozenset()
    queries: str = "dev"

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UsageError(f"a seed is 0 or more, got {self.seed}")
        if isinstance(self.images, str) and self.images != "all":
            raise UsageError(f"images is a number or 'all', got {self.images!r}")
        if isinstance(self.images, int) and self.images < 1:
            raise UsageError(f"at least one image must be drawn, got {self.images}")
        if self.check not in _CHECKS:
            raise UsageError(f"check is one of {', '.join(_CHECKS)}, got {self.check!r}")
        if self.queries not in ("dev", "final"):
            raise UsageError(f"queries is dev or final, got {self.queries!r}")

    def images_of(self, facts: Facts) -> int | None:
        """Return how many images to draw; None for all."""
        if self.images is None:
            return facts.images
        return None if isinstance(self.images, str) else self.images

    def sizes(self, facts: Facts, able: int) -> tuple[dict[str, int], int]:
        """Return the people of each part when `able` can be drawn, and how many were wanted.

        Raises
        ------
        SplitError
            Fewer than asked for by number, or than two for every part.
        UsageError
            `people` cannot be read.
        """
        if able < LEAST_PEOPLE * len(PARTS):
            raise SplitError(
                f"{able} people have enough images; at least {LEAST_PEOPLE * len(PARTS)} are needed "
                f"({LEAST_PEOPLE} in each of {', '.join(PARTS)}); ask for fewer images of each"
            )
        default = facts.sizes
        if self.people is None:
            return _default_sizes(default, able)
        if self.people.strip() == "all":
            return divide(able, DEFAULT_SHARES), able
        numbers = _numbers(self.people)
        if len(numbers) == 1:
            wanted = divide(max(numbers[0], LEAST_PEOPLE * len(PARTS)), default or DEFAULT_SHARES)
        elif len(numbers) == 3:
            fit, validation, test = numbers
            attack = min(fit, able - sum(numbers))
            wanted = dict(zip(PARTS, (fit, max(attack, LEAST_PEOPLE), validation, test), strict=True))
        else:
            wanted = dict(zip(PARTS, numbers, strict=True))
        if min(wanted.values()) < LEAST_PEOPLE:
            raise SplitError(f"every part needs at least {LEAST_PEOPLE} people, got {_listed(wanted)}")
        if sum(wanted.values()) > able:
            raise SplitError(
                f"{_listed(wanted)} are {sum(wanted.values())} people, but only {able} have enough images; ask for fewer "
                "people, or for fewer images of each"
            )
        return wanted, sum(wanted.values())

    def settings(self, facts: Facts) -> dict[str, object]:
        """Return what was asked for, as the manifest records it."""
        found: dict[str, object] = {"seed": self.seed, "images": self.images_of(facts) or "all", "check": self.check}
        if facts.people:
            found["people"] = self.people or "default"
        if facts.name == "disc2021":
            found["queries"] = self.queries
        if self.leave_out:
            found["left_out"] = sorted(self.leave_out)
        return found


def read_leave_out(path: str | Path) -> frozenset[str]:
    """Read names of images to leave out: a CSV file with a column sample or path, as `embed` lists what it skipped.

    Raises
    ------
    FormatError
        No such column, or not a CSV file.
    DataError
        No such file.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"no such file: {path}")
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            column = next((name for name in ("sample", "path") if name in (reader.fieldnames or ())), None)
            if column is None:
                raise FormatError(f"{path} must have a column sample or path that names the images to leave out")
            return frozenset(row[column] for row in reader if row[column])
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{path} is not a UTF-8 CSV file: {error}") from error


def divide(people: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Divide people in proportion to `shares`, at least two in each part; what rounding leaves goes to fit."""
    total = sum(shares.values())
    sizes = {name: max(LEAST_PEOPLE, int(round(people * shares[name] / total, 6))) for name in PARTS}
    while sum(sizes.values()) > people:
        sizes[max(sizes, key=lambda name: sizes[name])] -= 1
    sizes["fit"] += people - sum(sizes.values())
    return sizes


def _default_sizes(default: Mapping[str, int] | None, able: int) -> tuple[dict[str, int], int]:
    if default is None:
        return divide(able, DEFAULT_SHARES), able
    wanted = sum(default.values())
    short = wanted - able
    if short <= 0:
        return dict(default), wanted
    # The three parts that the paper has come first, as long as attackers keep half as many people as the eraser.
    if default == PAPER_SIZES and default["attack"] - short >= default["fit"] / 2:
        return {**default, "attack": default["attack"] - short}, wanted
    return divide(able, default), wanted


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(item) for item in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 3, len(PARTS)) or min(numbers) < 1:
        raise UsageError(
            f"cannot read people {text!r}: write 320,80,80 (fit, validation, test), four numbers ({', '.join(PARTS)}), "
            "one number, or all"
        )
    return numbers


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {sizes[name]}" for name in PARTS)
