from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faceblind._errors import DataError, FormatError, SplitError, UsageError
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.split import DEFAULT_SHARES, PARTS, IdentitySplit, parse_shares
from strategies import labels_of, unit_gauss


def table(counts: list[int], *, sample: list[str] | None = None, identity: np.ndarray | None = None) -> EmbeddingSet:
    labels = labels_of(counts, "shuffled", np.random.default_rng(1)) if identity is None else identity
    return EmbeddingSet.of(unit_gauss(np.random.default_rng(0), len(labels), 4), labels, sample=sample)


def people(split: IdentitySplit, embeddings: EmbeddingSet) -> dict[str, set[str]]:
    return {part: set(embeddings.identity[split.rows(part)].tolist()) for part in PARTS}


@settings(max_examples=80)
@given(st.lists(st.integers(1, 4), min_size=8, max_size=60), st.integers(0, 2**32), st.data())
def test_no_identity_is_in_two_parts_and_none_with_two_images_is_lost(counts, seed, data):
    counts[:8] = [max(2, c) for c in counts[:8]]
    weights = np.array(data.draw(st.lists(st.integers(1, 1000), min_size=4, max_size=4)), float)
    embeddings = table(counts)
    split = IdentitySplit.draw(embeddings, seed=seed, shares=(weights / weights.sum()).tolist())
    assert set(np.unique(split.part)) <= {*PARTS, ""}
    groups = people(split, embeddings)
    everyone = [person for group in groups.values() for person in group]
    assert len(everyone) == len(set(everyone))
    names, found = np.unique(embeddings.identity, return_counts=True)
    assert set(everyone) == set(names[found >= 2].tolist())  # shares add up to one: all are used
    assert min(len(group) for group in groups.values()) >= 2
    for part in PARTS:  # people go whole
        rows = split.rows(part)
        assert set(np.flatnonzero(np.isin(embeddings.identity, list(groups[part]))).tolist()) == set(rows.tolist())
    assert (split.part[np.isin(embeddings.identity, names[found == 1])] == "").all()
    assert split.counts(embeddings.identity) == {
        part: {"identities": len(groups[part]), "samples": split.rows(part).size} for part in PARTS
    }
    assert split.shared_identities(embeddings.identity) is None


def test_the_default_shares_are_kept():
    assert sum(DEFAULT_SHARES.values()) == pytest.approx(1)
    split = IdentitySplit.draw(table([3] * 100))
    sizes = [split.counts(table([3] * 100).identity)[part]["identities"] for part in PARTS]
    assert sizes == [30, 25, 20, 25]
    assert (
        split.rule
        == "identities with two or more images, shuffled with seed 0: fit 30, attack 25, validation 20, test 25"
    )


@pytest.mark.parametrize(
    ("shares", "usable", "sizes"),
    [
        ((0.3, 0.25, 0.2, 0.25), 103, [30, 25, 20, 28]),  # what is left goes to test
        ((0.1, 0.1, 0.1, 0.1), 100, [10, 10, 10, 10]),  # less than all
        ((0.29, 0.29, 0.29, 0.13), 100, [29, 29, 29, 13]),  # 0.29 * 100 = 28.999999999999996
        ((0.01, 0.01, 0.01, 0.97), 20, [2, 2, 2, 14]),  # at least two each
        ((0.97, 0.01, 0.01, 0.01), 8, [2, 2, 2, 2]),
        ((0.5, 0.49, 0.005, 0.005), 8, [2, 2, 2, 2]),  # the largest alone cannot give enough
        ((0.5, 0.49, 0.005, 0.005), 9, [2, 3, 2, 2]),
        ((20, 30, 40, 10), 100, [20, 30, 40, 10]),  # counts
        ((2, 2, 2, 2), 100, [2, 2, 2, 2]),
        ((1, 0.0001, 0.0001, 0.0001), None, None),
    ],
)
def test_sizes_of_parts(shares, usable, sizes):
    if sizes is None:
        with pytest.raises(SplitError, match=r"split shares add up to 1.0003, more than 1"):
            IdentitySplit.draw(table([2] * 20), shares=shares)
        return
    embeddings = table([2] * usable)
    split = IdentitySplit.draw(embeddings, shares=shares)
    assert [split.counts(embeddings.identity)[part]["identities"] for part in PARTS] == sizes
    by_name = IdentitySplit.draw(embeddings, shares=dict(zip(PARTS, shares, strict=True)))
    np.testing.assert_array_equal(split.part, by_name.part)


