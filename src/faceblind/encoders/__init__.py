"""Photographs to embeddings: decoding, frozen encoders with fingerprints, and resumable runs over folders.

Importing this package imports neither Pillow nor onnxruntime nor torch nor pyarrow; each is imported when first used.

`list_photos`    the photographs of a folder and who is on them
`load_image`     one photograph as 8-bit sRGB, or the reason why not
`encoders`       the encoders known by name
`open_encoder`   opens one of them, another checkpoint of their architectures, or an ONNX file with a `PreprocessSpec`
`embed_folder`   a folder of photographs to one table
"""

from faceblind.encoders.embed import EmbedResult, embed_folder
from faceblind.encoders.encoder import Encoder
from faceblind.encoders.entry import EncoderInfo
from faceblind.encoders.folder import Photo, PhotoFolder, list_photos
from faceblind.encoders.images import MAX_PIXELS, load_image
from faceblind.encoders.onnx_encoder import OnnxEncoder
from faceblind.encoders.registry import encoders, open_encoder
from faceblind.encoders.shards import Skip
from faceblind.encoders.spec import PreprocessSpec
from faceblind.encoders.torch_encoder import TorchEncoder

__all__ = [
    "MAX_PIXELS",
    "EmbedResult",
    "Encoder",
    "EncoderInfo",
    "OnnxEncoder",
    "Photo",
    "PhotoFolder",
    "PreprocessSpec",
    "Skip",
    "TorchEncoder",
    "embed_folder",
    "encoders",
    "list_photos",
    "load_image",
    "open_encoder",
]
