"""The audit: plan -> run -> result -> report. The package itself can be called: ``fb.audit(people)`` is `run.audit`.

A function and a folder of one name would otherwise replace each other in ``faceblind``, depending on what was imported
first.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run `faceblind.audit.run.audit`."""
        from faceblind.audit.run import audit

        return audit(*args, **options)


sys.modules[__name__].__class__ = _CallablePackage
