"""The command line: one file a verb, no logic of its own.

Exit codes: 0 done, 1 a gate or ``--strict`` said no, 2 usage or data error. Errors are one line on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

EXIT_DONE, EXIT_NO, EXIT_ERROR = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    from cyclopts import CycloptsError

    from faceblind._errors import FaceblindError, HygieneError
    from faceblind.cli.app import build

    app = build()
    try:
        code = app(list(sys.argv[1:] if argv is None else argv), exit_on_error=False, print_error=True)
    except CycloptsError:
        return EXIT_ERROR  # already printed, with the usage
    except HygieneError as error:
        return _fail(error, EXIT_NO)
    except FaceblindError as error:
        return _fail(error, EXIT_ERROR)
    except KeyboardInterrupt:
        return _fail("interrupted; finished files are whole and nothing is half-written", EXIT_ERROR)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone: nothing more to say to it
        return EXIT_DONE
    except OSError as error:
        return _fail(f"{error.filename or 'input or output'}: {error.strerror or error}", EXIT_ERROR)
    except MemoryError:
        return _fail("not enough memory for this table: audit a subset, or use fit and apply, which stream", EXIT_ERROR)
    return code if isinstance(code, int) else EXIT_DONE


def _fail(what: object, code: int) -> int:
    sys.stderr.write(f"faceblind: error: {what}\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
