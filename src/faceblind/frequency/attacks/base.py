"""What every attack on a release offers.

An attacker knows the mechanism (white box, Kerckhoffs) or only what it released for images of the attacker's own
(black box). Attacks that assume more, such as the right guess of a person, say so in `holds`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from faceblind.frequency.batches import tensor_of
from faceblind.frequency.releases.base import Release

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Public:
    """Faces of other people that the attacker owns.

    Attributes
    ----------
    pixels : (n, H, W, 3) uint8
    identity : (n,) str
    """

    pixels: NDArray[np.uint8]
    identity: NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class View:
    """What there is to attack.

    Attributes
    ----------
    released : (b, C, h, w) float32
        One release of each face, made in one batch.
    again : callable
        ``again(m)`` gives another m releases of the same faces, (m, b, C, h, w): an attacker who sees a face m times.
    right : (b, H, W, 3) uint8
        The faces themselves; only for attacks that assume that the attacker holds (part of) them, and to score.
    wrong : (b, H, W, 3) uint8
        Faces of other people, one for each: wrong guesses.
    """

    released: Tensor
    again: Callable[[int], Tensor]
    right: NDArray[np.uint8]
    wrong: NDArray[np.uint8]

    @classmethod
    def of(
        cls, release: Release, right: NDArray[np.uint8], wrong: NDArray[np.uint8], generator: torch.Generator
    ) -> View:
        """Release a batch, as often as it is asked for."""
        pixels = tensor_of(right)

        def again(m: int) -> Tensor:
            with torch.no_grad():
                return torch.stack([release(pixels, generator).tensor for _ in range(m)])

        return cls(again(1)[0], again, right, wrong)


class Attack(Protocol):
    """A way to recover faces from a release."""

    @property
    def name(self) -> str:
        """Short name for records and the command line."""
        ...

    @property
    def title(self) -> str:
        """Name in reports."""
        ...

    @property
    def holds(self) -> str:
        """What the attacker must hold, in words; an attack that is given part of the answer says so here."""
        ...

    def fits(self, release: Release) -> bool:
        """Tell whether the attack applies to a mechanism."""
        ...

    def prepare(self, release: Release, public: Public, *, seed: int, progress: Progress | None = None) -> None:
        """Learn from the attacker's own faces what the attack needs."""
        ...

    def recover(self, view: View) -> NDArray[np.float32]:
        """Recover the faces: (b, H, W, 3) in 0..255, clipped."""
        ...
