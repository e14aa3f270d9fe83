"""Cells are what an independent computation gives; runs are repeatable and go on where they stopped."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from papers_cases import bench_of, brute_tar, everything, quick, table, two_sets, write

import faceblind as fb
from faceblind._errors import DataError
from faceblind.attack import draw_images
from faceblind.audit.papers import Protocol, reproduce, to_csv
from faceblind.audit.papers.html import to_html
from faceblind.audit.papers.records import records
from strategies import planted

LAMBDAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2)


def unit(rows):
    rows = np.asarray(rows, dtype=np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def dense_ridge(vectors, identity, lam):
    """W and mean of the ridge probe, by the formula in the paper's notation."""
    Z = vectors.astype(np.float64)
    mean = Z.mean(axis=0)
    Z = Z - mean
    Y = (identity[:, None] == np.unique(identity)[None, :]).astype(np.float64)
    Y -= Y.mean(axis=0)
    gram = Z.T @ Z
    return np.linalg.solve(gram + lam * np.trace(gram) / Z.shape[1] * np.eye(Z.shape[1]), Z.T @ Y), mean


def hand_computed(groups, k, seed, far):
    """TAR on test of the ridge probe whose lambda does best on validation; everything dense, every pair sorted."""
    train, validation, test = (groups[name] for name in ("train", "validation", "test"))
    rows = draw_images(train[1], k, np.random.default_rng([0, 0xA77, seed, k]))

    def tar(part, lam, at):
        W, mean = dense_ridge(train[0][rows], train[1][rows], lam)
        mapped = unit((part[0] - mean) @ W)
        return brute_tar(mapped @ mapped.T, part[1], at)

    pairs = validation[1].size * (validation[1].size - 1) // 2 - 10 * 15
    tuned_at = max(far, 30 / pairs)
    best = max(LAMBDAS, key=lambda lam: tar(validation, lam, tuned_at))
    return tar(test, best, far)


@pytest.mark.parametrize("release", ["raw", "isp-w"])
def test_a_cell_by_hand(tmp_path, release):
    people = table(3)
    write(tmp_path, "a-enc.npz", people)
    protocol = quick(cross=False, far=0.05)
    (made,) = reproduce(tmp_path, ["1"], protocol=protocol)
    bench = bench_of(fb.read_table(tmp_path / "a-enc.npz"), protocol)
    groups = {name: (group.vectors, group.identity) for name, group in bench.groups.items()}
    if release == "isp-w":
        vectors, identity = groups["train"]
        means = np.stack([unit(vectors)[identity == name].mean(axis=0) for name in np.unique(identity)])
        U = np.linalg.svd((means - means.mean(axis=0)).T, full_matrices=False)[0][:, :6]
        groups = {name: (unit(v - (v @ U) @ U.T), who) for name, (v, who) in groups.items()}
    for cell in records(made):
        if cell["release"] == release:
            expected = np.mean([hand_computed(groups, cell["k"], seed, 0.05) for seed in range(2)])
            assert cell["value"] == pytest.approx(expected, abs=1 / 150)  # one pair may fall the other way in float32
            cosine = groups["test"][0] @ groups["test"][0].T
            assert cell["cosine"] == pytest.approx(brute_tar(cosine, groups["test"][1], 0.05), abs=1 / 150)


def test_layouts_are_the_papers():
    one, four, five, six = everything()
    assert [c.label for c in one.layout.columns][:4] == ["k=1 RAW", "k=1 ISP-W", "k=1 ISP-X", "k=4 RAW"]
    assert [s.name for s in one.layout.rows] == ["celeba through enc", "lfw through enc"]
    assert [c.label for c in four.layout.columns] == ["RAW k=1", "RAW k=4", "ISP-W k=1", "ISP-W k=4"]
    assert [s.dataset for s in four.layout.rows] == ["lfw"]
    assert [c.label for c in five.layout.columns] == ["r=0", "r=4", "r=8", "r=30"]
    assert [s.dataset for s in five.layout.rows] == ["celeba", "lfw"]
    assert [c.label for c in six.layout.columns] == ["m=10", "m=20"]  # 24 people are there to fit on
    assert [s.dataset for s in six.layout.rows] == ["celeba"]
    assert {c.k for made in (five, six) for c in made.layout.columns} == {4}
    assert (four.layout.metric, five.layout.metric) == ("pauc", "tar")


