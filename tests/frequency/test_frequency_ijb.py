"""IJB templates and rates against plain loops and scikit-learn's curve, from a miniature of the true tree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faceblind._errors import DataError, FormatError, ImageError
from faceblind.faces.align import TEMPLATE
from faceblind.frequency.evaluation.ijb import evaluate_ijb, make_templates
from faceblind.frequency.evaluation.ijb_files import IjbFaces, listed_pairs, open_ijb
from faceblind.frequency.evaluation.listed import ListedPairs
from faceblind.measure.intervals import SubjectBootstrap
from faceblind.measure.point import Threshold
from faceblind.measure.scan import score_tail


@given(st.integers(0, 10**6), st.booleans())
def test_templates_are_those_of_the_published_loops(seed, weighted):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    embeddings = rng.normal(size=(n, 70)).astype(np.float32)
    template, medium = rng.integers(0, 9, n) * 7, rng.integers(0, 5, n)
    weights = rng.uniform(0.1, 1, n) if weighted else None
    ids, got = make_templates(embeddings, template, medium, weights=weights)
    scaled = embeddings.astype(np.float64) * (1 if weights is None else weights[:, None])
    assert ids.tolist() == sorted(set(template.tolist()))
    for row, number in enumerate(ids):
        own = template == number
        total = np.zeros(70)
        for video in set(medium[own].tolist()):
            total += scaled[own & (medium == video)].mean(axis=0)
        assert np.allclose(got[row], total / np.linalg.norm(total), atol=1e-6)


def test_faults_of_templates_are_named():
    one = np.ones((3, 4), dtype=np.float32)
    with pytest.raises(DataError, match="3 images need one embedding, one medium and one weight each"):
        make_templates(one, np.arange(3), np.arange(2))
    with pytest.raises(DataError, match="templates, numbered as they come: the embedding of image 1 is zero"):
        make_templates(np.array([[1.0], [1.0], [-1.0]], dtype=np.float32), np.array([0, 5, 5]), np.arange(3))


def lists(people: int = 12, each: int = 3, seed: int = 0, noise: float = 1.2):
    """Templates, two of each person to compare with each other and with others'."""
    rng = np.random.default_rng(seed)
    centres = np.repeat(rng.normal(size=(people, 16)), each, axis=0)
    vectors = centres + noise * rng.normal(size=centres.shape)
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    ids = 10 + 3 * np.arange(people * each)
    return ids, vectors, np.repeat(np.arange(people), each)


def all_pairs(who):
    i, j = np.triu_indices(who.size, 1)
    return i, j, who[i] == who[j]


def write_pairs(path: Path, ids, i, j, same) -> Path:
    path.write_text("".join(f"{a} {b} {int(s)}\n" for a, b, s in zip(ids[i], ids[j], same, strict=True)))
    return path


def test_a_list_of_all_pairs_gives_what_all_pairs_give(tmp_path):
    ids, vectors, who = lists()
    path = write_pairs(tmp_path / "pairs.txt", ids, *all_pairs(who))
    seen = []
    got = evaluate_ijb(
        ids, vectors, path, fars=(0.1, 0.05), draws=200, rng=np.random.default_rng(4), progress=seen.append
    )
    assert seen == [36 * 35 // 2]
    tail = score_tail(vectors, who, far_max=0.1)
    rows = got.rows("ijbc", noise=True)
    for row in (row for row in rows if row["rule"] == "at most"):
        threshold = Threshold.set_on(tail, row["far_target"])
        assert row["tar"] == tail.tar(threshold.value)
        assert row["far"] == tail.false_accepts(threshold.value) / tail.nonmated
        assert row["far"] <= row["far_target"]
        assert (row["people"], row["mated"], row["nonmated"]) == (12, 36, 594)
        assert row["protocol"] == "ijb"
        assert row["low"] <= row["tar"] <= row["high"]
    listed = got.pairs.tail(0.1)
    assert np.array_equal(np.sort(listed.mated_pairs()), np.sort(tail.mated_pairs()))
    weights = np.random.default_rng(0).integers(0, 4, (5, 12)).astype(float)
    assert np.allclose(listed.nonmated_drawn(weights), tail.nonmated_drawn(weights))
    bootstrap = SubjectBootstrap.of(12, draws=200, rng=np.random.default_rng(4))
    for far in (0.1, 0.05):
        assert np.allclose(bootstrap.tar_calibrated(listed, far), bootstrap.tar_calibrated(tail, far), equal_nan=True)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([1e-3, 0.01, 0.1, 0.5]), st.booleans())
