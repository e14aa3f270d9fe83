"""Streaming fit and apply: the same result as in memory, nothing half-written."""

from __future__ import annotations

import numpy as np
import pytest

import faceblind as fb
from faceblind.data.meta import TableMeta
from faceblind.data.tables import open_table, read_table, write_table
from faceblind.deploy import apply_table, fit_table
from strategies import fingerprint, planted

FORMATS = [".parquet", ".npz", ".npy", ""]


@pytest.fixture
def people():
    made = planted(1, people=20, images=5)
    return fb.EmbeddingSet.of(made.vectors, made.identity, meta=TableMeta(encoder=fingerprint(dim=32), synthetic=True))


@pytest.fixture
def projector(people):
    return fb.ISP(4).fit_moments(fb_moments(people), encoder=people.encoder, synthetic=True).projector_


def fb_moments(people):
    from faceblind.erase import IdentityMoments

    return IdentityMoments().partial_fit(people.vectors, people.identity)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("compact", [False, True])
def test_apply_writes_what_the_projector_gives_and_keeps_everything_else(tmp_path, people, projector, suffix, compact):
    source, output = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    write_table(source, people)
    report = apply_table(projector, open_table(source), output, compact=compact)
    clean = read_table(output)
    np.testing.assert_allclose(clean.vectors, projector.apply(people.vectors, compact=compact).vectors, atol=1e-6)
    np.testing.assert_array_equal(clean.sample, people.sample)
    np.testing.assert_array_equal(clean.identity, people.identity)
    assert clean.meta == TableMeta(encoder=people.encoder, synthetic=True, projector=projector.digest)
    assert report.rows == len(people)
    assert report.dim == (28 if compact else 32)
    assert report.energy_kept == pytest.approx(projector.apply(people.vectors).energy_kept.mean())


