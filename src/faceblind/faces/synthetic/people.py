"""`SyntheticPeople`: a labelled set of portraits of people who do not exist, rendered one at a time on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import overload

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.faces.synthetic.identity import Identity, identity_of
from faceblind.faces.synthetic.shot import Shot, shot_of

_SIZES = (64, 1024)

_identity_of = lru_cache(maxsize=64)(identity_of)


@dataclass(frozen=True, eq=False)
class Portrait:
    """One synthetic photograph with its ground truth.

    Pixel (column i, row j) covers x in [i, i + 1) and y in [j, j + 1).

    Attributes
    ----------
    image : (H, W, 3) uint8
        sRGB.
    mask : (H, W) bool
        The face that can be seen: skin and features from the hairline to the chin, beards included. Hair, opaque
        spectacle frames, ears, neck and bare scalp are not in it; what is seen through lenses is.
    landmarks : (5, 2) float64
        x and y in pixels of the left eye's centre, right eye's centre, nose tip, left and right corner of the mouth;
        left and right as seen in the image. They are where the features are, also under a frame or closed lids.
    identity : str
        Who it is, e.g. ``"person-0007"``.
    background : int
        Which of the background templates; drawn independently of the identity.
    sample : str
        Unique key and relative path, e.g. ``"person-0007/03.png"``.
    """

    image: NDArray[np.uint8]
    mask: NDArray[np.bool_]
    landmarks: NDArray[np.float64]
    identity: str
    background: int
    sample: str


class SyntheticPeople(Sequence[Portrait]):
    """People who do not exist, each photographed several times.

    Image ``i`` shows person ``i // images_per_person``. It is rendered when asked for, from (seed, person, shot)
    alone, so it is the same bytes in any order, in any process and in a set of any number of people (with the same
    versions of numpy and Pillow).

    Parameters
    ----------
    people, images_per_person : int
        At least 1 each.
    seed : int
        Another seed, other people.
    size : int
        Side of the square images in pixels, 64 to 1024.

    Raises
    ------
    DataError
        A number out of range; the message names it.
    MissingExtraError
        On the first image, when Pillow is not installed.
    """

    def __init__(self, people: int = 100, images_per_person: int = 12, *, seed: int = 0, size: int = 256) -> None:
        for name, value in (("people", people), ("images_per_person", images_per_person)):
            if value < 1:
                raise DataError(f"{name} is {value}: a synthetic set needs at least 1")
        if seed < 0:
            raise DataError(f"seed is {seed}: it must not be negative")
        if not _SIZES[0] <= size <= _SIZES[1]:
            raise DataError(f"size is {size}: synthetic portraits are {_SIZES[0]} to {_SIZES[1]} pixels wide")
        self.people = people
        self.images_per_person = images_per_person
        self.seed = seed
        self.size = size

    def __len__(self) -> int:
        return self.people * self.images_per_person

    @overload
    def __getitem__(self, index: int) -> Portrait: ...
    @overload
    def __getitem__(self, index: slice) -> list[Portrait]: ...
    def __getitem__(self, index: int | slice) -> Portrait | list[Portrait]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"image {index} of a synthetic set of {len(self)}")
        return self.portrait(*divmod(index % len(self), self.images_per_person))

    def __iter__(self) -> Iterator[Portrait]:
        return (self[i] for i in range(len(self)))

    def portrait(self, person: int, shot: int) -> Portrait:
        """Render one image of one person, both counted from 0."""
        from faceblind.faces.synthetic.render import render

        nuisance = self.shot(person, shot)
        rendering = render(self.person(person), nuisance, self.size)
        return Portrait(
            image=rendering.image,
            mask=rendering.mask,
            landmarks=rendering.landmarks,
            identity=identity_name(person),
            background=nuisance.background,
            sample=sample_name(person, shot),
        )

    def landmarks(self, person: int, shot: int) -> NDArray[np.float64]:
        """Landmarks of one image, (5, 2), without rendering it."""
        from faceblind.faces.synthetic.render import landmarks_of

        return landmarks_of(self.person(person), self.shot(person, shot), self.size)

    def person(self, person: int) -> Identity:
        """Traits of one person."""
        return _identity_of(self.seed, person)

    def shot(self, person: int, shot: int) -> Shot:
        """Pose, expression, light, place, dress and camera of one image."""
        return shot_of(self.seed, person, shot)


def identity_name(person: int) -> str:
    """Label of a person."""
    return f"person-{person:04d}"


def sample_name(person: int, shot: int) -> str:
    """Key of an image and its path within a rendered folder."""
    return f"{identity_name(person)}/{shot:02d}.png"
