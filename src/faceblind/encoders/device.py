"""Where a network runs and in which arithmetic: checked before anything is loaded."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from faceblind._errors import EncoderError, MissingExtraError, UsageError

PRECISIONS = ("float32", "bfloat16", "float16")
_DEVICE = re.compile(r"cpu|cuda(:\d+)?")


def import_torch(purpose: str) -> Any:
    """Import torch; `MissingExtraError` says how to install it."""
    return import_extra("torch", purpose)


def import_extra(package: str, purpose: str, *, extra: str = "encoders") -> Any:
    """Import a package of an extra; `MissingExtraError` says how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(package, extra, purpose) from error


def check_device_name(device: str) -> None:
    """Raise `UsageError` unless `device` is ``"cpu"``, ``"cuda"`` or ``"cuda:N"``."""
    if not _DEVICE.fullmatch(device):
        raise UsageError(f"device must be cpu, cuda or cuda:N, got {device!r}")


def choose_device(torch: Any, device: str, precision: str) -> tuple[Any, Any]:
    """Return torch's device and number type.

    Raises
    ------
    UsageError
        No such device or precision, or float16 on the CPU: it is slower there than float32, and overflows.
    EncoderError
        CUDA is asked for and not there.
    """
    check_device_name(device)
    if precision not in PRECISIONS:
        raise UsageError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    if device == "cpu":
        if precision == "float16":
            raise UsageError("float16 is for GPUs: on the CPU use float32, or bfloat16")
        return torch.device("cpu"), getattr(torch, precision)
    if not torch.cuda.is_available():
        why = (
            f"torch {torch.__version__} is built without CUDA: install a CUDA build"
            if torch.version.cuda is None
            else "torch finds no GPU: check the driver and CUDA_VISIBLE_DEVICES"
        )
        raise EncoderError(f"device {device!r} is not there, {why}; or use --device cpu")
    chosen = torch.device(device if ":" in device else "cuda:0")
    count = torch.cuda.device_count()
    if chosen.index >= count:
        raise EncoderError(f"device {device!r} is not there: torch finds {count} GPU(s), cuda:0 to cuda:{count - 1}")
    return chosen, getattr(torch, precision)


@contextmanager
def running(torch: Any, device: Any, threads: int) -> Iterator[None]:
    """Run a network: no gradients, `threads` on the CPU and float32 that is float32 on the GPU, for these calls only."""
    before = torch.get_num_threads()
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        if device.type == "cuda":  # cuDNN would otherwise round float32 convolutions to TF32
            stack.enter_context(torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False))
        try:
            if before != threads:
                torch.set_num_threads(threads)
            yield
        finally:
            if before != threads:
                torch.set_num_threads(before)
