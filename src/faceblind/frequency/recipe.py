"""The recipe of a training run: what is released, which network, which loss, and how it is optimised."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any

from faceblind._errors import UsageError
from faceblind.encoders.device import PRECISIONS

_INF = float("inf")
_INTEGERS = {"height": 1, "width_px": 1, "width": 1, "embedding": 1, "batch": 2, "epochs": 0, "seed": 0}
"""Least value of each whole number; a batch needs two faces, since normalisation compares them."""
_NUMBERS = {
    "dropout": (0, 1),
    "s": (0, _INF),
    "m": (0, _INF),
    "lr": (0, _INF),
    "momentum": (0, 1),
    "weight_decay": (0, _INF),
    "noise_lr": (0, _INF),
    "warmup": (0, _INF),
}


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what comes out, but for the faces. JSON both ways.

    Attributes
    ----------
    release, config
        Kind of release and its options; see `faceblind.frequency.releases.registry`.
    height, width_px
        Size of the images.
    normalise
        Bring every released channel to unit variance before the network; see `make_backbone`.
    lr_steps
        Epochs after which learning rates are divided by ten.
    noise_lr
        Learning rate of what the release learns (Adam, no weight decay).
    warmup
        Epochs over which the learning rates rise to their value; none in the paper.
    precision
        The published code trains in mixed precision: ``float16`` on a GPU. ``bfloat16`` also runs on a CPU,
        but far slower than ``float32`` on one that has no arithmetic for it.
    weight_decay
        Of matrices and kernels; biases, normalisations and the slopes of PReLU have none. (The published code spares
        normalisations alone.)

    Raises
    ------
    UsageError
        A value of another type or out of range; the message names it and the rule.
    """

    release: str = "dctdp"
    config: Mapping[str, Any] = field(default_factory=dict)
    height: int = 112
    width_px: int = 112
    backbone: str = "ir50"
    width: int = 64
    normalise: bool = False
    embedding: int = 512
    dropout: float = 0.4
    head: str = "arcface"
    s: float = 64.0
    m: float = 0.4
    batch: int = 64
    epochs: int = 24
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    lr_steps: tuple[int, ...] = (10, 18, 22)
    noise_lr: float = 0.1
    warmup: float = 0.0
    flip: bool = True
    precision: str = "float32"
    seed: int = 1337

    def __post_init__(self) -> None:
        for name, least in _INTEGERS.items():
            self._set(name, int(self._checked(name, Integral, "a whole number")))
            if getattr(self, name) < least:
                raise UsageError(f"recipe: {name} must be at least {least}, got {getattr(self, name)}")
        for name, (low, high) in _NUMBERS.items():
            self._set(name, float(self._checked(name, Real, "a number")))
            if not low <= getattr(self, name) < high:
                rule = f"at least {low:g}" + (f" and less than {high:g}" if high < _INF else " and finite")
                raise UsageError(f"recipe: {name} must be {rule}, got {getattr(self, name)}")
        for name in ("lr", "noise_lr", "s"):
            if getattr(self, name) == 0:
                raise UsageError(f"recipe: {name} must be positive, got 0")
        for name in ("release", "backbone", "head", "precision"):
            self._checked(name, str, "a name")
        for name in ("normalise", "flip"):
            self._checked(name, bool, "true or false")
        if self.precision not in PRECISIONS:
            raise UsageError(f"recipe: precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        steps = self.lr_steps
        if not isinstance(steps, list | tuple) or any(
            isinstance(s, bool) or not isinstance(s, Integral) for s in steps
        ):
            raise UsageError(f"recipe: lr_steps must be a list of epochs, got {steps!r}")
        self._set("lr_steps", tuple(int(step) for step in steps))
        if list(self.lr_steps) != sorted(set(self.lr_steps)):
            raise UsageError(f"recipe: lr_steps must rise, got {self.lr_steps}")
        try:
            # A copy, so that nobody changes it afterwards, and the same one that comes back from a file.
            self._set("config", dict(json.loads(json.dumps(dict(self.config), allow_nan=False))))
        except (TypeError, ValueError) as error:
            raise UsageError(f"recipe: config must be options as JSON values, got {self.config!r}: {error}") from error

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _checked(self, name: str, kind: type, what: str) -> Any:
        value = getattr(self, name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise UsageError(f"recipe: {name} must be {what}, got {value!r}")
        return value

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the images."""
        return self.height, self.width_px

    def factor(self, progress: float) -> float:
        """Return what learning rates are multiplied by after `progress` epochs."""
        rise = min(1.0, progress / self.warmup) if self.warmup else 1.0
        return rise * 0.1 ** sum(progress >= step for step in self.lr_steps)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self) | {"config": dict(self.config), "lr_steps": list(self.lr_steps)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """Read what `to_dict` gave; what is left out has its default.

        Raises
        ------
        UsageError
            Names that no recipe has, or values out of range.
        """
        if not isinstance(values, Mapping):
            raise UsageError(f"recipe: must be an object with names and values, got {type(values).__name__}")
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise UsageError(f"recipe: unknown {', '.join(unknown)}; there are {', '.join(sorted(known))}")
        return cls(**values)

    @property
    def digest(self) -> str:
        """SHA-256 of the recipe: a run goes on only with its own."""
        return digest_of(self.to_dict())


def digest_of(values: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a recipe's JSON values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


PAPER = Recipe(backbone="resnet50")
"""The paper: ResNet-50, ArcFace, mean budget 0.5, calibrated noise. What it leaves open is as in the published code, but for
the precision, which depends on the machine."""
OFFICIAL = Recipe(config={"eps_mean": 4.0, "official": True})
"""The published code: IR-50, ranges of one, learnt offsets, one draw for a batch."""
SMALL = replace(
    PAPER,
    backbone="ir18",
    width=16,
    normalise=True,
    height=64,
    width_px=64,
    embedding=128,
    dropout=0.2,
    s=32.0,
    m=0.2,
    batch=32,
    epochs=12,
    lr_steps=(8, 11),
    lr=0.05,
    warmup=1.0,
)
"""For a few thousand faces and a processor: what the project's own trial runs with."""
RECIPES: Mapping[str, Recipe] = {"paper": PAPER, "official": OFFICIAL, "small": SMALL}