def test_one_measurement_has_one_value_in_all_tables():
    one, _, five, six = (records(made) for made in everything())

    def value(rows, **where):
        (found,) = [r for r in rows if all(r[key] == v for key, v in where.items())]
        return found["value"], found["low"], found["high"]

    here = {"dataset": "celeba", "k": 4}
    assert value(one, **here, release="raw") == value(five, **here, column="r=0")
    assert value(one, **here, release="isp-w") == value(six, **here, column="m=20")


def test_what_the_data_do_not_support_is_empty_with_its_reason():
    rows = records(everything()[2])
    (empty,) = [r for r in rows if r["dataset"] == "lfw" and r["column"] == "r=30"]
    assert empty["value"] is None
    assert empty["empty_because"] == "20 people support rank 19"


def test_nulls_and_attackers_stand_beside_each_cell():
    for row in records(everything()[0]):
        erased = row["release"] != "raw"
        assert (row["random"] is not None) is erased
        assert (row["pca"] is not None) is erased
        others = [row["value"], row["cosine"], row["wccn"], row["fresh"], row["wccn_fresh"]]
        assert row["worst"] == max(others)
        assert row["low"] <= row["value"] <= row["high"]
        assert row["grade"] == "indicative"  # 16 of 1,620
        assert row["lift"] == pytest.approx(row["value"] / 0.01)
        assert 0 <= row["frozen_far"] < 0.1
        assert row["energy_kept"] == 1 if not erased else row["energy_kept"] < 1


def test_the_probe_of_the_erasers_own_people_is_blind_and_it_shows(tmp_path):
    """Identity in 30 dimensions, 20 people to fit on: the eraser takes what those 20 differ in, and new people keep theirs."""
    made = planted(5, people=60, images=6, dim=48, rank=30, strength=0.5, noise=0.3)
    write(tmp_path, "a-enc.npz", fb.EmbeddingSet.of(made.vectors, made.identity))
    (table1,) = reproduce(tmp_path, ["1"], protocol=quick(cross=False, rank=19, ks=(6,), far=0.05))
    raw, erased = records(table1)
    assert raw["value"] > 2 * erased["value"]
    assert erased["worst"] > 2 * erased["value"]
    assert "train" not in erased["worst_attacker"]
    assert " blind" in to_html(table1)


def test_a_control_is_shown_raw_only(tmp_path):
    two_sets(tmp_path)
    write(tmp_path, "lfw-arc.npz", table(7))
    (made,) = reproduce(tmp_path, ["1"], protocol=quick(), controls=["arc"])
    rows = [r for r in records(made) if r["encoder"] == "arc"]
    assert [r["value"] is None for r in rows] == [r["release"] != "raw" for r in rows]
    assert made.layout.rows[-1].encoder == "arc"
    assert {s.encoder for s in reproduce(tmp_path, ["5"], protocol=quick(), controls=["arc"])[0].layout.rows} == {"enc"}


def test_what_is_missing_is_said(tmp_path):
    write(tmp_path, "a-enc.npz", table(3))
    with pytest.raises(DataError, match=r"ISP-X of a through enc needs a second data set of encoder enc.*--no-cross"):
        reproduce(tmp_path, ["1"], protocol=quick())
    with pytest.raises(DataError, match="Table 9 is about the second data set"):
        reproduce(tmp_path, ["9"], protocol=quick())
    with pytest.raises(DataError, match="no table of data set b; there are a"):
        reproduce(tmp_path, ["8"], protocol=quick(), dataset="b")
    with pytest.raises(DataError, match="Table 5 has no row: all tables of a are controls"):
        reproduce(tmp_path, ["5"], protocol=quick(), controls=["enc"])


def test_a_shared_rank_is_capped_and_said(tmp_path):
    two_sets(tmp_path)
    (made,) = reproduce(tmp_path, ["1"], protocol=quick(rank=50, ks=(1,), seeds=1))
    assert {r["rank"] for r in records(made) if r["release"] != "raw"} == {19}
    assert any("enc: rank 19 instead of 50: 20 people support no more" in note for note in made.notes)
    (default,) = reproduce(tmp_path, ["1"], protocol=quick(rank=None, ks=(1,), seeds=1))
    assert {r["rank"] for r in records(default) if r["release"] != "raw"} == {12}
    assert any("rank 12 instead of 192: half of 24 dimensions" in note for note in default.notes)


