"""Open, read and write tables of embeddings; the path decides the format."""

from __future__ import annotations

import difflib
from pathlib import Path

import numpy as np

from faceblind._errors import DataError, FormatError, UsageError
from faceblind.data.embeddings import EmbeddingSet
from faceblind.data.findings import Finding
from faceblind.data.tables.clip_retrieval import METADATA, VECTORS, find_pairs, is_clip_retrieval
from faceblind.data.tables.inspection import Inspector
from faceblind.data.tables.npy_layout import open_npy_table
from faceblind.data.tables.npz import open_npz_table
from faceblind.data.tables.parquet import find_shards, open_parquet_table
from faceblind.data.tables.table import FORMATS, EmbeddingTable, Names
from faceblind.data.tables.writers import open_writer


def open_table(
    path: str | Path,
    *,
    identity: str | None = "identity",
    sample: str = "sample",
    embedding: str = "embedding",
    metadata: str | Path | None = None,
) -> EmbeddingTable:
    """Open a table without loading its vectors.

    Parameters
    ----------
    path : str or Path
        A ``.parquet`` file; a folder of ``.parquet`` shards; a clip-retrieval folder
        (``img_emb/img_emb_N.npy`` and ``metadata/metadata_N.parquet``); a ``.npy`` file, with a ``.parquet``
        file of the same name beside it or without; an ``.npz`` archive.
    identity : str or None
        Column of identities (text, integers, or a dictionary of them; integers become text). With None no
        identities are read and the column is carried along with the others.
    sample : str
        Column of unique keys. When the default is missing, row numbers are used and a finding says so.
    embedding : str
        Column of vectors (lists of float16, float32 or float64). In an ``.npz`` the default name also finds
        ``vectors``, ``embeddings`` or ``X``.
    metadata : str or Path, optional
        Parquet file that describes a ``.npy`` file, or folder of the metadata files of a clip-retrieval
        folder.

    Raises
    ------
    DataError
        The path, a column, identities or rows are missing; shards or row counts disagree; wrong types.
    FormatError
        A file is damaged or not what its name says, or the format is not known.
    MissingExtraError
        The format needs pyarrow, which is not installed.
    """
    path = Path(path)
    names = Names(identity, sample, embedding)
    beside = None if metadata is None else Path(metadata)
    for place in (path, beside):
        if place is not None and not place.exists():
            raise DataError(_not_there(place))
    if path.is_dir():
        return _open_folder(path, names, beside)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        if beside is None and path.with_suffix(".parquet").is_file():
            beside = path.with_suffix(".parquet")
        if beside is not None and not beside.is_file():
            raise DataError(f"metadata={str(beside)!r} is a folder; {path} needs one Parquet file")
        return open_npy_table(path, [(path, beside)], names)
    if beside is not None:
        raise UsageError(f"metadata= goes with a .npy file or a clip-retrieval folder; {path} holds its own columns")
    if suffix == ".parquet":
        return open_parquet_table(path, [path], names)
    if suffix == ".npz":
        return open_npz_table(path, names)
    raise FormatError(f"{path}: unknown format {path.suffix or 'without suffix'}; what is read: {FORMATS}")


def read_table(
    path: str | Path,
    *,
    identity: str | None = "identity",
    sample: str = "sample",
    embedding: str = "embedding",
    metadata: str | Path | None = None,
    drop_bad_rows: bool = False,
) -> EmbeddingSet:
    """Read a whole table into a validated `EmbeddingSet`; `read_with_findings` also says what it saw."""
    return read_with_findings(
        path,
        identity=identity,
        sample=sample,
        embedding=embedding,
        metadata=metadata,
        drop_bad_rows=drop_bad_rows,
    )[0]


