"""From a listing of people to a prepared data set: draw, divide, record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from faceblind._errors import DataError, SplitError
from faceblind.data.datasets.draw import RULE, RULE_TEXT, Drawing, Drawn, Progress
from faceblind.data.datasets.facts import Facts
from faceblind.data.datasets.listing import Listing
from faceblind.data.datasets.output import LABELS, SPLIT, Prepared, Record, label_table, split_table
from faceblind.data.datasets.request import LEAST_PEOPLE, Request
from faceblind.data.split import PARTS

_DRAWING_ORDER = ("test", "validation", "fit", "attack")  # more attack people change nobody else's part

_CAUSES = ("same_picture_two_identities", "listed_file_missing", "label_mismatch", "damaged_image")

Place = Callable[[Drawn], tuple[Path, Mapping[str, str]]]
"""Puts the drawn images where they can be embedded from; returns the root and the file of each drawn name."""


def prepare_people(
    listing: Listing, facts: Facts, request: Request, *, progress: Progress, place: Place | None = None
) -> Prepared:
    """Draw people and images and divide the people into parts.

    Raises
    ------
    SplitError
        Too few people.
    DataError
        Nobody at all.
    """
    if not listing.people:
        raise DataError(f"{listing.root} holds no images of anybody")
    notes = listing.notes
    notes.compare(facts, listing.counts)
    struck = _struck(listing, request)
    drawing = Drawing(listing, seed=request.seed, images=request.images_of(facts), struck=struck, progress=progress)
    if request.check == "all":
        drawing.look_at_everything()
    try:
        drawn, parts = _divided(listing, drawing, facts, request)
    except SplitError as error:
        drawing.note()  # what was found may be why there are too few
        causes = [finding.message for finding in notes.findings() if finding.kind in _CAUSES]
        raise SplitError("; ".join([str(error), *causes])) from error
    drawing.note()
    root, file_of = place(drawn) if place else (listing.root, {})
    records = [
        Record(
            id=listing.id_of(name),
            identity=person,
            file=file_of.get(name, name),
            split=parts[person],
            size=drawn.looks[name].size,
            sha256=drawn.looks[name].sha256.hex(),
        )
        for person, names in drawn.people.items()
        if person in parts
        for name in names
    ]
    records.sort(key=lambda record: record.file)
    return Prepared(
        facts=facts,
        root=root,
        records=records,
        tables={LABELS: label_table(records), SPLIT: split_table(records)},
        embed=(LABELS,),
        findings=notes.findings(),
        counts={"found": dict(listing.counts), "drawn": _counts(records)},
        settings=request.settings(facts),
        rule={"name": RULE, "text": RULE_TEXT},
    )


def _divided(listing: Listing, drawing: Drawing, facts: Facts, request: Request) -> tuple[Drawn, dict[str, str]]:
    """Draw people, and give each a part."""
    if listing.given:
        drawn = drawing.first(len(drawing.able))
        return drawn, _given_parts(listing, drawn)
    sizes, wanted = request.sizes(facts, len(drawing.able))
    drawn = drawing.first(sum(sizes.values()))
    if len(drawn.people) < sum(sizes.values()):  # damage left some people with too few images
        sizes, wanted = request.sizes(facts, len(drawn.people))
    if sum(sizes.values()) < wanted:
        text = ", ".join(f"{name} {sizes[name]}" for name in PARTS)
        listing.notes.add("fewer_people", f"{wanted} were to be drawn; now {text}", count=len(drawn.people))
    return drawn, _parts(list(drawn.people), sizes)


def _struck(listing: Listing, request: Request) -> set[str]:
    struck = {listing.file_of(name) for name in request.leave_out}
    if struck:
        known = {file for files in listing.people.values() for file in files}
        unknown = sorted(struck - known)
        if unknown:
            raise DataError(
                f"{len(unknown)} of {len(struck)} images to leave out are not in {listing.root}: {', '.join(unknown[:5])}"
            )
        listing.notes.extend("left_out", sorted(struck))
    return struck


def _parts(people: list[str], sizes: Mapping[str, int]) -> dict[str, str]:
    parts: dict[str, str] = {}
    start = 0
    for name in _DRAWING_ORDER:
        parts |= dict.fromkeys(people[start : start + sizes[name]], name)
        start += sizes[name]
    return parts


def _given_parts(listing: Listing, drawn: Drawn) -> dict[str, str]:
    """Return the parts that the data set itself names; fit people are divided when it knows no attack."""
    parts = {person: listing.given[person] for person in drawn.people if listing.given.get(person)}
    if "attack" not in parts.values():
        fit = [person for person, part in parts.items() if part == "fit"]
        parts |= dict.fromkeys(fit[len(fit) // 2 :], "attack")
        listing.notes.add("split_lacks_part", "attack")
    for name in PARTS:
        number = sum(part == name for part in parts.values())
        if number < LEAST_PEOPLE:
            raise SplitError(
                f"{listing.root}: the column split gives {number} people with enough images to {name}, at least "
                f"{LEAST_PEOPLE} are needed in each of {', '.join(PARTS)}"
            )
    return parts


def _counts(records: list[Record]) -> dict[str, dict[str, int]]:
    images = Counter(record.split for record in records)
    people = {name: len({record.identity for record in records if record.split == name}) for name in PARTS}
    return {name: {"identities": people[name], "images": images[name]} for name in PARTS}
