"""The door to torch: a clear message where it is missing."""

from __future__ import annotations


def need_torch() -> None:
    """Raise `MissingExtraError` when torch is not installed."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        from faceblind._errors import MissingExtraError

        raise MissingExtraError("torch", "frequency", "the frequency commands") from error
