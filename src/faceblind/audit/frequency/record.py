"""Records of model folders: read, checked and joined, so that the page can say "not measured" instead of failing later."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from faceblind._errors import FormatError, UsageError
from faceblind.frequency.record import RECORD, SCHEMA, read_json

_FORMATS: Final = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
_LARGEST: Final = 8 << 20
_ALIKE: Final = ("set", "protocol", "flip", "far_target", "rule")


@dataclass(frozen=True)
class Interval:
    """A number with its 95 % interval over people; the ends are None where there are too few people for one."""

    value: float
    low: float | None
    high: float | None

    def scaled(self, by: float) -> Interval:
        """Return the same in another unit."""
        ends = [None if end is None else end * by for end in (self.low, self.high)]
        return Interval(self.value * by, ends[0], ends[1])


@dataclass(frozen=True, eq=False)
class Model:
    """One model of a record.

    Attributes
    ----------
    folder
        Where its pictures are.
    data
        The checked JSON.
    """

    folder: Path
    data: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return its short name, unique in a report."""
        return str(self.data["name"])

    @property
    def title(self) -> str:
        """Return what it is, in words."""
        return str(self.data["title"])

    @property
    def kind(self) -> str:
        """Return the kind of release."""
        return str(self.data["kind"])

    @property
    def config(self) -> Mapping[str, Any]:
        """Return the options of the release."""
        return self.data.get("config") or {}

    @property
    def head(self) -> str:
        """Return the head it was trained with."""
        return str((self.data.get("recipe") or {}).get("head", ""))

    @property
    def noisy(self) -> bool:
        """Whether the release is DCTDP with noise."""
        return self.kind == "dctdp" and bool(self.config.get("noise", True))

    @property
    def eps(self) -> float | None:
        """Return the mean budget of an element, None where the mechanism has none."""
        return float(self.config.get("eps_mean", 0.5)) if self.noisy else None

    @property
    def continued(self) -> bool:
        """Whether training began with another model's weights."""
        return (self.data.get("training") or {}).get("started_from") is not None

    @property
    def variant(self) -> str:
        """Return what kind of DCTDP it is: paper, equal, official, pixels, dc, ones, clean or put-on; else the kind of release.

        Noise that is put on a network without any training under it (no epochs) is a kind of its own, whatever the noise.
        """
        if self.kind != "dctdp":
            return self.kind
        given = self.config
        for name, applies in (
            ("clean", not given.get("noise", True)),
            ("put-on", self.continued and (self.data.get("recipe") or {}).get("epochs") == 0),
            ("official", given.get("official", False)),
            ("pixels", not given.get("frequency", True)),
            ("dc", given.get("keep_dc", False)),
            ("ones", given.get("sensitivity", "range") == "ones"),
            ("equal", given.get("budgets", "learned") == "uniform"),
        ):
            if applies:
                return name
        return "paper"

    def rows(self, part: str) -> list[Mapping[str, Any]]:
        """Return a list of the record (evaluation, attacks, linkage), empty where it was not measured."""
        return list(self.data.get(part) or ())

    def attack(self, name: str) -> Mapping[str, Any] | None:
        """Return one attack, None where it was not run."""
        return next((row for row in self.rows("attacks") if row["attack"] == name), None)

    def floor(self, metric: str = "psnr") -> Interval | None:
        """Return what a constant image reaches."""
        return interval_of((self.data.get("floor") or {}).get(metric))

    def evaluated(self, name: str, protocol: str) -> Mapping[str, Any] | None:
        """Return the row of a set and a protocol, with the noise that its release has, rather without flip; None without one."""
        rows = sorted(self._meant(), key=lambda row: bool(row.get("flip")))
        return next((row for row in rows if (row["set"], row["protocol"]) == (name, protocol)), None)

    def like(self, other: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the row that was measured as another model's row was: set, protocol, flip, FAR and rule; None without one."""
        return next((row for row in self._meant() if all(row.get(key) == other.get(key) for key in _ALIKE)), None)

    def _meant(self) -> list[Mapping[str, Any]]:
        """Return the rows with the noise that the release has."""
        return [r for r in self.rows("evaluation") if r["noise"] or self.kind == "rgb" or self.variant == "clean"]

    def accuracy(self, name: str, protocol: str) -> Interval | None:
        """Return accuracy or the like on a set, as a share, with the noise that its release has."""
        return interval_of(self.evaluated(name, protocol), "accuracy")


def interval_of(row: Mapping[str, Any] | None, key: str = "mean") -> Interval | None:
    """Return a number of a record with its interval, None where it was not measured."""
    if row is None or row.get(key) is None:
        return None
    return Interval(float(row[key]), row.get("low"), row.get("high"))


def read_models(folders: Sequence[Path]) -> tuple[Model, ...]:
    """Read ``record.json`` of every folder.

    Raises
    ------
    UsageError
        No folder.
    FormatError
        A record is missing, damaged, of another layout, or names a model that another folder names too.
    """
    if not folders:
        raise UsageError("a report needs at least one model folder")
    found: dict[str, Model] = {}
    for folder in folders:
        path = Path(folder) / RECORD
        for data in _read(path):
            model = Model(Path(folder), data)
            if model.name in found:
                raise FormatError(
                    f"{path} holds a model {model.name!r}, as does {found[model.name].folder / RECORD}; name each model "
                    "once, or rename a folder and evaluate it again"
                )
            found[model.name] = model
    return tuple(found.values())


def picture(model: Model, path: str) -> str | None:
    """Return a picture of a model folder as a data address; None where it is missing, leads out of the folder or is no picture."""
    try:
        root = model.folder.resolve()
        place = (root / path).resolve()
        if not place.is_relative_to(root) or not place.is_file() or place.stat().st_size > _LARGEST:
            return None
        content = place.read_bytes()
    except (OSError, ValueError):
        return None
    kind = next((kind for head, kind in _FORMATS.items() if content.startswith(head)), None)
    return None if kind is None else f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _read(path: Path) -> list[Mapping[str, Any]]:
    fix = "make it with: faceblind frequency evaluate, then faceblind frequency attack"
    found = read_json(path, fix)
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise FormatError(f"{path} must have the schema {SCHEMA!r}, got {schema!r}; {fix}")
    models = found.get("models")
    if not isinstance(models, list) or not models:
        raise FormatError(f"{path} holds no models; {fix}")
    for number, model in enumerate(models):
        _check(model, f"{path}, model {number}")
    return models


def _check(model: Any, where: str) -> None:
    if not isinstance(model, dict):
        raise FormatError(f"{where} must be an object, got {type(model).__name__}; make the record again")
    _require(model, ("name", "title", "kind"), where)
    _finite(model, where)
    for part, keys in (
        ("evaluation", ("set", "protocol", "noise")),
        ("attacks", ("attack", "title", "holds")),
        ("linkage", ("attacker", "space", "far_target", "tar")),
    ):
        rows = model.get(part) or []
        if not isinstance(rows, list):
            raise FormatError(f"{where}: {part} must be a list, got {type(rows).__name__}; make the record again")
        for number, row in enumerate(rows):
            _require(row, keys, f"{where}, {part} {number}")
    for part in ("config", "recipe", "account", "training", "floor", "gallery"):
        if not isinstance(model.get(part) or {}, dict):
            raise FormatError(f"{where}: {part} must be an object; make the record again")


def _require(row: Any, keys: Sequence[str], where: str) -> None:
    missing = [key for key in keys if not isinstance(row, dict) or key not in row]
    if missing:
        raise FormatError(f"{where} lacks {', '.join(missing)}; make the record again")


def _finite(value: Any, where: str) -> None:
    """Refuse NaN and infinity, which JSON as Python reads it allows, and intervals that are turned around."""
    if isinstance(value, float) and not math.isfinite(value):
        raise FormatError(f"{where} is {value}; a number that was not measured must be null")
    if isinstance(value, dict):
        low, high = value.get("low"), value.get("high")
        for end in (low, high):
            if end is not None and (isinstance(end, bool) or not isinstance(end, int | float)):
                raise FormatError(
                    f"{where} has an end of an interval that is no number, {end!r}; make the record again"
                )
        if low is not None and high is not None and low > high:
            raise FormatError(f"{where} has an interval from {low} to {high}; the lower end must come first")
        for key, inside in value.items():
            _finite(inside, f"{where}, {key}")
    elif isinstance(value, list):
        for number, inside in enumerate(value):
            _finite(inside, f"{where} [{number}]")
