"""Taking a projector to the data: fit and apply over tables of any size, exports, vector stores, and the query side.

Nothing heavy is loaded until it is used.
"""

from faceblind.deploy.apply import ApplyReport, apply_table
from faceblind.deploy.apply_job import ApplyJob, ShardTask
from faceblind.deploy.batch import BatchEraser, batch_eraser, erase_batch, erased_schema
from faceblind.deploy.engines import engine_named
from faceblind.deploy.export import (
    behind,
    export_projector,
    fuse_onnx,
    numpy_lines,
    rebuild_index,
    save_faiss,
    save_json,
    save_onnx,
    save_torchscript,
    to_faiss_transforms,
    to_json,
    to_onnx,
    to_torch,
    wrap_index,
)
from faceblind.deploy.fit import fit_table
from faceblind.deploy.query import QueryProjector, check_query, index_meta, looks_raw, residual
from faceblind.deploy.sharded import apply_sharded

__all__ = [
    "ApplyJob",
    "ApplyReport",
    "BatchEraser",
    "QueryProjector",
    "ShardTask",
    "apply_sharded",
    "apply_table",
    "batch_eraser",
    "behind",
    "check_query",
    "engine_named",
    "erase_batch",
    "erased_schema",
    "export_projector",
    "fit_table",
    "fuse_onnx",
    "index_meta",
    "looks_raw",
    "numpy_lines",
    "rebuild_index",
    "residual",
    "save_faiss",
    "save_json",
    "save_onnx",
    "save_torchscript",
    "to_faiss_transforms",
    "to_json",
    "to_onnx",
    "to_torch",
    "wrap_index",
]
