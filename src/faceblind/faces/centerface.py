"""CenterFace: every face is a peak of a heat map, with its size, its exact place and its points beside it.

Y. Xu, W. Yan, G. Yang, J. Luo, T. Li, J. He, CenterFace: Joint Face Detection and Alignment Using Face as Point, 2020
(arXiv:1911.03599).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from faceblind.faces.network import Candidates, NetworkDetector

_STRIDE = 4
_CHANNELS = (1, 2, 2, 10)


class CenterFace(NetworkDetector):
    """CenterFace, fed RGB pixels 0 to 255 as they are.

    Its four outputs, at a quarter of the size: how likely a face has its centre here; the logarithm of its height and
    width; where in the cell the centre is (y, x); and the five points, (y, x) each, as shares of height and width from
    the corner of the box.
    """

    name = "centerface"
    any_size = True  # published for ten images of 32x32, made of convolutions

    def feed(self, canvas: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Turn an RGB canvas (h, w, 3) into the network's (1, 3, h, w)."""
        return np.ascontiguousarray(canvas.transpose(2, 0, 1)[None], dtype=np.float32)

    def read(self, outputs: list[NDArray[np.float32]], shape: tuple[int, int]) -> Candidates:
        """Read the four maps; cells below the threshold are left out at once."""
        expected = [(1, channels, shape[0] // _STRIDE, shape[1] // _STRIDE) for channels in _CHANNELS]
        if [output.shape for output in outputs] != expected:
            raise self.unfit(f"its outputs have the shapes {[output.shape for output in outputs]}, expected {expected}")
        heat = outputs[0][0, 0]
        rows, columns = np.nonzero(heat >= self._threshold)
        size, offset, points = (output[0][:, rows, columns].astype(np.float64) for output in outputs[1:])
        with np.errstate(over="ignore"):  # a size that is not finite is left out later
            height, width = _STRIDE * np.exp(size)
        top = _STRIDE * (rows + offset[0] + 0.5) - height / 2
        left = _STRIDE * (columns + offset[1] + 0.5) - width / 2
        with np.errstate(invalid="ignore"):
            y = top + points[0::2] * height
            x = left + points[1::2] * width
            boxes = np.stack([left, top, left + width, top + height], axis=1)
        return Candidates(boxes, heat[rows, columns].astype(np.float64), np.stack([x.T, y.T], axis=2))
