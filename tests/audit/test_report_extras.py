"""Maps and neighbours from tables."""

from __future__ import annotations

import builtins
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faceblind._errors import DataError, MissingExtraError
from faceblind.audit.report import Map, build_extras, render_html
from faceblind.audit.report.layout import lay_out, principal
from faceblind.audit.report.thumbs import SIDE, thumbnail
from faceblind.data.embeddings import EmbeddingSet

from report_records import make_record  # isort: skip


def table(people: int = 12, each: int = 5, dim: int = 16, *, seed: int = 0, spread: float = 0.2) -> EmbeddingSet:
    rng = np.random.default_rng(seed)
    identity = np.repeat([f"p{i:02d}" for i in range(people)], each)
    vectors = np.repeat(rng.normal(size=(people, dim)), each, axis=0) + spread * rng.normal(size=(people * each, dim))
    sample = [f"{name}/{i}.png" for i, name in enumerate(identity)]
    return EmbeddingSet.of(vectors, identity, sample=sample)


def erased_of(raw: EmbeddingSet) -> EmbeddingSet:
    """Noise in place of people, in fewer dimensions."""
    rng = np.random.default_rng(9)
    return EmbeddingSet.of(rng.normal(size=(len(raw), 7)), raw.identity, sample=raw.sample)


def test_neighbours_agree_with_brute_force() -> None:
    raw = table(spread=1.5)
    found = build_extras(raw, erased_of(raw))
    unit = raw.unit().astype(np.float64)
    for row in found.neighbours:
        query = int(np.flatnonzero(raw.sample == row.query.sample)[0])
        cosine = unit @ unit[query]
        cosine[query] = -2
        expected = np.argsort(-cosine)[:5]
        assert [n.picture.sample for n in row.before] == raw.sample[expected].tolist()
        assert [n.cosine for n in row.before] == pytest.approx(cosine[expected].tolist(), abs=1e-5)
        assert [n.same_person for n in row.before] == (raw.identity[expected] == raw.identity[query]).tolist()
        assert row.query.sample not in [n.picture.sample for n in (*row.before, *(row.after or ()))]


def test_tight_people_find_themselves_before_and_not_after() -> None:
    raw = table(each=6, spread=0.05)
    found = build_extras(raw, erased_of(raw))
    assert all(n.same_person for row in found.neighbours for n in row.before)
    assert not all(n.same_person for row in found.neighbours for n in row.after)


def test_queries_are_of_different_people_with_company_and_follow_the_seed() -> None:
    raw = table()
    lonely = EmbeddingSet.of(
        np.vstack([raw.vectors, np.eye(3, 16)]),
        [*raw.identity, "solo1", "solo2", "solo3"],
        sample=[*raw.sample, "a", "b", "c"],
    )
    first = build_extras(lonely, None, seed=1)
    people = [row.query.identity for row in first.neighbours]
    assert len(set(people)) == 6
    assert not any(p.startswith("solo") for p in people)
    assert [r.query for r in build_extras(lonely, None, seed=1).neighbours] == [r.query for r in first.neighbours]
    assert any(
        [r.query for r in build_extras(lonely, None, seed=s).neighbours] != [r.query for r in first.neighbours]
        for s in (2, 3)
    )
    assert "drawn at random (seed 1)" in first.query_rule


def test_same_seed_same_page() -> None:
    raw = table()
    record = make_record()
    pages = {render_html(record, build_extras(raw, erased_of(raw), seed=3)) for _ in range(2)}
    assert len(pages) == 1


def test_erased_rows_may_come_in_another_order() -> None:
    raw = table()
    erased = erased_of(raw)
    turned = erased.take(np.arange(len(raw))[::-1])
    straight, shuffled = build_extras(raw, erased), build_extras(raw, turned)
    assert straight.neighbours == shuffled.neighbours
    np.testing.assert_array_equal(straight.maps[1].xy, shuffled.maps[1].xy)


def test_maps_keep_people_whole() -> None:
    raw = table(people=12, each=5)
    found = build_extras(raw, None, max_points=23)
    (only,) = found.maps
    names, counts = np.unique(only.identity, return_counts=True)
    assert names.size == 4
    assert set(counts) == {5}
    assert "4 of 12 people" in found.map_rule
    assert only.release == "raw"


def test_a_person_larger_than_the_map_is_shown_in_part() -> None:
    found = build_extras(table(people=3, each=9), None, max_points=4)
    assert len(found.maps[0].identity) == 4


def test_nothing_erased_means_no_after() -> None:
    found = build_extras(table(), None)
    assert [m.release for m in found.maps] == ["raw"]
    assert all(row.after is None for row in found.neighbours)
    page = render_html(make_record(releases=("raw",)), found)
    assert "Before" in page
    assert ">After <" not in page


def test_bad_input_is_named() -> None:
    raw = table()
    with pytest.raises(DataError, match="max_points is 2"):
        build_extras(raw, None, max_points=2)
    with pytest.raises(DataError, match="identity for every row"):
        build_extras(EmbeddingSet.of(raw.vectors), None)
    with pytest.raises(DataError, match=r"'p00/0\.png' is missing from erased"):
        build_extras(raw, erased_of(raw).take(np.arange(1, len(raw))))
    with pytest.raises(DataError, match="erased holds images that raw lacks"):
        build_extras(raw.take(np.arange(1, len(raw))), erased_of(raw))