def test_identity_counts_are_scaled_when_there_are_too_few_people(tmp_path):
    write(tmp_path, "a-enc.npz", table(3))
    (made,) = reproduce(tmp_path, ["6"], protocol=quick(fit_people=(320, 640), rank=4))
    assert [c.name for c in made.layout.columns] == ["m=6", "m=12", "m=18", "m=24"]
    assert any("quarters of them stand for m=320, 640" in note for note in made.notes)
    rows = records(made)
    assert {r["rank"] for r in rows} == {4}
    assert [r["fit_people"] for r in rows] == [6, 12, 18, 24]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    two_sets(tmp_path)
    first, again, other = (
        to_csv(records(reproduce(tmp_path, ["1"], protocol=quick(seed=s, ks=(1,), seeds=1, as_printed=True))[0]))
        for s in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_finished_cells_are_kept_and_only_used_where_they_fit(tmp_path):
    two_sets(tmp_path / "tables")
    cache, steps = tmp_path / "cells.json", []
    run = {"protocol": quick(ks=(1,), seeds=1), "cache": cache, "progress": lambda *step: steps.append(step)}
    first = to_csv(records(reproduce(tmp_path / "tables", ["1"], **run)[0]))
    held = json.loads(cache.read_text())
    assert held["layout"] == "faceblind.papers/1"
    measured = [step for step in steps if not step[0].startswith("reading")]
    assert len(measured) == len(held["cells"])
    assert measured[-1][1] == measured[-1][2]

    # half of the cells are lost, as if the run had been stopped: the rest is measured and nothing else
    half = dict(list(held["cells"].items())[::2])
    cache.write_text(json.dumps(held | {"cells": half}))
    steps.clear()
    assert to_csv(records(reproduce(tmp_path / "tables", ["1"], **run)[0])) == first
    assert len([s for s in steps if not s[0].startswith("reading")]) == len(held["cells"]) - len(half)

    # a kept number is shown as it was kept, so it must not be found under other settings
    marked = {key: value | {"value": 0.777} for key, value in held["cells"].items()}
    cache.write_text(json.dumps(held | {"cells": marked}))
    assert {r["value"] for r in records(reproduce(tmp_path / "tables", ["1"], **run)[0])} == {0.777}
    for changed in (replace(run["protocol"], seed=1), replace(run["protocol"], draws=101)):
        rows = records(reproduce(tmp_path / "tables", ["1"], protocol=changed, cache=cache)[0])
        assert 0.777 not in {r["value"] for r in rows}
    write(tmp_path / "tables", "lfw-enc.npz", table(9))
    rows = records(reproduce(tmp_path / "tables", ["1"], **run)[0])
    kept = {(r["dataset"], r["release"]) for r in rows if r["value"] == 0.777}
    assert kept == {("celeba", "raw"), ("celeba", "isp-w")}  # ISP-X of celeba is fitted on lfw


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"layout": "other", "cells": {}}', '{"layout": "faceblind.papers/1"}']
)
def test_a_damaged_cache_counts_as_empty(tmp_path, text):
    write(tmp_path, "a-enc.npz", table(3))
    cache = tmp_path / "cells.json"
    cache.write_text(text)
    reproduce(tmp_path, ["5"], protocol=quick(ranks=(0,), seeds=1), cache=cache)
    assert len(json.loads(cache.read_text())["cells"]) == 5


def test_printed_protocol_counts_its_pairs():
    one, four = everything()[:2]
    for row in records(one):
        assert row["printed_pairs"] == 60 * 4
        assert row["printed_value_low"] <= row["printed_value_mean"] <= row["printed_value_high"]
        assert row["printed_far_mean"] == pytest.approx(3 / 241, rel=0.4)  # two accepts of 240: Beta(3, 238)
    for row in records(four):
        assert (row["printed_pairs"], row["printed_variant_pairs"]) == (720, 780)  # ten people, four images
        assert row["printed_variant_mean"] <= row["printed_value_mean"] + 1e-12


def test_default_is_the_papers():
    protocol = Protocol()
    assert protocol.people == (320, 80, 80)
    assert (protocol.images, protocol.ks, protocol.seeds, protocol.far) == (20, (1, 4, 16), 5, 1e-4)


def test_mlp_tables_are_of_the_first_and_the_second_data_set(tmp_path):
    two_sets(tmp_path)
    eight, nine = reproduce(tmp_path, ["8", "9"], protocol=quick(ks=(4,), seeds=1, far=0.05))
    assert [(m.layout.probe, m.layout.rows[0].dataset) for m in (eight, nine)] == [("mlp", "celeba"), ("mlp", "lfw")]
    assert [c.label for c in eight.layout.columns] == ["Pre-ISP k=4", "Post-ISP k=4"]
    raw, erased = records(eight)
    assert raw["value"] > 0.2 > erased["value"]
    assert raw["fresh"] is not None
    assert erased["random"] > erased["value"]
