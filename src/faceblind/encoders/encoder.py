"""What an encoder is to faceblind: photographs in, vectors out, and a fingerprint that says which."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError
from faceblind.data.meta import Fingerprint


class Encoder(ABC):
    """A frozen encoder. Subclass it to bring your own: give a `fingerprint` and `run`.

    An image's vector must depend on that image alone, not on the batch it travels in; otherwise an audit
    would measure the order of the files. (Encoders run by torch keep to this up to rounding: `TorchEncoder`.)

    What `faceblind.encoders.open_encoder` opened is pickled as its name and options, and opened again where it is
    unpickled, so that it can travel to worker processes; there it must still be the same encoder.
    """

    _recipe: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
    """What opens it again, and with what; set by `open_encoder`."""

    @property
    @abstractmethod
    def fingerprint(self) -> Fingerprint:
        """Weights, preprocessing and pooling that the vectors come from."""

    @property
    def projector(self) -> str | None:
        """Digest of the projector that is already part of the network; None for vectors as the encoder gives them."""
        return None

    @property
    def dim(self) -> int:
        """Length of the vectors that `run` gives; another than `fingerprint.dim` only behind a `projector`."""
        return self.fingerprint.dim

    @abstractmethod
    def run(self, prepared: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Return the vectors, (b, `dim`) float32, of b arrays that `prepare` made."""

    def prepare(self, image: NDArray[np.uint8]) -> NDArray[Any]:
        """Turn one (H, W, 3) uint8 RGB image into what `run` takes; as it is, unless overridden.

        Called from several threads at once, ahead of `run`. Raises `ImageError` for a photograph that cannot
        be used.
        """
        return image

    def embed(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Embed photographs.

        Parameters
        ----------
        images
            (H, W, 3) uint8 RGB arrays of any sizes.

        Returns
        -------
        (b, d) float32

        Raises
        ------
        DataError
            An array is not (H, W, 3) uint8.
        ImageError
            A photograph cannot be used by this encoder.
        EncoderError
            The network failed.
        """
        for i, image in enumerate(images):
            if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
                raise DataError(
                    f"image {i} must be a (height, width, 3) uint8 RGB array, got {image.dtype} of shape {image.shape}"
                )
        if not images:
            return np.empty((0, self.dim), dtype=np.float32)
        return self.run([self.prepare(image) for image in images])

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle by recipe where there is one."""
        if self._recipe is None:
            return super().__reduce_ex__(protocol)
        return self._recipe
