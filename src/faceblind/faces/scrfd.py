"""SCRFD with points: two anchors in every cell of three grids, each saying how far the box and the points are.

J. Guo, J. Deng, A. Lattas, S. Zafeiriou, Sample and Computation Redistribution for Efficient Face Detection, ICLR 2022
(arXiv:2105.04714).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from faceblind.faces.network import Candidates, NetworkDetector

_STRIDES = (8, 16, 32)
_ANCHORS = 2
_SCORE, _BOX, _POINTS = 1, 4, 10


class Scrfd(NetworkDetector):
    """SCRFD, fed RGB pixels as (x - 127.5) / 128.

    It has nine outputs: for each of the grids of 8, 16 and 32 pixels a score, four distances (left, top, right, bottom)
    and five points (x, y), in cells of the grid from the anchor; an anchor is at the first pixel of its cell. The outputs
    are told apart by their shapes.
    """

    name = "scrfd"

    def feed(self, canvas: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Turn an RGB canvas (h, w, 3) into the network's (1, 3, h, w)."""
        return np.ascontiguousarray((canvas.transpose(2, 0, 1)[None].astype(np.float32) - 127.5) / 128.0)

    def read(self, outputs: list[NDArray[np.float32]], shape: tuple[int, int]) -> Candidates:
        """Read the three grids; anchors below the threshold are left out at once."""
        # Some exports put an axis for the batch in front.
        found = {output.shape[-2:]: output.reshape(output.shape[-2:]) for output in outputs if _is_single(output)}
        boxes, scores, points = [], [], []
        for stride in _STRIDES:
            grid = (-(-shape[0] // stride), -(-shape[1] // stride))
            count = grid[0] * grid[1] * _ANCHORS
            parts = [found.get((count, length)) for length in (_SCORE, _BOX, _POINTS)]
            score, box, point = parts
            if score is None or box is None or point is None:
                shapes = [output.shape for output in outputs]
                raise self.unfit(
                    f"for a canvas of {shape[1]}x{shape[0]} pixels it must give ({count}, 1), ({count}, 4) and "
                    f"({count}, 10) at stride {stride}; its outputs have the shapes {shapes} (files with 'bnkps' in "
                    "their name have the five points)"
                )
            at = np.flatnonzero(score[:, 0] >= self._threshold)
            rows, columns = np.divmod(at // _ANCHORS, grid[1])
            anchor = np.stack([columns, rows], axis=1).astype(np.float64)
            reach = box[at].astype(np.float64)
            boxes.append(stride * np.concatenate([anchor - reach[:, :2], anchor + reach[:, 2:]], axis=1))
            points.append(stride * (anchor[:, None] + point[at].astype(np.float64).reshape(-1, 5, 2)))
            scores.append(score[at, 0].astype(np.float64))
        return Candidates(np.concatenate(boxes), np.concatenate(scores), np.concatenate(points))


def _is_single(output: NDArray[np.float32]) -> bool:
    return output.ndim == 2 or (output.ndim == 3 and output.shape[0] == 1)
