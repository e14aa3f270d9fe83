"""The paper's protocol (arXiv 2604.05296) as settings, with what the paper leaves open made explicit.

People are divided into train, validation and test; the eraser and the probe both learn from train, hyper-parameters and
thresholds are frozen on validation, test is measured. All different-person pairs are scored, none is sampled, unless the
paper's own sampling is asked for beside it (`as_printed`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from faceblind._errors import UsageError

TABLES = ("1", "4", "5", "6", "8", "9")
LAYOUT = "faceblind.papers/1"
Rule = Literal["at-most", "nearest"]
RULES: tuple[Rule, ...] = ("at-most", "nearest")
_LEAST_PEOPLE = 4
_LISTS = ("ks", "ranks", "fit_people", "rank", "cross", "rule")  # they choose cells, and change none


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Settings of a reproduction; the defaults are the paper's where it says, and ours where it does not.

    Attributes
    ----------
    far : float
        FAR of the TAR tables.
    pauc_far : float
        End of the FAR range of the partial area under the ROC.
    people : (train, validation, test)
        Identities; scaled down in proportion when a data set has fewer.
    images : int
        Images per identity, drawn with the seed from those that have more.
    least : int
        People with fewer images than this are not used.
    ks : images per training identity of the probes
    seeds : int
        Draws of those k images, averaged.
    rank : int or None
        Dimensions to remove; None takes 192, or half the dimensions or what the train people support, if less.
    ranks : ranks of Table 5 (0 is raw)
    fit_people : numbers of identities of Table 6
    cross : bool
        Whether Table 1 has ISP-X columns, which need a second data set of the same encoder.
    draws : int
        Bootstrap draws of people.
    as_printed : bool
        Also measure with the paper's sampled impostors.
    impostors : int or None
        Random impostors per image of that protocol; None takes 10 for data sets whose name starts with ``vgg`` and 4
        for others, which gives the paper's 16,000 and 6,400.
    resamplings : int
        How often impostors are sampled, to see how far the printed number depends on it.
    rule : {"at-most", "nearest"}
        Which threshold rule on sampled impostors is shown; both are recorded.
    """

    seed: int = 0
    far: float = 1e-4
    pauc_far: float = 1e-3
    people: tuple[int, int, int] = (320, 80, 80)
    images: int = 20
    least: int = 2
    ks: tuple[int, ...] = (1, 4, 16)
    seeds: int = 5
    rank: int | None = None
    ranks: tuple[int, ...] = (0, 64, 96, 128, 192)
    fit_people: tuple[int, ...] = (320, 640, 1280, 2000)
    cross: bool = True
    draws: int = 1000
    as_printed: bool = False
    impostors: int | None = None
    resamplings: int = 200
    rule: Rule = "at-most"

    def __post_init__(self) -> None:
        for name in ("far", "pauc_far"):
            if not 0 < getattr(self, name) < 1:
                raise UsageError(f"a false accept rate lies between 0 and 1, got {getattr(self, name)}")
        if len(self.people) != 3 or min(self.people) < _LEAST_PEOPLE:
            raise UsageError(
                f"people are three numbers (train, validation, test), at least {_LEAST_PEOPLE} each, got {self.people}"
            )
        if not self.ks or min(self.ks) < 1:
            raise UsageError(f"images per identity (k) must be at least 1, got {self.ks}")
        if self.images < 2 or not 2 <= self.least <= self.images:
            raise UsageError(
                f"people need at least 2 images, and no more than `images` can be asked of them: got images={self.images}, "
                f"least={self.least}"
            )
        if self.seeds < 1 or self.draws < 100 or self.resamplings < 1:
            raise UsageError("at least one seed, 100 bootstrap draws and one sample of impostors are needed")
        if not self.ranks or min(self.ranks) < 0 or (self.rank is not None and self.rank < 1):
            raise UsageError(f"ranks are 0 (raw) or more, got {self.ranks} and rank {self.rank}")
        if not self.fit_people or min(self.fit_people) < 2:
            raise UsageError(f"an eraser is fitted on at least two identities, got {self.fit_people}")
        if self.impostors is not None and self.impostors < 1:
            raise UsageError(f"sampled impostors are at least one per image, got {self.impostors}")
        if self.rule not in RULES:
            raise UsageError(f"the threshold rule is one of {', '.join(RULES)}, got {self.rule!r}")

    def impostors_for(self, dataset: str) -> int:
        """Return how many random impostors each image of a data set gets in the paper's sampled protocol."""
        if self.impostors is not None:
            return self.impostors
        return 10 if dataset.lower().startswith("vgg") else 4

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    def decides(self) -> dict[str, Any]:
        """Return what decides the number in a cell: everything but the lists of cells to make."""
        return {key: value for key, value in self.to_dict().items() if key not in _LISTS}


def parse_people(text: str) -> tuple[int, int, int]:
    """Read ``320,80,80``."""
    found = parse_numbers(text, "people", "320,80,80")
    if len(found) != 3:
        raise UsageError(f"people are three numbers (train, validation, test), {text!r} has {len(found)}")
    return found[0], found[1], found[2]


def parse_numbers(text: str, what: str, example: str) -> tuple[int, ...]:
    """Read comma-separated whole numbers."""
    try:
        return tuple(int(item) for item in text.split(","))
    except ValueError as error:
        raise UsageError(f"cannot read {what} {text!r}: write for example {example}") from error


def parse_tables(text: str) -> tuple[str, ...]:
    """Read the numbers of tables, comma-separated, or ``all``."""
    if text.strip() == "all":
        return TABLES
    found = tuple(dict.fromkeys(item.strip() for item in text.split(",")))
    unknown = [item for item in found if item not in TABLES]
    if unknown:
        raise UsageError(f"no layout for table {', '.join(unknown)}; there are {', '.join(TABLES)}, and all")
    return found
