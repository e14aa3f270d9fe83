"""The recipe of a training run: what is released, which network, which loss, and how it is optimised."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from faceblind._errors import UsageError
from faceblind.encoders.device import PRECISIONS


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
        for name in ("height", "width_px", "width", "embedding", "batch"):
            if getattr(self, name) < 1:
                raise UsageError(f"recipe: {name} must be at least 1, got {getattr(self, name)}")
        if self.batch < 2:
            raise UsageError("recipe: batch must be at least 2, since normalisation compares faces of a batch")
        if self.epochs < 0 or self.warmup < 0:
            raise UsageError(f"recipe: epochs and warmup must not be negative, got {self.epochs} and {self.warmup}")
        for name in ("lr", "noise_lr", "s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise UsageError(f"recipe: {name} must be positive, got {getattr(self, name)}")
        if not (0 <= self.momentum < 1 and 0 <= self.dropout < 1 and self.weight_decay >= 0):
            raise UsageError("recipe: momentum and dropout must be in [0, 1) and weight_decay not negative")
        if self.precision not in PRECISIONS:
            raise UsageError(f"recipe: precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        if list(self.lr_steps) != sorted(set(self.lr_steps)):
            raise UsageError(f"recipe: lr_steps must rise, got {self.lr_steps}")

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
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise UsageError(f"recipe: unknown {', '.join(unknown)}; there are {', '.join(sorted(known))}")
        given = dict(values)
        if "lr_steps" in given:
            given["lr_steps"] = tuple(given["lr_steps"])
        try:
            return cls(**given)
        except TypeError as error:
            raise UsageError(f"recipe: {error}") from error

    @property
    def digest(self) -> str:
        """SHA-256 of the recipe: a run goes on only with its own."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()


PAPER = Recipe(backbone="resnet50")
"""The paper: ResNet-50, ArcFace, mean budget 0.5, calibrated noise. What it leaves open is as in the published code."""
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