@pytest.mark.parametrize(
    ("xy", "identity", "message"),
    [
        (np.zeros((3, 3)), ["a"] * 3, r"shape \(n, 2\)"),
        (np.zeros((0, 2)), [], "n > 0"),
        (np.zeros((3, 2)), ["a"], "one identity per point"),
        (np.array([[0.0, np.nan]]), ["a"], "NaN or infinity"),
    ],
)
def test_maps_are_validated(xy: Any, identity: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Map(release="raw", method="PCA", xy=xy, identity=np.array(identity))


def test_principal_components_agree_with_the_svd() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 6)) * [5, 3, 1, 1, 1, 1]
    centred = x - x.mean(axis=0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.abs(principal(centred)), np.abs(u[:, :2] * s[:2]), atol=1e-9)
    assert principal(centred[:, :1]).shape == (40, 2)


def test_without_scikit_learn_the_method_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    method, xy = lay_out(table().unit(), seed=0)
    assert method == "PCA"
    assert xy.shape == (60, 2)
    assert "PCA map" in render_html(make_record(), build_extras(table(), None))


def test_tsne_separates_tight_people() -> None:
    pytest.importorskip("sklearn")
    raw = table(people=6, each=8, spread=0.02)
    method, xy = lay_out(raw.unit(), seed=0)
    assert method == "t-SNE"
    distance = np.linalg.norm(xy[:, None] - xy[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    assert (raw.identity[distance.argmin(axis=1)] == raw.identity).all()


@pytest.mark.parametrize("n", [1, 3, 9])
def test_few_or_identical_vectors_do_not_break_the_map(n: int) -> None:
    method, xy = lay_out(np.tile(np.array([[0.6, 0.8]], dtype=np.float32), (n, 1)), seed=0)
    assert method == "PCA"
    assert np.isfinite(xy).all()


class TestThumbnails:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        image = pytest.importorskip("PIL.Image")
        folder = tmp_path / "images"
        folder.mkdir()
        big = image.new("RGB", (400, 200), (200, 60, 60))
        exif = image.Exif()
        exif[0x010E] = "SECRET-PLACE"
        exif[0x0112] = 6  # turned by a quarter
        big.save(folder / "turned.jpg", exif=exif, comment=b"SECRET-COMMENT")
        image.new("RGBA", (50, 50), (0, 255, 0, 120)).save(folder / "alpha.png")
        image.new("L", (300, 300), 7).save(folder / "grey.png")
        (folder / "text.jpg").write_text("not a picture")
        (folder / "empty.png").write_bytes(b"")
        (folder / "cut.jpg").write_bytes((folder / "turned.jpg").read_bytes()[:300])
        (tmp_path / "outside.png").write_bytes((folder / "alpha.png").read_bytes())
        return folder

    def test_small_upright_and_without_metadata(self, folder: Path) -> None:
        from PIL import Image

        made = thumbnail(folder, "turned.jpg")
        assert made is not None
        assert b"SECRET" not in made
        with Image.open(io.BytesIO(made)) as opened:
            assert opened.format == "JPEG"
            assert opened.size == (SIDE // 2, SIDE)
            assert not opened.getexif()
        assert thumbnail(folder, "turned.jpg") == made

    @pytest.mark.parametrize("name", ["alpha.png", "grey.png"])
    def test_other_modes(self, folder: Path, name: str) -> None:
        assert thumbnail(folder, name) is not None

    @pytest.mark.parametrize(
        "name",
        ["missing.jpg", "text.jpg", "empty.png", "cut.jpg", ".", "../outside.png", "a\0b", "x" * 5000, "/etc/hostname"],
    )
    def test_unreadable_or_outside_is_a_placeholder(self, folder: Path, name: str) -> None:
        assert thumbnail(folder, name) is None

    def test_pages_show_thumbnails_and_placeholders(self, folder: Path) -> None:
        raw = table(people=3, each=2)
        names = ["turned.jpg", "alpha.png", "missing.jpg", "text.jpg", "cut.jpg", "grey.png"]
        extras = build_extras(EmbeddingSet.of(raw.vectors, raw.identity, sample=names), None, images=folder)
        page = render_html(make_record(), extras)
        assert 'src="data:image/jpeg;base64,' in page
        assert "no image" in page
        assert "It shows 3\N{NO-BREAK SPACE}photographs" in page

    def test_without_pillow_the_extra_is_named(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = builtins.__import__

        def refuse(name: str, *rest: Any, **options: Any) -> Any:
            if name.partition(".")[0] == "PIL":
                raise ImportError(name)
            return real(name, *rest, **options)

        monkeypatch.setattr(builtins, "__import__", refuse)
        with pytest.raises(MissingExtraError, match=r"thumbnails in the report needs pillow.*faceblind\[images\]"):
            thumbnail(folder, "alpha.png")
