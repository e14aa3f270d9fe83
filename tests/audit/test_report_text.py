"""Numbers as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faceblind.audit.report import text

SHARES = st.floats(0, 1, allow_nan=False)


def plain(written: str) -> str:
    return written.replace(text.NBSP, " ")


@pytest.mark.parametrize(
    ("share", "written"),
    [
        (0, "0 %"),
        (1e-9, "< 0.01 %"),
        (0.0000999, "< 0.01 %"),
        (0.0001, "0.01 %"),
        (0.0008, "0.08 %"),
        (0.0099, "0.99 %"),
        (0.00997, "1.0 %"),
        (0.0176, "1.8 %"),
        (0.0996, "10.0 %"),
        (0.123, "12.3 %"),
        (0.979, "97.9 %"),
        (0.99949, "99.9 %"),
        (0.9996, "> 99.9 %"),
        (1, "100 %"),
    ],
)
def test_percent(share: float, written: str) -> None:
    assert plain(text.percent(share)) == written


@pytest.mark.parametrize(
    ("share", "written"),
    [
        (0, "≤ 0.00 %"),
        (0.123, "≤ 12.3 %"),
        (0.12301, "≤ 12.4 %"),
        (0.00081, "≤ 0.09 %"),
        (0.00999, "≤ 1.0 %"),
        (0.9999, "≤ 100 %"),
        (1, "≤ 100 %"),
    ],
)
def test_percent_bound(share: float, written: str) -> None:
    assert plain(text.percent_bound(share)) == written


@given(SHARES)
def test_a_bound_is_never_rounded_down(share: float) -> None:
    shown = float(plain(text.percent_bound(share)).removeprefix("≤ ").removesuffix(" %")) / 100
    assert shown >= share * (1 - 1e-9) - 1e-11
    assert shown <= share + 0.0011


@given(SHARES)
def test_percent_is_right_to_the_digits_it_shows(share: float) -> None:
    shown = plain(text.percent(share)).removesuffix(" %")
    value = 100 * share
    if shown.startswith("<"):
        assert 0 < value < 0.01
    elif shown.startswith(">"):
        assert 99.9 < value < 100
    else:
        digits = len(shown.partition(".")[2])
        assert abs(float(shown) - value) <= 0.5 * 10**-digits + 1e-9


def test_interval_has_one_sign_and_does_not_break() -> None:
    written = text.interval(0.0186, 0.031)
    assert plain(written) == "1.9 to 3.1 %"
    assert " " not in written


@pytest.mark.parametrize(
    ("value", "short", "chances", "accepts"),
    [
        (1e-4, "1e-4", "1 in 10,000", "1 false accept in 10,000"),
        (1e-2, "1e-2", "1 in 100", "1 false accept in 100"),
        (3e-2, "3e-2", "3 in 100", "3 false accepts in 100"),
        (2e-3, "2e-3", "1 in 500", "1 false accept in 500"),
        (1.23e-4, "1.2e-4", "about 1 in 8,130", "about 1 false accept in 8,130"),
        (0.5, "0.5", "1 in 2", "1 false accept in 2"),
        (1.0, "1", "1 in 1", "1 false accept in 1"),
        (0, "0", "never", "no false accept at all"),
    ],
)
def test_rates(value: float, short: str, chances: str, accepts: str) -> None:
    assert text.rate(value) == short
    assert text.one_in(value) == chances
    assert text.accepts_in(value) == accepts


@pytest.mark.parametrize(
    ("value", "written"), [(243.6, "244×"), (1.26, "1.3×"), (9.96, "10×"), (0.4, "0.4×"), (12345, "12,345×")]
)
def test_times(value: float, written: str) -> None:
    assert text.times(value) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [(True, "yes"), (512, "512"), (1600, "1,600"), (1e-6, "1e-6"), (0.001, "0.001"), (2.5e7, "2.5e7"), (0.0, "0")],
)
def test_number(value: float, written: str) -> None:
    assert text.number(value) == written


def test_plural() -> None:
    assert plain(text.plural(1, "person", "people")) == "1 person"
    assert plain(text.plural(1600, "image")) == "1,600 images"


@given(st.text(max_size=200), st.integers(5, 60))
def test_short_keeps_the_limit_and_both_ends(name: str, limit: int) -> None:
    cut = text.short(name, limit)
    assert len(cut) <= limit
    if len(name) <= limit:
        assert cut == name
    else:
        head, _, tail = cut.rpartition("…")
        assert name.startswith(head)
        assert name.endswith(tail)


def test_attackers_are_named_with_whom_they_learned_from() -> None:
    learned = {"attacker": "ridge", "trained_on": "fit", "k": 16}
    assert plain(text.attacker_line(learned)) == "ridge, learned from the eraser's own people, 16 images each"
    assert text.attacker_line({"attacker": "cosine", "trained_on": None, "k": None}) == "cosine, learns nothing"
    assert text.attacker_short(learned) == "ridge, k=16, eraser's people"
