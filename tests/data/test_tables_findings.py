from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_samples import kinds, save_npy, unit_vectors, write_parquet

from faceblind._errors import DataError
from faceblind.data.tables import Batch, Inspector, read_table, read_with_findings

X = unit_vectors(6, 3)
KEYS = [f"k{i}" for i in range(6)]
PEOPLE = list("aabbcc")


def table(tmp_path, vectors, identity=tuple(PEOPLE), sample=tuple(KEYS)):
    return write_parquet(tmp_path / "t.parquet", vectors, identity=list(identity), sample=list(sample))


def test_a_clean_table_has_nothing_to_say(tmp_path):
    made, findings = read_with_findings(table(tmp_path, X))
    assert findings == ()
    np.testing.assert_array_equal(made.vectors, X)
    assert made.sample.tolist() == KEYS


def test_half_precision_is_said_and_widened(tmp_path):
    half = X.astype(np.float16)
    made, findings = read_with_findings(table(tmp_path, half))
    assert [(f.kind, f.severity) for f in findings] == [("float16_input", "note")]
    assert made.vectors.dtype == np.float32
    np.testing.assert_array_equal(made.vectors, half.astype(np.float32))


def test_lengths_are_said(tmp_path):
    scaled = X.copy()
    scaled[2] *= 3
    scaled[4] *= 0.5
    made, findings = read_with_findings(table(tmp_path, scaled))
    assert [(f.kind, f.severity, f.count) for f in findings] == [("not_normalised", "warning", 2)]
    assert "2 of 6 vectors are not of unit length (shortest 0.5, median 1, longest 3)" in findings[0].message
    assert findings[0].examples == ("row 2 (length 3)", "row 4 (length 0.5)")
    np.testing.assert_array_equal(made.vectors, scaled)


@pytest.mark.parametrize(
    ("people", "scattered"),
    [("aabbcc", []), ("abcabc", ["a", "b", "c"]), ("aabacc", ["a"]), ("abbbbb", []), ("ababab", ["a", "b"])],
)
def test_order_is_said(tmp_path, people, scattered):
    findings = read_with_findings(table(tmp_path, X, people))[1]
    assert kinds(findings) == (["rows_not_grouped"] if scattered else [])
    if scattered:
        assert (findings[0].severity, findings[0].count) == ("note", len(scattered))
        assert sorted(findings[0].examples) == scattered


@given(
    people=st.lists(st.sampled_from("abcd"), min_size=1, max_size=20),
    cuts=st.lists(st.integers(0, 20), max_size=4),
)
def test_what_is_noticed_does_not_depend_on_the_batches(people, cuts):
    rng = np.random.default_rng(len(people))
    vectors = rng.choice([0.0, 1.0, np.nan, np.inf, 3.0], (len(people), 2)).astype(np.float32)

    def inspect(edges):
        inspector = Inspector()
        good = []
        for low, high in pairwise(edges):
            if high > low:
                keys = np.arange(low, high).astype(str)
                good.append(inspector.see(Batch(low, vectors[low:high], np.array(people[low:high]), keys)))
        return inspector.findings(), np.concatenate(good)

    whole, good = inspect([0, len(people)])
    parts, good_parts = inspect([0, *sorted(min(cut, len(people)) for cut in cuts), len(people)])
    assert whole == parts
    assert good.tolist() == good_parts.tolist()
    usable = np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)
    assert good.tolist() == usable.tolist()
    groups = [name for i, name in enumerate(people) if i == 0 or people[i - 1] != name]
    scattered = sum(groups.count(name) > 1 for name in set(people))
    told = {finding.kind: finding.count for finding in whole}
    assert told.get("rows_not_grouped", 0) == scattered
    assert told.get("non_finite_rows", 0) == int((~np.isfinite(vectors).all(axis=1)).sum())
    assert told.get("zero_rows", 0) == int((~vectors.any(axis=1)).sum())


def test_bad_rows_stop_the_reading_and_are_named(tmp_path):
    vectors = X.copy()
    vectors[1, 0] = np.nan
    vectors[3] = 0
    vectors[5, 2] = -np.inf
    path = table(tmp_path, vectors)
    with pytest.raises(
        DataError, match=r"t\.parquet: the vectors of row 1 \(k1\), row 5 \(k5\) hold NaN or inf"
    ) as caught:
        read_table(path)
    assert "the vectors of row 3 (k3) are all zeros" in str(caught.value)
    assert "leave them out with --drop-bad-rows (in Python, drop_bad_rows=True)" in str(caught.value)


def test_bad_rows_can_be_left_out_and_are_still_named(tmp_path):
    vectors = X.copy()
    vectors[1, 0] = np.nan
    vectors[3] = 0
    made, findings = read_with_findings(table(tmp_path, vectors), drop_bad_rows=True)
    assert [(f.kind, f.severity, f.count, f.examples) for f in findings] == [
        ("non_finite_rows", "error", 1, ("row 1 (k1)",)),
        ("zero_rows", "error", 1, ("row 3 (k3)",)),
    ]
    assert made.sample.tolist() == ["k0", "k2", "k4", "k5"]
    assert made.identity.tolist() == ["a", "b", "c", "c"]
    np.testing.assert_array_equal(made.vectors, X[[0, 2, 4, 5]])
    assert len(read_table(table(tmp_path, vectors), drop_bad_rows=True)) == 4


def test_many_bad_rows_are_counted_and_a_few_named(tmp_path):
    vectors = np.zeros((40, 3), np.float32)
    vectors[0] = 1
    path = save_npy(tmp_path / "X.npy", vectors)
    findings = read_with_findings(path, identity=None, drop_bad_rows=True)[1]
    zero = next(finding for finding in findings if finding.kind == "zero_rows")
    assert (zero.count, len(zero.examples)) == (39, 5)
    assert "row 5 (5) and 34 more are all zeros" in zero.message


def test_nothing_left(tmp_path):
    path = save_npy(tmp_path / "X.npy", np.zeros((3, 2), np.float32))
    with pytest.raises(DataError, match=r"X\.npy: all 3 rows are unusable; the vectors of row 0 \(0\)"):
        read_table(path, identity=None, drop_bad_rows=True)


def test_float64_too_large_for_float32_is_a_bad_row(tmp_path):
    vectors = X.astype(np.float64)
    vectors[2, 1] = 1e300
    with pytest.raises(DataError, match=r"row 2 \(k2\) hold NaN or infinity"):
        read_table(table(tmp_path, vectors))
    made = read_table(table(tmp_path, vectors), drop_bad_rows=True)
    assert made.sample.tolist() == ["k0", "k1", "k3", "k4", "k5"]


def test_repeated_keys_are_told_with_the_file(tmp_path):
    with pytest.raises(DataError, match=r"t\.parquet: sample keys must be unique; 1 are repeated, among them 'k0'"):
        read_table(table(tmp_path, X, sample=["k0", *KEYS[:5]]))


def test_a_key_with_a_semicolon_is_told_whole(tmp_path):
    vectors = X.copy()
    vectors[0] = 0
    with pytest.raises(DataError, match=r"row 0 \(a;b\) are all zeros"):
        read_table(table(tmp_path, vectors, sample=["a;b", *KEYS[1:]]))


def test_findings_of_opening_come_first(tmp_path):
    path = save_npy(tmp_path / "X.npy", (2 * X).astype(np.float16))
    assert kinds(read_with_findings(path, identity=None)[1]) == [
        "float16_input",
        "keys_are_row_numbers",
        "not_normalised",
    ]
