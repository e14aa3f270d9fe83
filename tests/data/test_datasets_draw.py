"""The rule: who is drawn, which images, and how people are divided."""

from __future__ import annotations

import hashlib
import random

import pytest
from datasets_trees import crowd, kinds, listing_of
from hypothesis import given
from hypothesis import strategies as st

from faceblind import DataError, SplitError, UsageError
from faceblind.data.datasets import FACTS, Request
from faceblind.data.datasets.draw import Drawing, order
from faceblind.data.datasets.people import prepare_people
from faceblind.data.datasets.request import divide, read_leave_out
from faceblind.data.split import DEFAULT_SHARES, PARTS

PAPER, PLAIN = FACTS["celeba20"], FACTS["folders"]


def silent(_what: str, _done: int, _of: int) -> None: ...


def made(people, request=None, *, facts=PAPER, pictures=None):
    return prepare_people(listing_of(people, pictures), facts, request or Request(), progress=silent)


def parts(prepared):
    found = {name: set() for name in PARTS}
    for record in prepared.records:
        found[record.split].add(record.identity)
    return found


def test_the_order_is_that_of_the_digests():
    names = [f"n{i}" for i in range(50)]
    keys = {name: hashlib.sha256(f"faceblind.draw/1\n7\nann\n{name}".encode()).hexdigest() for name in names}
    assert [names[place] for place in order(7, names, "ann")] == sorted(names, key=keys.__getitem__)
    assert order(7, names, "ann") != order(8, names, "ann")
    assert order(7, names, "ann") != order(7, names, "bob")


def test_exactly_twenty_images_of_each_and_the_papers_sizes():
    found = made(crowd(810, 23))
    sizes = {name: len(people) for name, people in parts(found).items()}
    assert sizes == {"fit": 320, "attack": 320, "validation": 80, "test": 80}
    of = {}
    for record in found.records:
        of.setdefault(record.identity, set()).add(record.file)
    assert {len(files) for files in of.values()} == {20}
    assert not set.intersection(*parts(found).values())
    assert sum(map(len, parts(found).values())) == len(of) == 800
    assert "fewer_people" not in kinds(found.findings)
    assert kinds(found.findings)["not_checked"].count == 810 * 23 - 800 * 20


@given(people=st.integers(8, 40), each=st.integers(2, 6), images=st.integers(1, 5), seed=st.integers(0, 5))
def test_any_draw_is_disjoint_exact_and_repeatable(people, each, images, seed):
    request = Request(seed=seed, images=images)
    if images > each:
        with pytest.raises(SplitError, match="0 people have enough images"):
            made(crowd(people, each), request)
        return
    found = made(crowd(people, each), request)
    assert sum(map(len, parts(found).values())) == people
    assert len(found.records) == people * images == len({record.file for record in found.records})
    names, files = list(crowd(people, each).items()), random.Random(seed)
    files.shuffle(names)
    shuffled = {name: files.sample(list(inner), len(inner)) for name, inner in names}
    assert made(shuffled, request).records == found.records


def test_a_seed_changes_people_and_images():
    one, two = (made(crowd(30, 9), Request(seed=seed, images=4, people="5,5,5")) for seed in (0, 1))
    assert parts(one) != parts(two)
    both = {r.identity for r in one.records} & {r.identity for r in two.records}
    assert any(
        {r.file for r in one.records if r.identity == name} != {r.file for r in two.records if r.identity == name}
        for name in both
    )


def test_what_one_person_lacks_changes_nobody_else():
    people = crowd(30, 9)
    before = made(people, Request(images=4, people="5,5,5"))
    drawn = [r for r in before.records if r.identity == before.records[0].identity]
    fewer = {**people, drawn[0].identity: [file for file in people[drawn[0].identity] if file != drawn[0].file]}
    after = made(fewer, Request(images=4, people="5,5,5"))
    assert [r for r in before.records if r not in drawn] == [
        r for r in after.records if r.identity != drawn[0].identity
    ]
    assert parts(before) == parts(after)


def test_more_attackers_change_nobody_elses_part():
    few, many = (parts(made(crowd(60, 3), Request(images=2, people=f"10,{n},5,5"))) for n in (4, 30))
    assert all(few[name] == many[name] for name in ("fit", "validation", "test"))
    assert few["attack"] < many["attack"]