def test_the_seed_decides_and_the_order_of_rows_does_not():
    embeddings = table([3] * 40)
    one, again, other = (IdentitySplit.draw(embeddings, seed=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.part, again.part)
    assert people(one, embeddings) != people(other, embeddings)
    order = np.random.default_rng(0).permutation(len(embeddings))
    moved = embeddings.take(order)
    assert people(IdentitySplit.draw(moved, seed=4), moved) == people(one, embeddings)
    assert "seed 4" in one.rule


@pytest.mark.parametrize(
    ("counts", "shares", "message"),
    [
        (
            [2] * 7,
            None,
            r"at least 8 identities with two or more images \(2 in each of fit, attack, validation, test\); the table has 7 of 7",
        ),
        ([2] * 7 + [1] * 90, None, "the table has 7 of 97"),
        ([2] * 20, (0.5, 0.5, 0.5, 0.5), "split shares add up to 2, more than 1"),
        ([2] * 20, (0.5, 0.5, 0.0, 0.0), "a positive share or count for each of fit, attack, validation, test, got"),
        ([2] * 20, (0.5, 0.6, -0.1, 0.0), "a positive share or count"),
        ([2] * 20, (0.5, 0.5), r"a positive share or count for each of .* got \(0.5, 0.5\)"),
        ([2] * 20, (0.2,) * 5, "a positive share or count"),
        ([2] * 20, {"fit": 1.0}, "a positive share or count"),
        ([2] * 20, {"fit": 0.2, "attack": 0.2, "validation": 0.2, "train": 0.4}, "a positive share or count"),
        ([2] * 20, (float("nan"), 0.2, 0.2, 0.2), "a positive share or count"),
        ([2] * 20, (float("inf"), 2, 2, 2), "a positive share or count"),
        ([2] * 20, (6, 5, 5, 5), r"ask for 21 identities, at least 2 each; the table has 20 with two or more images"),
        ([2] * 20, (1, 5, 5, 5), "at least 2 each"),
        ([2] * 20, (2.5, 5, 5, 5), "four shares or four whole numbers of identities"),
        ([2] * 20, (0.5, 5, 5, 5), "four shares or four whole numbers of identities"),
    ],
)
def test_splits_that_cannot_be_drawn_are_refused(counts, shares, message):
    with pytest.raises(SplitError, match=message):
        IdentitySplit.draw(table(counts), **({} if shares is None else {"shares": shares}))


def test_identities_are_needed():
    with pytest.raises(DataError, match="this needs an identity for every row"):
        IdentitySplit.draw(EmbeddingSet.of(np.eye(3)))


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6)


@settings(max_examples=80)
@given(st.lists(NAMES, min_size=9, max_size=9, unique=True), st.lists(NAMES, min_size=18, max_size=18, unique=True))
def test_a_manifest_comes_back_as_it_was_saved_whatever_the_names(tmp_path_factory, names, samples):
    path = tmp_path_factory.mktemp("split") / "split.csv"
    identity = np.repeat(np.array(names), 2)
    embeddings = table([], sample=samples, identity=identity)
    split = IdentitySplit.draw(embeddings, shares=(2, 2, 2, 2))
    split.save(path, embeddings)
    back = IdentitySplit.from_csv(path, embeddings)
    np.testing.assert_array_equal(back.part, split.part)
    assert back.rule == "read from split.csv"
    assert back.part.dtype == split.part.dtype
    assert path.read_text("utf-8").replace('"', "").startswith("sample,identity,split\n")


@pytest.fixture
def saved(tmp_path):
    """A table of ten people with two images each, keyed s00, s01, ..., and the lines of its manifest."""
    identity = np.repeat([f"p{i}" for i in range(10)], 2)
    embeddings = table([], sample=[f"s{i:02d}" for i in range(20)], identity=identity)
    path = tmp_path / "split.csv"
    IdentitySplit.draw(embeddings, shares=(2, 2, 2, 2)).save(path, embeddings)
    return embeddings, path, path.read_text().splitlines()


def test_rows_that_are_not_used_are_not_listed_and_the_same_split_gives_the_same_bytes(saved, tmp_path):
    embeddings, path, lines = saved
    assert len(lines) == 1 + 16
    IdentitySplit.from_csv(path, embeddings).save(tmp_path / "again.csv", embeddings)
    assert (tmp_path / "again.csv").read_bytes() == path.read_bytes()


