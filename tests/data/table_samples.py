"""Small tables and the files they are in, for the tests of faceblind.data.tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.meta import Fingerprint, TableMeta
from faceblind.data.tables import open_table

FINGERPRINT = Fingerprint(
    encoder="sscd",
    weights_sha256="00ff",
    dim=3,
    pooling="output 'embedding'",
    preprocessing='[["resize", 288]]',
    precision="float32",
    libraries={"onnxruntime": "1.20"},
)
META = TableMeta(encoder=FINGERPRINT, synthetic=True, projector="abc")

SUFFIXES = (".parquet", ".npz", ".npy", "")
"""One per format that is written; none means the clip-retrieval layout."""


def unit_vectors(n: int, d: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((n, d))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(dtype)


def some_set(n: int = 7, d: int = 3, **changes) -> EmbeddingSet:
    given = {
        "identity": [f"person {i // 2}" for i in range(n)],
        "sample": [f"img/{i}.jpg" for i in range(n)],
        "meta": META,
    } | changes
    return EmbeddingSet.of(unit_vectors(n, d), **given)


def fixed_size(vectors: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])


def write_parquet(path: Path, vectors=None, *, meta: TableMeta | None = None, **columns) -> Path:
    """Write a table with pyarrow alone, vectors as a fixed-size list unless they are an Arrow array already."""
    row_group_size = columns.pop("row_group_size", None)
    if vectors is not None:
        columns["embedding"] = fixed_size(vectors) if isinstance(vectors, np.ndarray) else vectors
    table = pa.table(columns)
    if meta is not None:
        table = table.replace_schema_metadata({"faceblind": meta.to_json()})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=row_group_size)
    return path


def save_npy(path: Path, vectors: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, vectors)
    return path


def collect(table, size: int = 16384):
    """Join all batches after checking that they follow one another and keep to the size."""
    batches = list(table.batches(size))
    start = 0
    for batch in batches:
        assert batch.start == start
        assert 0 < len(batch) <= size
        assert batch.vectors.dtype == table.dtype
        assert batch.vectors.dtype.isnative
        assert batch.vectors.flags.c_contiguous
        assert type(batch.vectors) is np.ndarray
        start += len(batch)
    assert start == table.rows
    vectors = np.concatenate([batch.vectors for batch in batches])
    assert vectors.shape == (table.rows, table.dim)
    sample = np.concatenate([batch.sample for batch in batches])
    has_identity = batches[0].identity is not None
    identity = np.concatenate([batch.identity for batch in batches]) if has_identity else None
    carried = [batch.carried for batch in batches]
    if table.carried_schema is None:
        assert carried == [None] * len(batches)
        return vectors, identity, sample, None
    return vectors, identity, sample, pa.Table.from_batches(carried, schema=table.carried_schema)


def read_all(path, **options):
    size = options.pop("size", 16384)
    return collect(open_table(path, **options), size)


def kinds(findings) -> list[str]:
    return [finding.kind for finding in findings]


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