def test_carried_columns_travel(tmp_path, people, projector):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    source = tmp_path / "in.parquet"
    write_table(source, people)
    url = pa.array([f"https://example.org/{i}" for i in range(len(people))])
    pq.write_table(pq.read_table(source).append_column("url", url), source)
    apply_table(projector, open_table(source), tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["url"].to_pylist() == url.to_pylist()


def test_batches_do_not_change_the_result(tmp_path, people, projector, monkeypatch):
    write_table(tmp_path / "in.npz", people)
    apply_table(projector, open_table(tmp_path / "in.npz"), tmp_path / "whole.npz")
    monkeypatch.setattr("faceblind.erase.projector._ROWS", 7)
    apply_table(projector, open_table(tmp_path / "in.npz"), tmp_path / "parts.npz")
    np.testing.assert_allclose(
        read_table(tmp_path / "whole.npz").vectors, read_table(tmp_path / "parts.npz").vectors, atol=1e-7
    )


def test_half_precision_in_half_precision_out(tmp_path, people, projector):
    write_table(tmp_path / "in.parquet", people, dtype="float16")
    apply_table(projector, open_table(tmp_path / "in.parquet"), tmp_path / "out.parquet")
    assert open_table(tmp_path / "out.parquet").dtype == np.float16
    apply_table(projector, open_table(tmp_path / "in.parquet"), tmp_path / "wide.parquet", dtype="float32")
    assert open_table(tmp_path / "wide.parquet").dtype == np.float32
    residual = read_table(tmp_path / "out.parquet").vectors @ projector.basis
    assert np.abs(residual).max() < 2e-3


def test_rows_with_nothing_left_are_zeros_and_counted(tmp_path, people, projector):
    vectors = people.vectors.copy()
    vectors[7] = projector.basis[:, 0]
    write_table(tmp_path / "in.npz", fb.EmbeddingSet.of(vectors, people.identity))
    report = apply_table(projector, open_table(tmp_path / "in.npz"), tmp_path / "out.npz")
    assert report.emptied == 1
    assert report.emptied_examples == ("7",)
    with np.load(tmp_path / "out.npz") as written:
        assert not written["embedding"][7].any()
        assert np.isfinite(written["embedding"]).all()


def test_another_encoder_is_refused_unless_forced(tmp_path, people, projector):
    other = fb.EmbeddingSet.of(
        people.vectors, people.identity, meta=TableMeta(encoder=fingerprint(dim=32, weights_sha256="cd" * 32))
    )
    write_table(tmp_path / "in.npz", other)
    with pytest.raises(fb.EncoderError, match="weights_sha256"):
        apply_table(projector, open_table(tmp_path / "in.npz"), tmp_path / "out.npz")
    assert not (tmp_path / "out.npz").exists()
    report = apply_table(projector, open_table(tmp_path / "in.npz"), tmp_path / "out.npz", force=True)
    assert "forced" in report.cautions[0]


def test_applying_twice_is_refused(tmp_path, people, projector):
    write_table(tmp_path / "in.npz", people)
    apply_table(projector, open_table(tmp_path / "in.npz"), tmp_path / "out.npz")
    with pytest.raises(fb.ProjectorError, match="already put through this projector"):
        apply_table(projector, open_table(tmp_path / "out.npz"), tmp_path / "again.npz")


def test_wrong_dimension_names_both(tmp_path, projector):
    write_table(tmp_path / "in.npz", fb.EmbeddingSet.of(np.eye(9), meta=TableMeta()))
    with pytest.raises(fb.ProjectorError, match=r"32 features.* has 9"):
        apply_table(projector, open_table(tmp_path / "in.npz", identity=None), tmp_path / "out.npz")


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_bad_row_late_in_the_table_leaves_nothing_behind(tmp_path, people, projector, suffix, monkeypatch):
    vectors = people.vectors.copy()
    source, output = tmp_path / "in.npz", tmp_path / "made" / f"out{suffix}"
    write_table(source, people)
    with np.load(source) as held:
        arrays = dict(held)
    vectors[93, 2] = np.nan
    arrays["embedding"] = vectors
    np.savez(source, **arrays)
    with pytest.raises(fb.DataError, match="row 93"):
        apply_table(projector, open_table(source), output)
    assert list((tmp_path / "made").iterdir()) == []


def test_an_interrupted_apply_keeps_the_earlier_output(tmp_path, people, projector):
    write_table(tmp_path / "in.npz", people)
    apply_table(projector, open_table(tmp_path / "in.npz"), tmp_path / "out.npz")
    before = (tmp_path / "out.npz").read_bytes()

    def stop(_done, _of):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply_table(projector, open_table(tmp_path / "in.npz"), tmp_path / "out.npz", progress=stop)
    assert (tmp_path / "out.npz").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.npz", "out.npz"]


def test_fit_over_a_table_is_isp_over_its_identity_means(tmp_path, people):
    write_table(tmp_path / "in.parquet", people)
    fitted = fit_table(open_table(tmp_path / "in.parquet"), rank=5)
    unit = people.vectors / np.linalg.norm(people.vectors, axis=1, keepdims=True)
    means = np.stack([unit[people.identity == name].mean(axis=0) for name in np.unique(people.identity)]).astype(float)
    left = np.linalg.svd((means - means.mean(axis=0)).T)[0][:, :5]
    np.testing.assert_allclose(np.abs(left.T @ fitted.projector.basis), np.eye(5), atol=1e-6)
    assert fitted.projector.encoder == people.encoder
    assert fitted.projector.synthetic


def test_fit_on_chosen_samples_sees_no_other(tmp_path, people):
    write_table(tmp_path / "in.npz", people)
    chosen = np.isin(people.identity, np.unique(people.identity)[:8])
    part = people.take(chosen)
    a = fit_table(open_table(tmp_path / "in.npz"), rank=3, samples=part.sample.tolist()).projector
    write_table(tmp_path / "part.npz", part)
    b = fit_table(open_table(tmp_path / "part.npz"), rank=3).projector
    assert a.digest == b.digest
    assert a.fit_identities == 8


def test_fit_without_a_rank_is_capped_and_says_so(tmp_path, people):
    write_table(tmp_path / "in.npz", people)
    fitted = fit_table(open_table(tmp_path / "in.npz"))
    assert fitted.projector.rank == 16  # half of 32 dimensions
    assert "rank 16 by default" in fitted.note
    few = people.take(np.isin(people.identity, np.unique(people.identity)[:6]))
    write_table(tmp_path / "few.npz", few)
    fitted = fit_table(open_table(tmp_path / "few.npz"))
    assert fitted.projector.rank == 5
    assert "capped from the default 16, 6 identities support no more" in fitted.note


def test_identities_with_one_image_are_left_out_of_a_fit(tmp_path, people):
    extra = np.vstack([people.vectors, np.random.default_rng(0).standard_normal((2, 32))])
    names = [*people.identity.tolist(), "lone-a", "lone-b"]
    write_table(tmp_path / "more.npz", fb.EmbeddingSet.of(extra, names))
    write_table(tmp_path / "in.npz", fb.EmbeddingSet.of(people.vectors, people.identity))
    more, plain = (fit_table(open_table(tmp_path / f"{name}.npz"), rank=3) for name in ("more", "in"))
    assert more.projector.digest == plain.projector.digest
    assert "2 identities with a single image were left out" in more.note