def test_column_order_further_columns_and_a_byte_order_mark_do_not_matter(saved):
    embeddings, path, lines = saved
    expected = IdentitySplit.from_csv(path, embeddings).part
    moved = [",".join([line.split(",")[2], "x", line.split(",")[0], line.split(",")[1]]) for line in lines]
    moved[0] = "split,other,sample,identity"
    path.write_text("\ufeff" + "\r\n".join(moved), encoding="utf-8")
    np.testing.assert_array_equal(IdentitySplit.from_csv(path, embeddings).part, expected)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda ls: [*ls, "nobody,p1,fit"], "line 18: sample 'nobody' is not in the table"),
        (lambda ls: [*ls[:3], "nobody,p1,fit", *ls[3:]], "line 4: sample 'nobody' is not in the table"),
        (lambda ls: [ls[0], ls[1].replace(",p", ",q"), *ls[2:]], "line 2: 's0.' is 'q.' here but 'p.' in the table"),
        (
            lambda ls: [*ls[:-1], ls[-1].rsplit(",", 1)[0] + ",train"],
            "line 17: split 'train' is none of fit, attack, validation, test",
        ),
        (lambda ls: [*ls[:-1], ls[-1].rsplit(",", 1)[0] + ","], "line 17: split '' is none of"),
        (lambda ls: [*ls[:-1], ls[-1].rsplit(",", 1)[0]], "line 17: split None is none of"),
        (lambda ls: [*ls, ls[1]], "line 18: sample 's0.' is listed twice"),
        (lambda ls: ["sample,person,split", *ls[1:]], "lacks the columns identity"),
        (lambda ls: ["a,b", *ls[1:]], "lacks the columns identity, sample, split"),
        (lambda ls: [], "lacks the columns identity, sample, split"),
    ],
)
def test_manifests_that_do_not_fit_the_table_are_refused_with_the_line(saved, edit, message):
    embeddings, path, lines = saved
    path.write_text("\n".join(edit(lines)))
    with pytest.raises(FormatError, match=message) as caught:
        IdentitySplit.from_csv(path, embeddings)
    assert str(path) in str(caught.value)


def test_a_part_without_two_people_is_refused(saved):
    embeddings, path, lines = saved
    path.write_text("\n".join(line for line in lines if not line.endswith("validation")))
    with pytest.raises(SplitError, match="split 'validation' has 0 identities, at least 2 are needed"):
        IdentitySplit.from_csv(path, embeddings)
    one = next(line.split(",")[1] for line in lines[1:] if line.endswith("test"))
    path.write_text("\n".join(line for line in lines if f",{one}," not in line))
    with pytest.raises(SplitError, match="split 'test' has 1 identities, at least 2 are needed"):
        IdentitySplit.from_csv(path, embeddings)


def test_files_that_are_no_manifest_are_refused(saved):
    embeddings, path, _ = saved
    with pytest.raises(FormatError, match="no split manifest at"):
        IdentitySplit.from_csv(path.with_name("missing.csv"), embeddings)
    path.write_bytes(b"sample,identity,split\n\xff\xfe,a,fit\n")
    with pytest.raises(FormatError, match="is not a CSV file"):
        IdentitySplit.from_csv(path, embeddings)
    path.write_text('sample,identity,split\n"' + "x" * 200_000 + '",a,fit\n')  # beyond the field limit of csv
    with pytest.raises(FormatError, match="is not a CSV file"):
        IdentitySplit.from_csv(path, embeddings)


def test_an_identity_in_two_parts_is_a_finding(saved):
    embeddings, path, lines = saved
    both = [line for line in lines[1:] if line.endswith(",fit")][:3]
    changed = [line.replace(",fit", ",test") if line in both[::2] else line for line in lines]
    path.write_text("\n".join(changed))
    found = IdentitySplit.from_csv(path, embeddings).shared_identities(embeddings.identity)
    names = sorted({line.split(",")[1] for line in both[::2]})
    assert (found.kind, found.severity, found.count) == ("identity_shared_between_splits", "error", len(names))
    assert found.examples == tuple(f"{name}: fit and test" for name in names)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.3,0.25,0.2,0.25", (0.3, 0.25, 0.2, 0.25)),
        (" .3 , 0.25,2e-1,0.25 ", (0.3, 0.25, 0.2, 0.25)),
        ("20,30,40,10", (20, 30, 40, 10)),
    ],
)
def test_shares_are_read_from_text(text, values):
    assert parse_shares(text) == dict(zip(PARTS, values, strict=True))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot read the split '': write four shares or counts such as 0.3,0.25,0.2,0.25"),
        ("a,b,c,d", "cannot read the split"),
        ("30%,25%,20%,25%", "cannot read the split"),
        ("0.3;0.25;0.2;0.25", "cannot read the split"),
        ("0.3,0.3,0.4", r"four numbers \(fit, attack, validation, test\), '0.3,0.3,0.4' has 3"),
        ("1,2,3,4,5", "has 5"),
    ],
)
def test_other_texts_are_refused(text, message):
    with pytest.raises(UsageError, match=message):
        parse_shares(text)