def test_damaged_images_are_replaced_and_reported():
    people = crowd(20, 6)
    sound = made(people, Request(images=3, people="4,4,4"))
    broken = sound.records[0]
    found = made(people, Request(images=3, people="4,4,4"), pictures={broken.file: b""})
    assert broken.file not in {r.file for r in found.records}
    assert len(found.records) == len(sound.records)
    assert parts(found) == parts(sound)
    finding = kinds(found.findings)["damaged_image"]
    assert (finding.severity, finding.count, finding.examples) == ("warning", 1, (f"{broken.file} is empty",))


def test_people_with_too_few_sound_images_make_place_for_others():
    people = crowd(20, 3)
    sound = made(people, Request(images=3, people="4,2,2,2"))
    gone = sound.records[0]
    found = made(people, Request(images=3, people="4,2,2,2"), pictures={gone.file: b""})
    assert gone.identity not in {r.identity for r in found.records}
    assert len(found.records) == len(sound.records)
    assert kinds(found.findings)["too_few_images"].count == 1


def test_the_same_picture_under_two_names_is_an_error_and_drawn_for_nobody():
    people = crowd(12, 6)
    sound = made(people, Request(images=3))
    first = sound.records[0]
    other = next(r for r in sound.records if r.identity != first.identity)
    same = {first.file: b"same", other.file: b"same"}
    found = made(people, Request(images=3), pictures=same)
    assert not same.keys() & {r.file for r in found.records}
    assert len(found.records) == len(sound.records)
    finding = kinds(found.findings)["same_picture_two_identities"]
    assert (finding.severity, finding.count) == ("error", 2)
    assert all(f"{r.file} ({r.identity})" in finding.examples[0] for r in (first, other))
    assert len({r.sha256 for r in found.records}) == len(found.records)


def test_replacements_that_are_again_the_same_picture_are_found_too():
    people = crowd(9, 6)
    same = {f"p{p}/{i}.jpg": b"s%d" % i for p in (0, 1) for i in range(4)}
    found = made(people, Request(images=2), pictures=same)
    assert len({r.sha256 for r in found.records}) == len(found.records)
    drawn = {r.file for r in found.records}
    assert all(f"p{1 - p}/{i}.jpg" not in drawn for p in (0, 1) for i in range(4) if f"p{p}/{i}.jpg" in drawn)
    assert {sum(r.identity == name for r in found.records) for name in people} == {2}


def test_the_same_picture_twice_of_one_person_counts_once():
    people = crowd(8, 3)
    found = made(people, Request(images=2), pictures={"p0/0.jpg": b"same", "p0/1.jpg": b"same"})
    files = [r.file for r in found.records if r.identity == "p0"]
    assert "p0/2.jpg" in files
    assert len(files) == 2
    assert len({r.sha256 for r in found.records}) == len(found.records)


def test_checking_all_finds_what_is_not_drawn():
    people = crowd(20, 6)
    request = Request(images=2, people="2,2,2,2", check="all")
    pictures = {f"p{p}/{i}.jpg": b"" for p in range(20) for i in range(2)} | {"p0/3.jpg": b"one", "p1/3.jpg": b"one"}
    found = kinds(made(people, request, pictures=pictures).findings)
    assert found["damaged_image"].count == 40
    assert found["same_picture_two_identities"].count == 2
    assert "not_checked" not in found


def test_images_left_out_are_not_drawn_and_unknown_ones_refused():
    people = crowd(12, 4)
    out = frozenset(r.file for r in made(people, Request(images=2)).records[:3])
    found = made(people, Request(images=2, leave_out=out))
    assert not out & {r.file for r in found.records}
    assert len(found.records) == 24
    with pytest.raises(DataError, match=r"1 of 1 images to leave out are not in /data: p0/x\.jpg"):
        made(people, Request(images=2, leave_out=frozenset({"p0/x.jpg"})))


