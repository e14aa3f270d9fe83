"""Two models on the same people, draw by draw: what may be compared, and that pairs see what two intervals do not."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faceblind._errors import FormatError
from faceblind.frequency.attacks.matching import match
from faceblind.frequency.evaluation.draws import Draws, compared, digest_of
from faceblind.frequency.evaluation.pairs import make_pairs
from faceblind.frequency.evaluation.people import evaluate_people
from faceblind.frequency.evaluation.tenfold import tenfold
from faceblind.measure.paired import paired_difference

LABELS = np.repeat([f"p{i:02d}" for i in range(60)], 5)


def rows_of(noise: float, seed: int = 0, labels: np.ndarray = LABELS, own: int = 0) -> list[dict]:
    """Evaluate a model that sees everybody through noise; some people are hard for every model."""
    shared, rng = np.random.default_rng(7), np.random.default_rng([own, 1])
    centres = np.repeat(shared.normal(size=(60, 16)), 5, axis=0)
    hard = np.repeat(shared.uniform(0.3, 2.5, 60), 5)[:, None] * shared.normal(size=centres.shape)
    vectors = (centres + hard + noise * rng.normal(size=centres.shape)).astype(np.float32)
    pairs = make_pairs(labels, 600, rng=np.random.default_rng(3), name="x")
    found = evaluate_people(vectors, labels, fars=(1e-1, 1e-2), draws=200, rng=np.random.default_rng(seed))
    tens = tenfold(vectors, pairs, draws=200, rng=np.random.default_rng(seed))
    return [*found.rows("x", noise=True), *tens.rows("x", noise=True)]


def test_pairs_see_what_two_intervals_do_not():
    clear, blurred = rows_of(0.0), rows_of(0.75, own=1)
    for a, b, key in zip(clear, blurred, ("tar", "tar", "accuracy"), strict=True):
        found = compared(a, b)
        assert found is not None
        assert found.difference == pytest.approx(a[key] - b[key])
        assert found.high - found.low < (a["high"] - b["low"]) - (a["low"] - b["high"])
    assert clear[0]["low"] < blurred[0]["high"], "the two intervals overlap: alone they decide nothing"
    assert compared(clear[0], blurred[0]).low > 0


def test_the_difference_is_that_of_the_draws_themselves():
    a, b = evaluate(0.2), evaluate(0.6)
    mine = compared(a.rows("x", noise=True)[0], b.rows("x", noise=True)[0])
    p, q = a.points[0], b.points[0]
    wanted = paired_difference(p.base, p.draws, q.base, q.draws, min(p.effective, q.effective))
    assert (mine.difference, mine.low, mine.high) == pytest.approx(
        (wanted.difference, wanted.low, wanted.high), abs=1e-5
    )


def evaluate(noise: float):
    rng = np.random.default_rng(5)
    vectors = np.repeat(rng.normal(size=(60, 16)), 5, axis=0)
    vectors = (vectors + noise * rng.normal(size=vectors.shape)).astype(np.float32)
    return evaluate_people(vectors, LABELS, fars=(1e-2,), draws=100, rng=np.random.default_rng(0))


def test_a_model_does_not_differ_from_itself():
    for row in rows_of(0.3):
        found = compared(row, row)
        # The two sides of a limit differ a little, so what is left is not quite nothing.
        assert found.difference == 0
        assert found.low <= 0 <= found.high
        assert found.high - found.low < (row["high"] - row["low"]) / 4


def test_draws_in_ten_folds_have_the_width_of_the_interval():
    row = rows_of(0.3)[2]
    draws = Draws.from_dict(row["draws"])
    half = 1.96 * np.sqrt(np.mean((draws.values - row["accuracy"]) ** 2))
    assert (row["high"] - row["low"]) / 2 == pytest.approx(half, rel=0.25)


def test_other_people_or_other_draws_are_not_paired():
    row, others = rows_of(0.3)[0], LABELS.copy()
    others[:5] = "q"
    assert compared(row, rows_of(0.3, labels=others)[0]) is None
    assert compared(row, rows_of(0.3, seed=1)[0]) is None
    assert compared(row, row | {"draws": None}) is None
    assert compared({"tar": 0.5}, row) is None
    shorter = Draws.from_dict(row["draws"])
    shorter = Draws(shorter.base, shorter.people, shorter.values[:-1], shorter.of)
    assert compared(row, row | {"draws": shorter.to_dict()}) is None


def test_unsupported_rates_have_no_draws():
    rng = np.random.default_rng(0)
    found = evaluate_people(
        rng.normal(size=(8, 4)).astype(np.float32),
        np.repeat(["a", "b", "c", "d"], 2),
        fars=(1e-4,),
        draws=20,
        rng=rng,
    )
    assert found.rows("x", noise=True)[0]["draws"] is None


def test_recovered_faces_of_the_same_people_are_paired():
    rng = np.random.default_rng(0)
    gallery = rng.normal(size=(300, 16)).astype(np.float32)
    unit = gallery / np.linalg.norm(gallery, axis=1, keepdims=True)
    first, second = (match(unit[::5] * sign, LABELS[::5], unit, LABELS) for sign in (1, -1))
    found = compared(first, second)
    assert found is not None
    assert found.difference == pytest.approx(first["tar"] - second["tar"])
    assert first["null"]["draws"] is None


@given(st.lists(st.floats(0, 1, width=32) | st.just(float("nan")), min_size=1, max_size=20), st.floats(0, 1))
def test_draws_survive_json(values, base):
    draws = Draws(base, 12.5, np.array(values), "abc")
    back = Draws.from_dict(json.loads(json.dumps(draws.to_dict(), allow_nan=False)))
    assert (back.base, back.people, back.of) == (base, 12.5, "abc")
    assert np.array_equal(back.values, draws.values, equal_nan=True)


@pytest.mark.parametrize("change", [{"float32": "*"}, {"float32": "AAA="}, {"base": None}, {"people": "many"}])
def test_damaged_draws_say_what_to_run(change):
    whole = Draws(0.5, 3.0, np.array([0.5, 0.25]), "abc").to_dict()
    with pytest.raises(FormatError, match="faceblind frequency evaluate"):
        Draws.from_dict(whole | change)
    with pytest.raises(FormatError, match="of people are damaged"):
        Draws.from_dict({key: value for key, value in whole.items() if key != next(iter(change))})


def test_the_digest_follows_people_order_and_generator():
    def of(labels, seed=0):
        return digest_of(np.random.default_rng(seed), np.array(labels), np.arange(3))

    assert of(["a", "b"]) == of(["a", "b"])
    assert len({of(["a", "b"]), of(["b", "a"]), of(["ab", ""]), of(["a", "b"], 1), of(["a"])}) == 5
