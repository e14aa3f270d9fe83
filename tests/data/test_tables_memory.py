"""Reading and writing in constant memory: what is held does not grow with the table."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from table_samples import write_parquet

from faceblind.data.meta import TableMeta
from faceblind.data.tables import open_table, open_writer

DIM = 64
ROWS = 40_000
TABLE_BYTES = ROWS * DIM * 4
SIZE = 1000


def blocks(rows: int):
    rng = np.random.default_rng(0)
    for _ in range(rows // SIZE):
        yield rng.standard_normal((SIZE, DIM)).astype(np.float32)


class Peak:
    """Most bytes held by numpy and Arrow together, above what was held at the start."""

    def __enter__(self):
        tracemalloc.start()
        self._arrow = pa.total_allocated_bytes()
        self._arrow_peak = 0
        return self

    def look(self):
        self._arrow_peak = max(self._arrow_peak, pa.total_allocated_bytes() - self._arrow)

    def __exit__(self, *_):
        self.bytes = tracemalloc.get_traced_memory()[1] + self._arrow_peak
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["parquet", "one row group", "npy", "fortran", "npz"])
def test_reading(tmp_path, kind):
    vectors = np.concatenate(list(blocks(ROWS)))
    if kind in {"npy", "fortran"}:
        path = tmp_path / "t.npy"
        np.save(path, np.asarray(vectors, order="F" if kind == "fortran" else "C"))
    elif kind == "npz":
        path = tmp_path / "t.npz"
        np.savez(path, embedding=vectors)
    else:
        path = write_parquet(tmp_path / "t.parquet", vectors, row_group_size=ROWS if kind[0] == "o" else 4096)
    total = vectors.sum(dtype=np.float64)
    del vectors
    table = open_table(path, identity=None)
    found = 0.0
    with Peak() as peak:
        for batch in table.batches(SIZE):
            found += batch.vectors.sum(dtype=np.float64)
            peak.look()
    assert found == pytest.approx(total)
    assert peak.bytes < TABLE_BYTES / 2


@pytest.mark.parametrize("name", ["t.parquet", "t.npy", "t.npz", "t"])
def test_writing(tmp_path, name):
    peaks = []
    for rows in (ROWS, 2 * ROWS):
        with Peak() as peak, open_writer(tmp_path / name, meta=TableMeta(), dim=DIM, shard_rows=15_000) as writer:
            for block in blocks(rows):
                writer.write(block)
                peak.look()
        assert open_table(tmp_path / name, identity=None).rows == rows
        peaks.append(peak.bytes)
    # A row group and a shard's labels are held at any size; the labels of .npz grow, its vectors do not.
    assert peaks[1] - peaks[0] < TABLE_BYTES / 3