def test_all_people_and_all_images():
    found = made(crowd(20, 5), facts=PLAIN)
    assert len(found.records) == 100
    assert {name: len(people) for name, people in parts(found).items()} == divide(20, DEFAULT_SHARES)
    assert made(crowd(20, 5), Request(people="all", images="all")).records == found.records


def test_default_sizes_when_there_are_fewer_people():
    sizes = {able: Request().sizes(PAPER, able)[0] for able in (900, 800, 700, 640, 639, 62, 8)}
    assert sizes[900] == sizes[800] == {"fit": 320, "attack": 320, "validation": 80, "test": 80}
    assert sizes[700] == {"fit": 320, "attack": 220, "validation": 80, "test": 80}
    assert sizes[640]["attack"] == 160
    assert sizes[639]["fit"] < 320
    assert {able: sum(found.values()) for able, found in sizes.items()} == {n: min(n, 800) for n in sizes}
    lfw = Request().sizes(FACTS["lfw20"], 62)[0]
    assert lfw == {"fit": 19, "attack": 18, "validation": 12, "test": 13}
    found = kinds(made(crowd(62, 20)).findings)["fewer_people"]
    assert found.count == 62
    assert found.examples[0].startswith("800 were to be drawn; now fit ")


@given(people=st.integers(8, 5000), shares=st.lists(st.floats(0.01, 1), min_size=4, max_size=4))
def test_dividing_uses_everybody_and_leaves_two_in_each_part(people, shares):
    sizes = divide(people, dict(zip(PARTS, shares, strict=True)))
    assert sum(sizes.values()) == people
    assert min(sizes.values()) >= 2


def test_people_asked_for():
    def sizes(text, able=100):
        return tuple(Request(people=text).sizes(PAPER, able)[0].values())

    assert sizes("40,10,10") == (40, 40, 10, 10)
    assert sizes("60,10,10") == (60, 20, 10, 10)
    assert sizes("20,30,5,6") == (20, 30, 5, 6)
    assert sizes("80") == (32, 32, 8, 8)
    with pytest.raises(SplitError, match=r"fit 60, attack 2, validation 20, test 20 are 102 people, but only 100"):
        sizes("60,20,20")
    with pytest.raises(SplitError, match=r"every part needs at least 2 people, got fit 9, attack 1"):
        sizes("9,1,9,9")
    with pytest.raises(SplitError, match=r"7 people have enough images; at least 8 are needed"):
        sizes("2,2,2,2", able=7)
    for text in ("1,2", "a", "", "0", "1.5,2,3", "-1"):
        with pytest.raises(UsageError, match="cannot read people"):
            sizes(text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"images": "some"}, "images is a number or 'all'"),
        ({"images": 0}, "at least one image"),
        ({"check": "none"}, "check is one of drawn, all"),
        ({"queries": "test"}, "dev or final"),
        ({"seed": -1}, "0 or more"),
    ],
)
def test_requests_that_make_no_sense(options, said):
    with pytest.raises(UsageError, match=said):
        Request(**options)


def test_nobody_at_all():
    with pytest.raises(DataError, match="holds no images of anybody"):
        made({})


def test_lists_to_leave_out(tmp_path):
    path = tmp_path / "skipped.csv"
    path.write_text("sample,reason\na/1.jpg,bad\n\nb/2.jpg,bad\n")
    assert read_leave_out(path) == {"a/1.jpg", "b/2.jpg"}
    path.write_text("file\na\n")
    with pytest.raises(DataError, match="must have a column sample or path"):
        read_leave_out(path)
    path.write_bytes(b"sample\n\xff\xfe\n")
    with pytest.raises(DataError, match="not a UTF-8 CSV file"):
        read_leave_out(path)
    with pytest.raises(DataError, match="no such file"):
        read_leave_out(tmp_path / "none.csv")


def test_each_file_is_opened_once():
    opened = []
    listing = listing_of(crowd(9, 6), {f"p{p}/{i}.jpg": b"s%d" % i for p in (0, 1) for i in range(3)})
    look = listing.look
    listing = type(listing)(**{**vars(listing), "look": lambda file, who: (opened.append(file), look(file, who))[1]})
    drawing = Drawing(listing, seed=0, images=2)
    drawing.first(9)
    drawing.first(9)
    assert len(opened) == len(set(opened))