def read_with_findings(
    path: str | Path,
    *,
    identity: str | None = "identity",
    sample: str = "sample",
    embedding: str = "embedding",
    metadata: str | Path | None = None,
    drop_bad_rows: bool = False,
) -> tuple[EmbeddingSet, tuple[Finding, ...]]:
    """Read a whole table into float32 and say what is unusual about it.

    Parameters
    ----------
    path, identity, sample, embedding, metadata
        As for `open_table`.
    drop_bad_rows : bool
        Leave out rows with NaN, infinity or only zeros, and name them in findings of severity ``error``. By
        default they stop the reading.

    Returns
    -------
    EmbeddingSet
        Rows in the order of the file.
    tuple of Finding
        Kinds: ``non_finite_rows`` and ``zero_rows`` (error: rows that were dropped), ``not_normalised``
        (warning), ``missing_shards`` (warning), ``float16_input``, ``mixed_row_order``, ``rows_not_grouped``,
        ``keys_are_row_numbers``, ``fortran_order``, ``arrays_not_carried`` (notes).

    Raises
    ------
    DataError
        As `open_table`; also bad rows (named) and duplicate keys (named).
    """
    table = open_table(path, identity=identity, sample=sample, embedding=embedding, metadata=metadata)
    inspector = Inspector()
    vectors = np.empty((table.rows, table.dim), np.float32)
    identities, samples = [], []
    kept = 0
    for batch in table.batches():
        good = inspector.see(batch)
        chosen = slice(None) if good.all() else good
        samples.append(batch.sample[chosen])
        if batch.identity is not None:
            identities.append(batch.identity[chosen])
        rows = batch.vectors[chosen]
        with np.errstate(over="ignore"):  # the inspector has taken out what overflows
            vectors[kept : kept + rows.shape[0]] = rows
        kept += rows.shape[0]
    noticed = inspector.findings()
    errors = [finding for finding in noticed if finding.severity == "error"]
    if errors and not drop_bad_rows:
        dropping = "re-embed those images, or leave them out with --drop-bad-rows (in Python, drop_bad_rows=True)"
        told = "; ".join(finding.message.rpartition(";")[0] for finding in errors)
        raise DataError(f"{table.path}: {told}; {dropping}")
    if kept == 0:
        raise DataError(f"{table.path}: all {table.rows} rows are unusable; {errors[0].message}")
    try:
        made = EmbeddingSet.of(
            vectors[:kept],
            np.concatenate(identities) if identities else None,
            sample=np.concatenate(samples),
            meta=table.meta,
            copy=False,
        )
    except DataError as error:
        raise DataError(f"{table.path}: {error}") from error
    return made, table.findings + noticed


def write_table(
    path: str | Path,
    embeddings: EmbeddingSet,
    *,
    dtype: str = "float32",
    identity: str = "identity",
    sample: str = "sample",
    embedding: str = "embedding",
) -> None:
    """Write an `EmbeddingSet` in the format that the suffix names; see `open_writer`."""
    with open_writer(
        path,
        meta=embeddings.meta,
        dim=embeddings.dim,
        dtype=dtype,
        identity=identity,
        sample=sample,
        embedding=embedding,
    ) as writer:
        writer.write(embeddings.vectors, embeddings.identity, embeddings.sample)


def _open_folder(path: Path, names: Names, metadata: Path | None) -> EmbeddingTable:
    shards = find_shards(path)
    if is_clip_retrieval(path):
        if shards:
            raise FormatError(
                f"{path} has both {VECTORS}/ and {shards[0].name}, so it could be two tables; open "
                f"{shards[0]}, or move it elsewhere"
            )
        pairs, findings = find_pairs(path, metadata)
        return open_npy_table(path, pairs, names, findings)
    if metadata is not None:
        raise UsageError(f"metadata= goes with a .npy file or a clip-retrieval folder; {path} is neither")
    if shards:
        return open_parquet_table(path, shards, names)
    hint = f"; open the folder above it, {path.parent}" if path.name in {VECTORS, METADATA} else ""
    raise FormatError(f"{path} is a folder without a table in it{hint}; what is read: {FORMATS}")


def _not_there(path: Path) -> str:
    siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, siblings, n=1)
    return f"{path} does not exist" + (f"; did you mean {path.with_name(near[0])}?" if near else "")
