"""Labels that slipped by rows: where, by how much, and never on clean tables."""

from __future__ import annotations

import numpy as np
import pytest
from hygiene_tables import faces, kinds, noise, table

from faceblind.data.hygiene import check_hygiene, shifts
from faceblind.data.hygiene.people import People
from faceblind.data.hygiene.shifts import find_shifts


def slipped(identity: np.ndarray, by: int, start: int = 0, end: int | None = None) -> np.ndarray:
    """Labels of which rows start to end carry the one that belongs `by` rows further up."""
    wrong = identity.copy()
    wrong[start:end] = np.roll(identity, by)[start:end]
    return wrong


@pytest.mark.parametrize("by", [-3, -2, -1, 1, 2, 3])
@pytest.mark.parametrize(("images", "within"), [(8, 0.6), (20, 0.15), (7, 0.3)])
def test_a_shift_of_the_whole_table_is_found(by, images, within):
    vectors, identity = faces(1, images=images, within=within)
    (shift,) = find_shifts(People.of(vectors, slipped(identity, by)))
    assert shift.by == by
    assert shift.start <= images
    assert shift.end >= len(identity) - images


@pytest.mark.parametrize("by", [-2, 1, 3])
@pytest.mark.parametrize("start", [0.3, 0.5])
def test_a_shift_that_starts_in_the_middle_is_found_where_it_starts(by, start):
    vectors, identity = faces(2, people=120, images=8)
    first = int(start * len(identity)) + 3
    (shift,) = find_shifts(People.of(vectors, slipped(identity, by, first)))
    assert (shift.by, shift.end) == (by, len(identity))
    assert abs(shift.start - first) <= 16


def test_a_shift_that_ends_again_and_shifts_that_grow_are_told_apart():
    vectors, identity = faces(3, people=200, images=6)
    (shift,) = find_shifts(People.of(vectors, slipped(identity, 1, 300, 800)))
    assert shift.by == 1
    assert abs(shift.start - 300) <= 12
    assert abs(shift.end - 800) <= 12
    growing = slipped(identity, 1, 300)
    growing[750:] = slipped(identity, 2)[750:]
    found = find_shifts(People.of(vectors, growing))
    assert [shift.by for shift in found] == [1, 2]
    assert abs(found[1].start - 750) <= 12


def test_rows_in_any_order_show_a_shift_of_the_whole_table():
    vectors, identity = faces(4)
    order = np.random.default_rng(0).permutation(len(identity))
    (shift,) = find_shifts(People.of(vectors[order], slipped(identity[order], -1)))
    assert shift.by == -1


@pytest.mark.parametrize("seed", range(20))
def test_no_shift_is_found_in_clean_shuffled_or_meaningless_tables(seed):
    rng = np.random.default_rng(seed)
    for images, within in ((2, 0.6), (6, 0.1), (6, 0.6), (20, 0.02)):
        vectors, identity = faces(seed, images=images, within=within)
        assert find_shifts(People.of(vectors, identity)) == []
        order = rng.permutation(len(identity))
        assert find_shifts(People.of(vectors[order], identity[order])) == []
        assert find_shifts(People.of(vectors, rng.permutation(identity))) == []
    vectors, identity = noise(people=100, images=5, seed=seed)
    assert find_shifts(People.of(vectors, identity)) == []


def test_a_few_wrong_labels_are_no_shift():
    vectors, identity = faces(5)
    wrong = identity.copy()
    wrong[:24] = slipped(identity, 1)[:24]
    assert find_shifts(People.of(vectors, wrong)) == []


def test_the_finding_is_an_error_that_says_where_and_stands_for_other_label_findings():
    vectors, identity = faces(6, people=120, images=8)
    found = kinds(check_hygiene(table(vectors, slipped(identity, 1, 483))))
    assert set(found) == {"labels_shifted"}
    finding = found["labels_shifted"]
    assert finding.severity == "error"
    assert abs(finding.count - (960 - 483)) <= 8
    assert "to 959 (s959): each fits the label of the row 1 further down" in finding.examples[0]
    assert "50 % of the rows" in finding.message
    up = kinds(check_hygiene(table(vectors, slipped(identity, -2))))["labels_shifted"]
    assert "2 further up" in up.examples[0]


def test_long_tables_are_looked_at_in_pieces(monkeypatch):
    vectors, identity = faces(7, people=120, images=4)
    monkeypatch.setattr(shifts, "_PIECES", 60)
    (shift,) = find_shifts(People.of(vectors, slipped(identity, 1)))
    assert shift.by == 1
    assert find_shifts(People.of(vectors, identity)) == []


def test_one_run_of_rows_has_no_order_to_check():
    vectors, _ = noise()
    assert find_shifts(People.of(vectors, np.full(len(vectors), "one"))) == []


def test_the_best_path_is_the_best_of_all():
    """Against every path over five pieces."""
    import itertools

    rng = np.random.default_rng(0)
    for _ in range(20):
        gains = 5 * rng.standard_normal((5, 6))
        path = shifts._best_path(gains)
        cost = shifts._SWITCH * float(np.sqrt(np.mean(gains**2)))

        def worth(p, gains=gains, cost=cost):
            changes = sum(a != b for a, b in itertools.pairwise([0, *p]))
            return sum(gains[i, s - 1] for i, s in enumerate(p) if s) - cost * changes

        best = max(worth(p) for p in itertools.product(range(7), repeat=5))
        assert worth(path.tolist()) == pytest.approx(best)
