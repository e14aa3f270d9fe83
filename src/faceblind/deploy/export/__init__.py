"""A projector in the forms that other programs take: faiss, ONNX, torch, NumPy text, and JSON for any language.

Each form was compared with `Projector.apply` before its file gets its name, and says what it cannot express. Importing this
package imports none of those libraries.

`save_faiss`, `wrap_index`, `rebuild_index`   an index that takes raw vectors and holds clean ones
`save_onnx`, `fuse_onnx`                      a graph, alone or behind an encoder
`to_torch`, `behind`, `save_torchscript`      a module
`numpy_lines`, `save_json`                    text and matrices
"""

from faceblind.deploy.export.check import Check
from faceblind.deploy.export.faiss import save_faiss, to_faiss_transforms, wrap_index
from faceblind.deploy.export.faiss_rebuild import FaissReport, rebuild_index
from faceblind.deploy.export.numpy_text import numpy_lines
from faceblind.deploy.export.onnx import save_onnx, to_onnx
from faceblind.deploy.export.onnx_fuse import Fused, fuse_onnx
from faceblind.deploy.export.plain import matrix_schema, save_json, to_json
from faceblind.deploy.export.targets import Exported, ExportOptions, export_projector
from faceblind.deploy.export.torch import behind, save_torchscript, to_torch

__all__ = [
    "Check",
    "ExportOptions",
    "Exported",
    "FaissReport",
    "Fused",
    "behind",
    "export_projector",
    "fuse_onnx",
    "matrix_schema",
    "numpy_lines",
    "rebuild_index",
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
