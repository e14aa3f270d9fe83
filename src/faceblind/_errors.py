"""One tree of errors; everything faceblind raises on purpose is in it.

::

    FaceblindError
    ├── DataError          a table, array or label that cannot be used as given
    │   ├── FormatError    a file that is not what its name says, is truncated or was altered
    │   └── SplitError     too few identities or images for the split asked for
    ├── ImageError         a photograph that cannot be decoded (skipped and listed, not fatal, in `embed`)
    ├── EncoderError       an encoder that is unknown, missing its weights, or not the one a projector was made for
    ├── ProjectorError     a projector that does not fit the data, or whose file was damaged
    ├── RankError          a rank larger than the data supports, or a target that no rank meets
    ├── HygieneError       findings that `strict` does not let pass
    ├── OutputError        a place that cannot be written (folder missing, not writable, disk full)
    ├── UsageError         an option or expression that cannot be read
    └── MissingExtraError  an optional dependency that is not installed; says what to install

Each message names the value, row or file, the rule it breaks and the fix. The command line prints it in one
line and exits with 2.
"""

from __future__ import annotations


class FaceblindError(Exception):
    """Base of all errors raised on purpose by faceblind."""


class DataError(FaceblindError, ValueError):
    """A table, array or label that cannot be used as given."""


class FormatError(DataError):
    """A file that is not what its name says, is truncated or was altered."""


class SplitError(DataError):
    """Too few identities or images for the split asked for."""


class ImageError(FaceblindError):
    """A photograph that cannot be decoded."""


class EncoderError(FaceblindError):
    """An encoder that is unknown, lacks its weights, or is not the one a projector was made for."""


class ProjectorError(FaceblindError, ValueError):
    """A projector that does not fit the data, or whose file was damaged or altered."""


class RankError(FaceblindError, ValueError):
    """A rank larger than the data supports, or a target that no rank meets."""


class HygieneError(FaceblindError):
    """Findings about the data that `strict` does not let pass; the command line exits with 1."""


class OutputError(FaceblindError, OSError):
    """A place that cannot be written."""


class UsageError(FaceblindError, ValueError):
    """An option or expression that cannot be read."""


class MissingExtraError(FaceblindError, ImportError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}; install it with: pip install 'faceblind[{extra}]'")


def brief(error: Exception, most: int = 300) -> str:
    """Put an error of another library in one line of at most `most` characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= most else text[:most] + " ..."
