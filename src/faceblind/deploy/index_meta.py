"""What an index says about its vectors, wherever it is: a table, a faiss sidecar, an ONNX file, a vector store."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from faceblind._errors import DataError, FormatError, MissingExtraError
from faceblind.data.meta import METADATA_KEY, TableMeta
from faceblind.data.tables import open_table
from faceblind.deploy.stores.meta import meta_in_text


def index_meta(index: Any, *, table: str | None = None, column: str | None = None) -> TableMeta:
    """Read the provenance of an index.

    Parameters
    ----------
    index : path, str or object
        A table (.parquet, .npz, .npy, a folder of shards); a faiss index ``X.faiss`` with its ``X.faiss.json``, or that
        file; a fused ``.onnx`` encoder; a LanceDB folder or connection, a PostgreSQL address, a Qdrant folder, URL or
        client, each with `table`; an opened LanceDB table.
    table : str, optional
        Table or collection in a store.
    column : str, optional
        Column of vectors; ``vector`` in LanceDB and ``embedding`` elsewhere when missing.

    Returns
    -------
    TableMeta
        Empty when nothing is recorded.

    Raises
    ------
    DataError, FormatError
        Nothing is there, or what is recorded is damaged.
    """
    if isinstance(index, str | Path):
        return _of_place(str(index), table, column)
    kind = type(index).__module__.partition(".")[0]
    if kind == "lancedb":
        from faceblind.deploy.stores.lance import meta_of_lance

        opened = index if hasattr(index, "schema") else index.open_table(_required(table))
        return meta_of_lance(opened, column or "vector", "LanceDB table")
    if kind == "qdrant_client":
        from faceblind.deploy.stores.qdrant_place import meta_of_qdrant

        return meta_of_qdrant(index, _required(table))
    raise DataError(
        f"no provenance can be read from a {type(index).__name__}: give a path, an address or an opened store"
    )


def _of_place(place: str, table: str | None, column: str | None) -> TableMeta:
    if place.startswith(("postgresql://", "postgres://")) or "dbname=" in place:
        from faceblind.deploy.stores.postgres import meta_of_postgres

        return meta_of_postgres(place, _required(table), column or "embedding")
    if place.startswith(("http://", "https://")) or (Path(place) / "meta.json").is_file():
        from faceblind.deploy.stores.qdrant_place import connect_qdrant, meta_of_qdrant, shown

        client = connect_qdrant(place)
        try:
            return meta_of_qdrant(client, _required(table), shown(place))
        finally:
            client.close()
    path = Path(place)
    if path.is_dir() and any(path.glob("*.lance")):
        from faceblind.deploy.stores.lance import meta_of_folder

        return meta_of_folder(path, _required(table), column or "vector")
    if path.suffix == ".onnx":
        return _of_onnx(path)
    if path.suffix == ".faiss" or path.name.endswith(".faiss.json"):
        from faceblind.deploy.export.faiss_sidecar import read_meta

        held = path if path.suffix == ".faiss" else path.with_suffix("")
        if not held.is_file():
            raise DataError(f"there is no index {held}")
        return read_meta(held)
    return open_table(path, identity=None, embedding=column or "embedding").meta


def _of_onnx(path: Path) -> TableMeta:
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx", "reading the metadata of an ONNX file") from error
    damaged: type[Exception] = import_module("google.protobuf.message").DecodeError  # comes with onnx, without types
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    try:
        model = onnx.load(str(path), load_external_data=False)
    except damaged as error:
        raise FormatError(f"{path} is not a readable ONNX file: {error}") from error
    held = {entry.key: entry.value for entry in model.metadata_props}
    return meta_in_text(held.get(METADATA_KEY), str(path))


def _required(table: str | None) -> str:
    if not table:
        raise DataError("say which table or collection of the store: table=...")
    return table