def test_the_published_point_is_scikit_learns(seed, far, coarse):
    curve = pytest.importorskip("sklearn.metrics").roc_curve
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 300))
    same = rng.random(n) < 0.4
    same[:2] = True, False
    scores = (rng.normal(size=n) + same).astype(np.float32)
    if coarse:
        scores = np.round(scores, 1)  # many ties
    first = np.where(same, 0, 1 + np.arange(n)).astype(np.int32)
    second = np.where(same, 0, 500 + np.arange(n)).astype(np.int32)
    listed = ListedPairs.of(scores, first, second, same, 1000)
    fpr, tpr, _ = curve(same, scores)
    fpr, tpr = np.flipud(fpr), np.flipud(tpr)
    _, at = min(zip(np.abs(fpr - far), range(fpr.size), strict=True))
    assert listed.nearest(far) == pytest.approx((tpr[at], fpr[at]), abs=1e-12)


def test_people_are_those_whom_the_list_links_and_only_those_in_it(tmp_path):
    ids, vectors, who = lists(people=4, each=2)
    i, j = np.array([0, 2, 0, 2]), np.array([1, 3, 2, 4])
    path = write_pairs(tmp_path / "pairs.txt", ids, i, j, who[i] == who[j])
    got = evaluate_ijb(ids, vectors, path, fars=(0.5,), draws=20, rng=np.random.default_rng(0))
    assert got.pairs.subjects == 3  # two linked pairs and a template that nothing links; three more are in no pair
    assert got.rates[0]["people"] == 2
    assert got.pairs.conflicts == 0


def test_lists_are_read_in_pieces(tmp_path, monkeypatch):
    ids, _, who = lists()
    i, j, same = all_pairs(who)
    path = write_pairs(tmp_path / "pairs.txt", ids, i, j, same)
    path.write_text(path.read_text() + "\n\n")
    monkeypatch.setattr("faceblind.frequency.evaluation.ijb_files._LINES", 100)
    parts = list(listed_pairs(path, ids))
    assert [part[2].size for part in parts] == [100] * 6 + [30]
    assert np.array_equal(np.concatenate([part[0] for part in parts]), i)
    assert np.array_equal(np.concatenate([part[1] for part in parts]), j)
    assert np.array_equal(np.concatenate([part[2] for part in parts]), same)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("10 13", r"line 251: expected 3 numbers, got '10 13'"),
        ("10 13 x", r"line 251: expected 3 numbers, got '10 13 x'"),
        ("10 13 2", r"line 251: the label is 0 or 1, got 2"),
        ("10 11 1", r"line 251: template 10 or 11 has no images"),
        ("10 99999 1", r"line 251: template 10 or 99999 has no images"),
        ("", r"line 251: expected 3 numbers, got ''"),
        ("10 13 é", r"is not a text file"),
    ],
)
def test_faults_of_a_list_are_named(tmp_path, monkeypatch, line, message):
    monkeypatch.setattr("faceblind.frequency.evaluation.ijb_files._LINES", 100)
    ids, vectors, who = lists()
    path = write_pairs(tmp_path / "pairs.txt", ids, *all_pairs(who))
    lines = path.read_text().splitlines()
    lines[250] = line
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(FormatError, match=message):
        evaluate_ijb(ids, vectors, path, rng=np.random.default_rng(0))


def test_other_faults_are_named(tmp_path):
    ids, vectors, _ = lists()
    path = tmp_path / "pairs.txt"
    path.write_text("10 13 1\n")
    with pytest.raises(DataError, match="all 1 listed pairs are of one person"):
        evaluate_ijb(ids, vectors, path, rng=np.random.default_rng(0))
    path.write_text("")
    with pytest.raises(FormatError, match=r"pairs.txt is empty"):
        evaluate_ijb(ids, vectors, path, rng=np.random.default_rng(0))
    with pytest.raises(DataError, match="target FARs lie between 0 and 1"):
        evaluate_ijb(ids, vectors, path, fars=(), rng=np.random.default_rng(0))
    with pytest.raises(DataError, match=r"cannot read .*nowhere.txt"):
        evaluate_ijb(ids, vectors, tmp_path / "nowhere.txt", rng=np.random.default_rng(0))


