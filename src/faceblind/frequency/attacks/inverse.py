"""The paper's white-box attack: the inverse DCT with every DC zero, right or wrong, and non-local means after it."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu
from torch import Tensor

from faceblind._errors import MissingExtraError, UsageError
from faceblind.frequency.attacks.base import Progress, Public, View
from faceblind.frequency.attacks.common import in_frequency, own_faces, transform_of, without_offsets
from faceblind.frequency.batches import images_of, tensor_of
from faceblind.frequency.releases.base import Release

_TITLES = {
    "zero": "Inverse DCT, DC zero",
    "right": "Inverse DCT, DC of the right face",
    "wrong": "Inverse DCT, DC of another face",
}
_HOLDS = {
    "zero": "the mechanism",
    "right": "the mechanism, and the true photograph (its DC)",
    "wrong": "the mechanism, and a photograph of somebody else",
}


class InverseDct:
    """Undo the transform; what was dropped is zero, or comes from a guessed face.

    Parameters
    ----------
    dc : "zero", "right" or "wrong"
    denoise
        Non-local means afterwards, its strength from the noise that is left in the picture.
    """

    def __init__(self, *, dc: Literal["zero", "right", "wrong"] = "zero", denoise: bool = False) -> None:
        if dc not in _TITLES:
            raise UsageError(f"dc must be one of {', '.join(_TITLES)}, got {dc!r}")
        self.dc, self.denoise = dc, denoise
        self._release: Release | None = None

    @property
    def name(self) -> str:
        """Short name."""
        return f"idct-{self.dc}" + ("-nlm" if self.denoise else "")

    @property
    def title(self) -> str:
        """Name in reports."""
        return _TITLES[self.dc] + (", non-local means" if self.denoise else "")

    @property
    def holds(self) -> str:
        """What the attacker must hold."""
        return _HOLDS[self.dc]

    def fits(self, release: Release) -> bool:
        """Coefficients of a block DCT."""
        return in_frequency(release)

    def prepare(self, release: Release, public: Public, *, seed: int, progress: Progress | None = None) -> None:
        """Nothing is learnt."""
        self._release = release

    def recover(self, view: View) -> NDArray[np.float32]:
        """Invert every release."""
        if self._release is None:
            raise UsageError("prepare(...) the attack first")
        transform = transform_of(self._release)
        dc = None
        if self.dc != "zero" and not transform.keep_dc:
            dc = transform.dc(tensor_of(view.right if self.dc == "right" else view.wrong))
        images = images_of(transform.inverse(without_offsets(self._release, view.released).float(), dc))
        return non_local_means(images) if self.denoise else images


def non_local_means(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Denoise images (b, H, W, 3) in 0..255 (Buades, Coll and Morel, CVPR 2005), by scikit-image.

    Raises
    ------
    MissingExtraError
        scikit-image is not installed.
    """
    try:
        from skimage.restoration import denoise_nl_means
    except ImportError as error:
        raise MissingExtraError("scikit-image", "frequency", "non-local means") from error
    found = np.empty_like(images)
    for row, image in enumerate(images):
        scaled = image / 255
        # Mixed second differences are all noise in a smooth picture; their median is not moved by edges.
        mixed = np.diff(np.diff(scaled, axis=0), axis=1)
        sigma = float(np.median(np.abs(mixed)) / (2 * 0.6745))
        clean = denoise_nl_means(
            scaled,
            h=0.8 * max(sigma, 1e-3),
            sigma=sigma,
            patch_size=5,
            patch_distance=6,
            channel_axis=-1,
            fast_mode=True,
        )
        found[row] = np.clip(clean * 255, 0, 255)
    return found


class GradientIntegration:
    """Integrate the lowest frequencies to the DC that was dropped.

    Within an enlarged image the lowest frequencies of a block are its slope. How much slope is a constant of the transform,
    read off the attacker's own faces; integrating it gives the DC of every block up to one constant per plane.
    """

    name = "integrate"
    title = "Integration of the lowest frequencies to DC"
    holds = "the mechanism, faces of other people"

    def __init__(self) -> None:
        self._release: Release | None = None

    def fits(self, release: Release) -> bool:
        """Coefficients of a block DCT, without DC and with a slope in both directions."""
        return in_frequency(release) and not transform_of(release).keep_dc and transform_of(release).block > 1

    def prepare(self, release: Release, public: Public, *, seed: int, progress: Progress | None = None) -> None:
        """Learn the constants of the transform and the mean DC of faces."""
        transform = transform_of(release)
        pixels = own_faces(public, seed)
        dc, (across, down) = transform.dc(pixels), self._slopes(transform(pixels), transform.block)
        rows, columns = transform.blocks
        # Differences between neighbours against the mean of both their slopes.
        pairs = (
            (dc.diff(dim=3), (across[..., 1:] + across[..., :-1]) / 2),
            (dc.diff(dim=2), (down[:, :, 1:] + down[:, :, :-1]) / 2),
        )
        self._factors = tuple(float((d * s).sum() / s.square().sum().clamp_min(1e-12)) for d, s in pairs)
        self._mean = dc.mean(dim=(0, 2, 3))
        along, below = (sparse.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(n - 1, n)) for n in (columns, rows))
        self._gradient = sparse.vstack(
            [sparse.kron(sparse.eye_array(rows), along), sparse.kron(below, sparse.eye_array(columns))]
        ).tocsr()
        # The constant that no difference sees is set to zero by a weight of nothing.
        self._solve = splu((self._gradient.T @ self._gradient + 1e-9 * sparse.eye_array(rows * columns)).tocsc())
        self._release = release

    def recover(self, view: View) -> NDArray[np.float32]:
        """Integrate, and invert with the DC that comes out."""
        if self._release is None:
            raise UsageError("prepare(...) the attack first")
        transform = transform_of(self._release)
        tensor = without_offsets(self._release, view.released).float()
        across, down = self._slopes(tensor, transform.block)
        x = self._factors[0] * (across[..., 1:] + across[..., :-1]) / 2
        y = self._factors[1] * (down[:, :, 1:] + down[:, :, :-1]) / 2
        wanted = torch.cat([x.flatten(2), y.flatten(2)], dim=2).double().flatten(0, 1).numpy()
        dc = torch.from_numpy(self._solve.solve(self._gradient.T @ wanted.T).T).view(len(tensor), 3, *transform.blocks)
        dc = dc - dc.mean(dim=(2, 3), keepdim=True) + self._mean[:, None, None]
        return images_of(transform.inverse(tensor, dc.float()))

    @staticmethod
    def _slopes(values: Tensor, block: int) -> tuple[Tensor, Tensor]:
        planes = values.view(len(values), 3, block * block - 1, *values.shape[2:])
        return planes[:, :, 0], planes[:, :, block - 1]
