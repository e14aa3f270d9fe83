"""Five-point alignment for the face-recognition control: SCRFD landmarks, similarity transform, 112 x 112 crop.

For trials only (the detector's weights are for research). Crops are written beside the embeddings, outside the
repository, and are what the control embeds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

from faceblind._files import atomic_path
from faceblind.encoders import list_photos, load_image

SIZE = 320
STRIDES = (8, 16, 32)
TEMPLATE = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]
)
"""Where left eye, right eye, nose and mouth corners lie in the 112 x 112 crop that face recognisers are trained on."""


def align_folder(source: Path, target: Path, detector: Path) -> tuple[int, int]:
    """Write an aligned crop of every photograph; return how many were made and how many show no face."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(detector), options, providers=["CPUExecutionProvider"])
    made = missed = 0
    for photo in list_photos(source):
        crop = target / Path(photo.sample).with_suffix(".png")
        if not crop.exists():
            image = load_image(photo.path)
            points = landmarks(session, image)
            if points is None:
                missed += 1
                continue
            with atomic_path(crop) as temporary:
                warp(image, points).save(temporary, format="PNG")
        made += 1
    return made, missed


def landmarks(session: onnxruntime.InferenceSession, image: np.ndarray) -> np.ndarray | None:
    """Return (5, 2) landmarks in pixels of the surest face near the middle, or None."""
    height, width = image.shape[:2]
    scale = SIZE / max(height, width)
    resized = Image.fromarray(image).resize((round(width * scale), round(height * scale)), Image.Resampling.BILINEAR)
    canvas = np.zeros((SIZE, SIZE, 3), dtype=np.float32)
    canvas[: resized.height, : resized.width] = np.asarray(resized, dtype=np.float32)
    blob = ((canvas - 127.5) / 128).transpose(2, 0, 1)[None]
    outputs = session.run(None, {session.get_inputs()[0].name: blob})
    best: tuple[float, np.ndarray] | None = None
    for level, stride in enumerate(STRIDES):
        scores = outputs[level].reshape(-1)
        points = outputs[level + 2 * len(STRIDES)].reshape(-1, 5, 2) * stride
        side = SIZE // stride
        y, x = np.divmod(np.arange(side * side), side)
        anchors = np.repeat(np.stack([x, y], axis=1) * stride, scores.size // (side * side), axis=0)
        found = points + anchors[:, None]
        off = np.linalg.norm(found.mean(axis=1) / scale - [width / 2, height / 2], axis=1) / max(height, width)
        value = np.where(scores > 0.4, scores - off, -1.0)
        index = int(value.argmax())
        if value[index] > 0 and (best is None or value[index] > best[0]):
            best = float(value[index]), found[index] / scale
    return None if best is None else best[1]


def warp(image: np.ndarray, points: np.ndarray) -> Image.Image:
    """Cut the 112 x 112 crop by the least-squares similarity from the template to the landmarks."""
    t, p = TEMPLATE - TEMPLATE.mean(axis=0), points - points.mean(axis=0)
    a = (t * p).sum() / (t**2).sum()
    b = (t[:, 0] * p[:, 1] - t[:, 1] * p[:, 0]).sum() / (t**2).sum()
    shift = points.mean(axis=0) - TEMPLATE.mean(axis=0) @ np.array([[a, b], [-b, a]])
    return Image.fromarray(image).transform(
        (112, 112), Image.Transform.AFFINE, (a, -b, shift[0], b, a, shift[1]), resample=Image.Resampling.BILINEAR
    )
