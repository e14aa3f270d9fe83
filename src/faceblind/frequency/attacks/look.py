"""The simplest attack: look at it, as the mechanism's own inverse shows it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import UsageError
from faceblind.frequency.attacks.base import Progress, Public, View
from faceblind.frequency.attacks.common import in_frequency
from faceblind.frequency.batches import images_of
from faceblind.frequency.releases.base import Release


class Look:
    """Show a release by `Release.picture`; for coefficients that is the inverse DCT, which has an entry of its own."""

    name = "look"
    title = "Looking at it"
    holds = "the release"

    def __init__(self) -> None:
        self._release: Release | None = None

    def fits(self, release: Release) -> bool:
        """Releases that are pictures."""
        return not in_frequency(release)

    def prepare(self, release: Release, public: Public, *, seed: int, progress: Progress | None = None) -> None:
        """Nothing is learnt."""
        self._release = release

    def recover(self, view: View) -> NDArray[np.float32]:
        """Show every release."""
        picture = None if self._release is None else self._release.picture(view.released)
        if picture is None:
            raise UsageError("prepare(...) the attack first, on a release that can be shown as a picture")
        return images_of(picture)