def tree(root: Path, name: str = "ijbc", images: int = 6) -> Path:
    """A miniature of what InsightFace distributes: a picture whose face lies where an aligned one does, shifted."""
    pillow = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    (root / "loose_crop").mkdir(parents=True)
    (root / "meta").mkdir()
    media, points = [], []
    for number in range(1, images + 1):
        pixels = rng.integers(0, 256, (160, 150, 3), dtype=np.uint8)
        pillow.fromarray(pixels).save(root / "loose_crop" / f"{number}.jpg", quality=95)
        media.append(f"{number}.jpg {1 + (number - 1) // 2} {70000 + number}\n")
        at = (TEMPLATE + np.array([number, 2 * number])).reshape(-1)
        points.append(f"{number}.jpg " + " ".join(f"{value:.4f}" for value in at) + " 0.9987\n")
    (root / "meta" / f"{name}_face_tid_mid.txt").write_text("".join(media))
    (root / "meta" / f"{name}_name_5pts_score.txt").write_text("".join(points))
    (root / "meta" / f"{name}_template_pair_label.txt").write_text("1 2 1\n1 3 0\n")
    return root


@pytest.mark.parametrize("name", ["ijbb", "ijbc"])
def test_a_tree_is_read_and_its_faces_are_aligned(tmp_path, name):
    from PIL import Image

    ijb = open_ijb(tree(tmp_path / "data", name))
    assert ijb.name == name
    assert ijb.template.tolist() == [1, 1, 2, 2, 3, 3]
    assert ijb.medium.tolist() == [70001, 70002, 70003, 70004, 70005, 70006]
    assert np.allclose(ijb.points[1], TEMPLATE + np.array([2, 4]), atol=1e-4)
    assert np.allclose(ijb.score, 0.9987)
    faces = IjbFaces(ijb, 112)
    assert len(faces) == 6
    assert faces.identity.tolist() == ["1", "1", "2", "2", "3", "3"]
    chips = faces.pixels([0, 2])
    for chip, number in zip(chips, (1, 3), strict=True):
        with Image.open(ijb.root / "loose_crop" / f"{number}.jpg") as image:
            whole = np.asarray(image).astype(int)
        part = whole[2 * number : 2 * number + 112, number : number + 112]
        assert np.abs(chip.astype(int) - part).max() <= 2
    ids, templates = make_templates(np.eye(6, dtype=np.float32) + 1, ijb.template, ijb.medium, weights=ijb.score)
    rates = evaluate_ijb(ids, templates, ijb.pairs_file, fars=(0.5,), draws=10, rng=np.random.default_rng(0)).rates
    assert rates[0]["mated"] == 1


def test_faults_of_a_tree_are_named(tmp_path):
    root = tree(tmp_path / "data")
    ijb = open_ijb(root)
    with pytest.raises(DataError, match="faces are aligned to squares, got 112 x 96"):
        IjbFaces(ijb, (112, 96))
    (root / "loose_crop" / "2.jpg").unlink()
    with pytest.raises(ImageError, match=r"2.jpg: no such file"):
        IjbFaces(ijb, 112).pixels([0, 1])
    scores = root / "meta" / "ijbc_name_5pts_score.txt"
    text = scores.read_text()
    scores.write_text(text.replace("3.jpg", "7.jpg"))
    with pytest.raises(FormatError, match="list other images from line 3 on"):
        open_ijb(root)
    scores.write_text("".join(text.splitlines(keepends=True)[:4]))
    with pytest.raises(FormatError, match="list other images from line 5 on"):
        open_ijb(root)
    scores.write_text(text.replace(" 0.9987", " nan"))
    with pytest.raises(FormatError, match=r"ijbc_name_5pts_score.txt, line 1: expected 11 numbers"):
        open_ijb(root)
    scores.write_text("1.jpg\n")
    with pytest.raises(FormatError, match=r"line 1: expected a name and 11 numbers"):
        open_ijb(root)
    scores.write_text(text)
    (root / "meta" / "ijbc_template_pair_label.txt").unlink()
    with pytest.raises(DataError, match=r"no such file: .*ijbc_template_pair_label.txt"):
        open_ijb(root)
    (root / "meta" / "ijbc_face_tid_mid.txt").unlink()
    with pytest.raises(DataError, match=r"holds 0 lists like ijbc_face_tid_mid.txt"):
        open_ijb(root)
