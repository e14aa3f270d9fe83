from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faceblind._errors import UsageError
from faceblind.measure import EER, TAR, Condition, parse_condition, parse_metric

RATES = st.floats(1e-300, 1, exclude_max=True)
METRICS = st.one_of(st.just(EER()), st.builds(TAR, RATES))


@settings(max_examples=300)
@given(METRICS)
def test_a_metric_reads_back_as_itself(metric):
    assert parse_metric(str(metric)) == metric


@settings(max_examples=300)
@given(st.builds(Condition, METRICS, st.sampled_from(["<", "<=", ">", ">="]), st.floats(0, 1)))
def test_a_condition_reads_back_as_itself(condition):
    assert parse_condition(str(condition)) == condition


@pytest.mark.parametrize(
    "text",
    ["TAR@FAR(1e-4)", "TMR@FMR(1e-4)", " TAR @ FAR ( 0.0001 ) ", "TAR@FAR=1e-4", "TAR@FAR=0.01%", "TAR@FAR(.0001)"],
)
def test_the_ways_to_write_a_tar(text):
    assert parse_metric(text) == TAR(1e-4)
    assert str(parse_metric(text)) == "TAR@FAR(0.0001)"


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("TAR@FAR(1e-4) <= 5%", Condition(TAR(1e-4), "<=", 0.05)),
        ("TAR@FAR(1e-3)>0.05", Condition(TAR(1e-3), ">", 0.05)),
        ("TAR@FAR=1e-3>=5 %", Condition(TAR(1e-3), ">=", 0.05)),
        (" EER < 30% ", Condition(EER(), "<", 0.3)),
        ("EER>=0", Condition(EER(), ">=", 0.0)),
        ("EER <= 100%", Condition(EER(), "<=", 1.0)),
    ],
)
def test_the_ways_to_write_a_condition(text, condition):
    assert parse_condition(text) == condition


def test_percentages_stay_readable():
    assert str(parse_condition("TAR@FAR(1e-4) <= 7%")) == "TAR@FAR(0.0001) <= 7%"
    assert str(Condition(EER(), "<", 0.29)) == "EER < 29%"


@pytest.mark.parametrize("text", ["", "TAR", "FAR(1e-4)", "TAR@FAR(-1e-4)", "TAR@FAR(x)", "tar@far(1e-4)", "EER(1)"])
def test_other_metrics_are_refused_with_an_example(text):
    with pytest.raises(UsageError, match=r"cannot read the metric .*: write for example TAR@FAR\(1e-4\) or EER"):
        parse_metric(text)


@pytest.mark.parametrize("rate", ["0", "1", "2", "100%", "1e9", "0%"])
def test_a_far_of_0_or_1_or_more_is_refused(rate):
    with pytest.raises(UsageError, match="a FAR lies between 0 and 1, got"):
        parse_metric(f"TAR@FAR({rate})")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TAR@FAR(1e-4)", r"cannot read the condition 'TAR@FAR\(1e-4\)': write for example 'TAR@FAR\(1e-4\) > 5%'"),
        ("TAR@FAR(1e-4) == 5%", "write for example"),
        ("TAR@FAR(1e-4) < five", "write for example"),
        ("< 5%", "write for example"),
        ("EER > 5", r"a rate lies between 0 and 100 %, got 5 \(did you mean 5%\?\)"),
        ("EER > 500", r"a rate lies between 0 and 100 %, got 500$"),
        ("EER > 101%", r"a rate lies between 0 and 100 %, got 1.01$"),
        ("FOO > 5%", "cannot read the metric 'FOO'"),
        ("TAR@FAR(2) > 5%", "a FAR lies between 0 and 1, got 2"),
    ],
)
def test_other_conditions_are_refused(text, message):
    with pytest.raises(UsageError, match=message):
        parse_condition(text)


@pytest.mark.parametrize(
    ("operator", "interval", "shown", "allowed"),
    [
        ("<=", (0.01, 0.04), True, True),
        ("<=", (0.01, 0.05), True, True),
        ("<=", (0.01, 0.06), False, True),
        ("<=", (0.05, 0.06), False, True),
        ("<=", (0.06, 0.07), False, False),
        ("<", (0.01, 0.05), False, True),
        ("<", (0.05, 0.06), False, False),
        (">=", (0.06, 0.07), True, True),
        (">=", (0.05, 0.07), True, True),
        (">=", (0.04, 0.07), False, True),
        (">=", (0.04, 0.05), False, True),
        (">=", (0.01, 0.04), False, False),
        (">", (0.05, 0.07), False, True),
        (">", (0.04, 0.05), False, False),
        (">", (0.06, 0.07), True, True),
    ],
)
def test_what_an_interval_shows_and_what_it_allows(operator, interval, shown, allowed):
    condition = Condition(TAR(1e-4), operator, 0.05)
    assert condition.shown_by(*interval) is shown
    assert condition.allowed_by(*interval) is allowed
    assert condition.is_upper is operator.startswith("<")


@given(st.sampled_from(["<", "<=", ">", ">="]), st.floats(0, 1), st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_shown_means_every_value_and_allowed_means_some_value(operator, bound, ends):
    low, high = sorted(ends)
    condition = Condition(EER(), operator, bound)
    values = [condition.compare(v) for v in (low, (low + high) / 2, high)]
    assert condition.shown_by(low, high) is all(values)
    assert condition.allowed_by(low, high) is any(values)
