"""Opening and running ONNX networks: one thread a run, the same bits every time, plain messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from faceblind._errors import EncoderError, MissingExtraError, brief

_SHOWN = 200


class Session:
    """A network that onnxruntime has loaded; safe to run from several threads.

    Parameters
    ----------
    file
        For messages, and where the network is unless `data` gives it.
    data
        The network itself, when it is not as it lies in the file.
    device
        ``"cpu"``, or ``"cuda"`` or ``"cuda:N"`` with onnxruntime-gpu.
    extra, purpose
        What to install for, if onnxruntime is missing.

    Raises
    ------
    EncoderError
        The device is not there, or onnxruntime cannot load it.
    MissingExtraError
        onnxruntime is not installed.
    """

    def __init__(self, file: Path, *, data: bytes | None = None, device: str = "cpu", extra: str, purpose: str) -> None:
        self._file = file
        self._errors = _errors(extra, purpose)
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.use_deterministic_compute = True
        options.log_severity_level = 4  # failures are raised; there is no need to print them too
        providers = _providers(device, onnxruntime.get_available_providers())
        source = str(file) if data is None else data
        try:
            self._session = onnxruntime.InferenceSession(source, options, providers=providers)
        except self._errors as error:
            raise EncoderError(f"onnxruntime cannot load {file}: {brief(error, _SHOWN)}") from error
        self.version = str(onnxruntime.__version__)  # of onnxruntime

    @property
    def inputs(self) -> list[Any]:
        """The inputs, each with `name`, `type` and `shape` (an axis of any size is a string or None)."""
        return list(self._session.get_inputs())

    @property
    def outputs(self) -> list[Any]:
        """The outputs, described as the inputs are."""
        return list(self._session.get_outputs())

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the file says of itself under names of its maker's choice."""
        return dict(self._session.get_modelmeta().custom_metadata_map)

    def run(self, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None) -> list[Any]:
        """Run on named inputs and return the named outputs, all of them when missing.

        Raises
        ------
        EncoderError
            It fails; the message tells the shapes of the inputs, without the first axis in a batch of one.
        """
        try:
            return list(self._session.run(outputs, dict(feeds)))
        except self._errors as error:
            shapes = ", ".join(str(_shape(array)) for array in feeds.values())
            raise EncoderError(f"{self._file} failed on an input of shape {shapes}: {brief(error, _SHOWN)}") from error


def _providers(device: str, available: Sequence[str]) -> list[Any]:
    if device == "cpu":
        return ["CPUExecutionProvider"]
    if "CUDAExecutionProvider" not in available:
        raise EncoderError(
            f"device {device!r} is not there: this onnxruntime has no CUDA; install onnxruntime-gpu in its place, "
            "or use --device cpu"
        )
    number = int(device.partition(":")[2] or 0)
    # TF32 would round float32; the CPU takes what the GPU cannot do.
    return [("CUDAExecutionProvider", {"device_id": number, "use_tf32": 0}), "CPUExecutionProvider"]


def _shape(array: Any) -> list[int]:
    return list(array.shape[1:] if array.shape[:1] == (1,) else array.shape)


def _errors(extra: str, purpose: str) -> tuple[type[Exception], ...]:
    """Return what onnxruntime raises; its exceptions have no common base but Exception."""
    try:
        from onnxruntime.capi import onnxruntime_pybind11_state as state
    except ImportError as error:
        raise MissingExtraError("onnxruntime", extra, purpose) from error
    own = (value for value in vars(state).values() if isinstance(value, type) and issubclass(value, Exception))
    return (*own, RuntimeError, ValueError, TypeError)
