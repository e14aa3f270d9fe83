"""A table of several shards, a projector, and what a sharded run over it must give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from faceblind.data.meta import TableMeta
from faceblind.data.tables import open_table, open_writer
from faceblind.data.tables.table import EmbeddingTable
from faceblind.erase import Projector, RankChoice
from strategies import fingerprint, orthonormal

DIM, SHARD = 8, 16_384
ROWS = 5 * SHARD - 1_000
SHARDS = 5
SMALL = 64
"""Rows per shard after `small_row_groups`."""
EMPTIED = 20_000
"""A row of which nothing is left."""
META = TableMeta(encoder=fingerprint(dim=DIM), synthetic=True)


def projector() -> Projector:
    basis = orthonormal(np.random.default_rng(1), DIM, 3)
    return Projector.of(basis, method="isp", choice=RankChoice(rule="given"), encoder=META.encoder)


def vectors(rows: int = ROWS) -> np.ndarray:
    found = np.random.default_rng(0).standard_normal((rows, DIM)).astype(np.float32)
    if rows > EMPTIED:
        found[EMPTIED] = projector().basis[:, 0]
    return found


def write(path: Path, rows: int = ROWS, *, start: int = 0, values: np.ndarray | None = None) -> Path:
    keys = [f"img/{start + i}.jpg" for i in range(rows)]
    url = pa.table({"url": [f"https://example.org/{start + i}" for i in range(rows)]})
    with open_writer(path, meta=META, dim=DIM, carried_schema=url.schema) as writer:
        writer.write(vectors(rows) if values is None else values, [f"p{i // 4}" for i in range(rows)], keys, url)
    return path


def source(path: Path) -> EmbeddingTable:
    return open_table(path, identity=None)


def small_row_groups() -> None:
    """Let this process write shards of a few rows, so that many runs take little time."""
    from faceblind.data.tables import write_parquet
    from faceblind.deploy import sharded

    write_parquet.ROW_GROUP = sharded.ROW_GROUP = SMALL


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def rows_of(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))])
