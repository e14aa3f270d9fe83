"""Encoders run by torch: photographs are prepared in decoding threads, and go through the network in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import EncoderError, UsageError, brief
from faceblind._processors import processors
from faceblind.data.meta import Fingerprint
from faceblind.encoders.device import choose_device, import_torch, running
from faceblind.encoders.encoder import Encoder
from faceblind.encoders.images import decoding_steps
from faceblind.encoders.preprocess import Preprocessor
from faceblind.encoders.spec import PreprocessSpec, canonical

_MID_GRAY = 128
_PROBE_SIZE = (224, 224)


class TorchEncoder(Encoder):
    """A torch network with a preprocessing spec.

    Parameters
    ----------
    network
        Takes a float tensor (b, 3, h, w) on its device and gives vectors (b, d). Already in evaluation mode, on
        `device` and in `precision`.
    spec
        How to feed it; `spec.layout` is ``"NCHW"``.
    name, weights_sha256, pooling
        For the fingerprint.
    libraries
        Versions for the fingerprint, besides those of numpy, Pillow and torch.
    threads
        Threads that torch uses for one call on the CPU; all cores this process may use when missing.

    Raises
    ------
    EncoderError
        The device is not there, or the network fails on a gray image; found out here.

    Notes
    -----
    Matrix products of another size add up in another order. On the CPU in float32, the vector of a photograph agrees
    between batches of any size and order to about 1e-6 of its length, and is the same bit for bit where the batches
    are. `faceblind.encoders.embed_folder` cuts the same batches however often it is interrupted. In half precision the
    last bit is coarser: 4e-3 of a value in bfloat16.
    """

    def __init__(
        self,
        network: Callable[[Any], Any],
        spec: PreprocessSpec,
        *,
        name: str,
        weights_sha256: str,
        pooling: str,
        libraries: dict[str, str] | None = None,
        device: str = "cpu",
        precision: str = "float32",
        threads: int | None = None,
    ) -> None:
        if threads is not None and threads < 1:
            raise UsageError(f"threads must be at least 1, got {threads}")
        self._torch = import_torch(f"encoder {name!r}")
        self._device, self._dtype = choose_device(self._torch, device, precision)
        self._network = network
        self._name = name
        self._threads = processors() if threads is None else threads
        self._prepare = Preprocessor(spec)
        self._lock = Lock()  # guards the buffer
        self._buffer: Any = None
        gray = np.full((*(spec.size or _PROBE_SIZE), 3), _MID_GRAY, dtype=np.uint8)
        dim = self._forward([self._prepare(gray)]).shape[1]
        self._fingerprint = Fingerprint(
            encoder=name,
            weights_sha256=weights_sha256,
            dim=dim,
            pooling=pooling,
            preprocessing=canonical({"decode": decoding_steps(), **spec.pixel_steps()}),
            precision=precision,
            libraries=_libraries(self._torch) | (libraries or {}),
        )

    @property
    def fingerprint(self) -> Fingerprint:
        """Weights, preprocessing and pooling that the vectors come from."""
        return self._fingerprint

    def prepare(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Resize, crop and scale one (H, W, 3) uint8 RGB image as the spec says."""
        return self._prepare(image)

    def run(self, prepared: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Run the network; returns (b, d) float32. Prepared images of different shapes go in a batch per shape."""
        rows_of: dict[tuple[int, ...], list[int]] = {}
        for row, array in enumerate(prepared):
            rows_of.setdefault(array.shape, []).append(row)
        if len(rows_of) == 1:
            return self._forward(prepared)
        out = np.empty((len(prepared), self.dim), dtype=np.float32)
        for rows in rows_of.values():
            out[rows] = self._forward([prepared[row] for row in rows])
        return out

    def _forward(self, prepared: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        torch = self._torch
        try:
            with self._lock, running(torch, self._device, self._threads):
                batch = self._stack(prepared).to(self._device, self._dtype, non_blocking=True)
                vectors = self._network(batch).float().cpu().numpy()
        except torch.OutOfMemoryError as error:
            raise EncoderError(
                f"{self._name} runs out of memory on {self._device} with {len(prepared)} photographs at a time: "
                "use a smaller --batch-size"
            ) from error
        except RuntimeError as error:
            shape = [len(prepared), *prepared[0].shape]
            raise EncoderError(f"{self._name} failed on an input of shape {shape}: {brief(error)}") from error
        if vectors.ndim != 2 or len(vectors) != len(prepared):
            raise EncoderError(f"{self._name} gave an output of shape {list(vectors.shape)}, not one vector per image")
        return np.ascontiguousarray(vectors, dtype=np.float32)

    def _stack(self, prepared: Sequence[NDArray[Any]]) -> Any:
        """Copy images side by side into one buffer that stays, in page-locked memory where a GPU reads it."""
        shape = (len(prepared), *prepared[0].shape)
        if self._buffer is None or self._buffer.shape[1:] != shape[1:] or len(self._buffer) < len(prepared):
            self._buffer = self._torch.empty(shape, dtype=self._torch.float32, pin_memory=self._device.type == "cuda")
        filled = self._buffer[: len(prepared)]
        np.stack(prepared, out=filled.numpy())
        return filled


def _libraries(torch: Any) -> dict[str, str]:
    import PIL

    return {"numpy": np.__version__, "pillow": PIL.__version__, "torch": str(torch.__version__)}
