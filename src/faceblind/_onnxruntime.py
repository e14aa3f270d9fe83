"""Opening and running ONNX networks on the CPU: one thread a run, the same bits every time, plain messages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faceblind._errors import EncoderError, MissingExtraError

_SHOWN = 200


class Session:
    """A network that onnxruntime has loaded; safe to run from several threads.

    Parameters
    ----------
    file
        For messages, and where the network is unless `data` gives it.
    data
        The network itself, when it is not as it lies in the file.
    extra, purpose
        What to install for, if onnxruntime is missing.

    Raises
    ------
    EncoderError
        onnxruntime cannot load it.
    MissingExtraError
        onnxruntime is not installed.
    """

    def __init__(self, file: Path, *, data: bytes | None = None, extra: str, purpose: str) -> None:
        self._file = file
        self._errors = _errors(extra, purpose)
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.use_deterministic_compute = True
        options.log_severity_level = 4  # failures are raised; there is no need to print them too
        try:
            source = str(file) if data is None else data
            self._session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except self._errors as error:
            raise EncoderError(f"onnxruntime cannot load {file}: {_brief(error)}") from error
        self.version = str(onnxruntime.__version__)

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Run on named inputs and return all outputs; raises `EncoderError` with their shapes when it fails."""
        try:
            return list(self._session.run(None, dict(feeds)))
        except self._errors as error:
            shapes = ", ".join(str(list(array.shape)) for array in feeds.values())
            raise EncoderError(f"{self._file} failed on an input of shape {shapes}: {_brief(error)}") from error


def _errors(extra: str, purpose: str) -> tuple[type[Exception], ...]:
    """Return what onnxruntime raises; its exceptions have no common base but Exception."""
    try:
        from onnxruntime.capi import onnxruntime_pybind11_state as state
    except ImportError as error:
        raise MissingExtraError("onnxruntime", extra, purpose) from error
    own = (value for value in vars(state).values() if isinstance(value, type) and issubclass(value, Exception))
    return (*own, RuntimeError, ValueError, TypeError)


def _brief(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _SHOWN else text[:_SHOWN] + " ..."
