"""The rule by which people and images are drawn.

People, and the images of a person, stand in the order of SHA-256 of the seed and their name; the first that are sound are
taken. The order of one person's images does not depend on anybody else's, nor on where the data set lies, nor on any
library: whoever has the same files and the same seed draws the same ones. A damaged file is replaced by the next of the
same person; a person who has too few left is replaced by the next person. Files that are identical to a file of another
person are struck for everybody, because nobody knows whose they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from faceblind.data.datasets.listing import Listing
from faceblind.data.datasets.looking import Look
from faceblind.data.datasets.request import LEAST_IMAGES

RULE = "faceblind.draw/1"
RULE_TEXT = (
    "identities with enough images in the order of SHA-256 of seed and name, divided into test, validation, fit and attack in "
    "that order; images of each in the order of SHA-256 of seed, identity and id, the first sound ones; files identical to "
    "another identity's are drawn for nobody"
)
Progress = Callable[[str, int, int], None]
WRONG_LABEL = "carries the label"
_SHOWN = 4


def order(seed: int, names: Sequence[str], *above: str) -> list[int]:
    """Return the positions of `names` in drawing order; `above` names what they belong to."""
    lead = "\n".join((RULE, str(seed), *above, "")).encode()
    keys = [hashlib.sha256(lead + name.encode("utf-8", "surrogateescape")).digest() for name in names]
    return sorted(range(len(names)), key=lambda place: (keys[place], names[place]))


@dataclass(frozen=True, eq=False)
class Drawn:
    """People in drawing order with their files, and what was seen of each file."""

    people: dict[str, tuple[str, ...]]
    looks: dict[str, Look]


class Drawing:
    """One draw; looks at each file once."""

    def __init__(
        self,
        listing: Listing,
        *,
        seed: int,
        images: int | None,
        struck: Collection[str] = (),
        progress: Progress = lambda _what, _done, _of: None,
    ) -> None:
        self._listing, self._seed, self._images, self._progress = listing, seed, images, progress
        self._struck = set(struck)
        self._looks: dict[str, Look] = {}
        self._owner: dict[str, str] = {}
        self._picks: dict[str, tuple[str, ...] | None] = {}
        names = sorted(listing.people)
        able = [name for name in names if len(listing.people[name]) >= (images or LEAST_IMAGES)]
        self.able = [able[place] for place in order(seed, able)]
        self._short = len(names) - len(able)

    def look_at_everything(self) -> None:
        """Look at every file of every identity before anything is drawn."""
        done, total = 0, sum(map(len, self._listing.people.values()))
        for name in sorted(self._listing.people):
            for file in self._listing.people[name]:
                self._look(file, name)
                done += 1
            self._progress("checking all images", done, total)
        self._struck |= self._shared().keys()

    def first(self, wanted: int) -> Drawn:
        """Draw that many people, or as many as there are.

        Goes on until no file of the drawn people is identical to a file of somebody else that was opened.
        """
        while True:
            drawn: dict[str, tuple[str, ...]] = {}
            for name in self.able:
                if len(drawn) == wanted:
                    break
                if name not in self._picks:
                    self._progress("checking images", len(drawn), wanted)
                    self._picks[name] = self._pick(name)
                pick = self._picks[name]
                if pick is not None:
                    drawn[name] = pick
            shared = {file: name for file, name in self._shared().items() if file not in self._struck}
            if not shared:
                return Drawn(drawn, self._looks)
            self._struck |= shared.keys()
            for name in shared.values():
                self._picks.pop(name, None)

    def note(self) -> None:
        """Note what was wrong with the files that were opened, drawn or not."""
        notes = self._listing.notes
        fewer = self._short + sum(pick is None for pick in self._picks.values())
        if fewer:
            notes.add("too_few_images", count=fewer)
        unopened = sum(map(len, self._listing.people.values())) - len(self._looks)
        if unopened:
            notes.add("not_checked", count=unopened)
        alike: dict[bytes, list[str]] = {}
        for file, found in sorted(self._looks.items()):
            if found.problem is None:
                alike.setdefault(found.sha256, []).append(file)
            else:
                kind = "label_mismatch" if found.problem.startswith(WRONG_LABEL) else "damaged_image"
                notes.add(kind, f"{file} {found.problem}")
        for files in alike.values():
            if len({self._owner[file] for file in files}) > 1:
                who = [f"{file} ({self._owner[file]})" for file in files[:_SHOWN]]
                notes.add("same_picture_two_identities", " = ".join(who), count=len(files))
            elif len(files) > 1:
                notes.add("same_picture_one_identity", " = ".join(files[:_SHOWN]), count=len(files) - 1)

    def _look(self, file: str, name: str) -> Look:
        if file not in self._looks:
            self._looks[file] = self._listing.look(file, name)
            self._owner[file] = name
        return self._looks[file]

    def _pick(self, name: str) -> tuple[str, ...] | None:
        files = self._listing.people[name]
        taken: dict[bytes, str] = {}
        for place in order(self._seed, [self._listing.id_of(file) for file in files], name):
            file = files[place]
            if file in self._struck:
                continue
            found = self._look(file, name)
            if found.problem is None:
                taken.setdefault(found.sha256, file)
            if len(taken) == self._images:
                break
        return tuple(taken.values()) if len(taken) >= (self._images or LEAST_IMAGES) else None

    def _shared(self) -> dict[str, str]:
        """Return files that were opened, with their identities, that are identical to a file of another identity."""
        first: dict[bytes, tuple[str, str]] = {}
        shared: dict[str, str] = {}
        for file, found in self._looks.items():
            name = self._owner[file]
            if found.problem is None:
                other, who = first.setdefault(found.sha256, (file, name))
                if who != name:
                    shared |= {other: who, file: name}
        return shared
