"""Who is trained on, validated on and tested: the paper's numbers when there are enough people, said when not."""

from __future__ import annotations

import numpy as np
import pytest
from papers_cases import bench_of, quick, table

import faceblind as fb
from faceblind._errors import SplitError, UsageError
from faceblind.audit.papers import Protocol
from faceblind.audit.papers.protocol import parse_numbers, parse_people, parse_tables


def sizes(bench):
    return {name: group.people for name, group in bench.groups.items()}


def test_enough_people_give_exactly_the_numbers_asked_for():
    bench = bench_of(table(1, people=60, images=9), quick())
    assert sizes(bench) == {"train": 20, "validation": 10, "test": 10, "spare": 20}
    for group in bench.groups.values():
        assert set(np.unique(group.identity, return_counts=True)[1]) == {6}
        assert np.allclose(np.linalg.norm(group.vectors, axis=1), 1, atol=1e-6)
    names = [set(group.identity) for group in bench.groups.values()]
    assert sum(map(len, names)) == len(set.union(*names))
    assert bench.notes == ()


def test_people_with_fewer_images_are_not_used_when_enough_have_all():
    rng = np.random.default_rng(0)
    full, short = table(1, people=45, images=6), table(2, people=30, images=3, prefix="s")
    mixed = fb.EmbeddingSet.of(
        np.concatenate([full.vectors, short.vectors]), np.concatenate([full.identity, short.identity])
    )
    bench = bench_of(mixed.take(rng.permutation(len(mixed))), quick())
    assert not any(str(name).startswith("s") for group in bench.groups.values() for name in group.identity)


def test_small_sets_are_scaled_down_and_say_so():
    bench = bench_of(table(1, people=21), quick())
    assert sizes(bench) == {"train": 11, "validation": 5, "test": 5}
    assert "scaled down from 20/10/10 to 11/5/5 people: the table has 21 with 2 or more images" in bench.notes


def test_those_with_most_images_go_to_test_first():
    full, short = table(1, people=14, images=6), table(2, people=30, images=3, prefix="s")
    mixed = fb.EmbeddingSet.of(
        np.concatenate([full.vectors, short.vectors]), np.concatenate([full.identity, short.identity])
    )
    bench = bench_of(mixed, quick())
    assert set(np.unique(bench.groups["test"].identity, return_counts=True)[1]) == {6}
    assert sizes(bench) == {"train": 20, "validation": 10, "test": 10, "spare": 4}
    assert any("14 people have 6 images, 30 with 2 to 5 are used as well" in note for note in bench.notes)
    assert any("20 of 20 train people have fewer than 4 images" in note for note in bench.notes)
    assert sizes(bench_of(mixed, quick(least=6)))["train"] == 6  # only the 14 with all images


def test_the_seed_decides_people_and_images():
    people = table(1, people=60, images=9)
    first, again, other = (bench_of(people, quick(seed=s)) for s in (0, 0, 1))
    assert np.array_equal(first.groups["test"].vectors, again.groups["test"].vectors)
    assert first.order == again.order
    assert set(first.groups["test"].identity) != set(other.groups["test"].identity)


def test_too_few_people():
    with pytest.raises(SplitError, match=r"11 people, 11 of them with 2 or more images: at least 12 are needed"):
        bench_of(table(1, people=11), quick())


def test_a_picture_under_two_names_is_left_out_of_what_is_measured():
    people = table(1, people=40)
    test = bench_of(people, quick()).groups["test"].identity
    one, two = (np.flatnonzero(people.identity == name)[0] for name in np.unique(test)[:2])
    vectors = people.vectors.copy()
    vectors[one] = vectors[two]
    bench = bench_of(fb.EmbeddingSet.of(vectors, people.identity), quick())
    assert bench.groups["test"].identity.size == test.size - 2
    assert any("2 photographs of validation or test people stand under two names" in note for note in bench.notes)


def test_fresh_people_are_never_the_erasers_own():
    bench = bench_of(table(1, people=60), quick())
    name, fresh = bench.fresh(20)
    assert name == "spare"
    assert not set(fresh) & set(bench.fit_group(20).identity)
    name, fresh = bench.fresh(30)  # ten of the spare people were fitted on: ten are left, half of the train people
    assert name == "spare"
    assert not set(fresh) & set(bench.fit_group(30).identity)
    assert bench.fresh(35)[0] == "validation"
    many = bench_of(table(1, people=80), quick(fit_people=(60,)))
    assert sizes(many)["spare"] == 40
    assert len(many.fresh(20)[1]) == 20  # no more than train has, so that the two attackers differ in nothing else
    assert bench_of(table(1, people=45), quick()).fresh(20)[0] == "validation"


def test_a_larger_fit_holds_the_smaller_one():
    bench = bench_of(table(1, people=60), quick())
    small, large = set(bench.fit_group(10).identity), set(bench.fit_group(30).identity)
    assert len(small) == 10
    assert small < large
    assert set(bench.fit_group(20).identity) == set(bench.groups["train"].identity)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"people": (320, 80)}, "three numbers"),
        ({"people": (320, 80, 3)}, "at least 4 each"),
        ({"far": 0.0}, "between 0 and 1"),
        ({"ks": ()}, "at least 1"),
        ({"least": 7}, "least=7"),
        ({"draws": 10}, "100 bootstrap draws"),
        ({"ranks": (-1,)}, "ranks are 0"),
        ({"fit_people": (1,)}, "at least two identities"),
        ({"impostors": 0}, "at least one per image"),
        ({"rule": "mean"}, "one of at-most, nearest, got 'mean'"),
    ],
)
def test_settings_that_make_no_sense(changes, words):
    with pytest.raises(UsageError, match=words):
        quick(**changes)


def test_what_is_written_is_read():
    assert parse_people("320,80,80") == (320, 80, 80)
    assert parse_tables("all") == ("1", "4", "5", "6", "8", "9")
    assert parse_tables("5, 1") == ("5", "1")
    for wrong in (lambda: parse_people("1,2"), lambda: parse_tables("2"), lambda: parse_numbers("a", "ranks", "1")):
        with pytest.raises(UsageError):
            wrong()
    assert Protocol().impostors_for("VGGFace2") == 10
    assert Protocol().impostors_for("celeba20") == 4
    assert Protocol(impostors=3).impostors_for("vgg") == 3
