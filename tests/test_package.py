"""The package as a whole: public names, import weight, layers, the words it must not use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import faceblind as fb

SOURCE = Path(fb.__file__).parent
LAYERS = (
    "measure", "data", "erase", "attack", "faces", "encoders", "attribute", "utility", "frequency", "audit", "deploy", "cli",
)  # fmt: skip


def test_all_is_sorted_complete_and_importable():
    assert fb.__all__ == sorted(fb.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    for name in fb.__all__:
        assert getattr(fb, name) is not None
    defined = {name for names in fb._WHERE.values() for name in names}
    assert set(fb.__all__) == defined
    assert set(dir(fb)) == defined


def test_every_error_is_public_and_in_the_tree():
    from faceblind import _errors

    errors = {name for name, item in vars(_errors).items() if isinstance(item, type) and issubclass(item, Exception)}
    assert errors <= set(fb.__all__)
    for name in errors:
        assert issubclass(getattr(fb, name), fb.FaceblindError)
        assert name in (_errors.__doc__ or "")


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        fb.nonsense  # noqa: B018


def test_importing_loads_nothing_heavy():
    heavy = ("torch", "pyarrow", "matplotlib", "sklearn", "onnxruntime", "PIL", "scipy")
    code = f"import sys, faceblind; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_loads_no_numerics():
    code = (
        "import sys\nfrom faceblind.cli import main\nmain(['--help'])\n"
        "print([m for m in ('numpy', 'scipy', 'pyarrow', 'torch') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def modules():
    return sorted(SOURCE.rglob("*.py"))


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("faceblind"):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("faceblind"))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_folders_import_only_from_those_before_them(path):
    here = path.relative_to(SOURCE).parts[0]
    if here not in LAYERS:
        return  # the top of the package: public names and shared helpers
    for module in imported(path):
        parts = module.split(".")
        if len(parts) > 1 and parts[1] in LAYERS:
            assert LAYERS.index(parts[1]) <= LAYERS.index(here), f"{here} must not import {module}"


def test_modules_stay_small():
    long = {str(p.relative_to(SOURCE)): n for p in modules() if (n := len(p.read_text().splitlines())) > 350}
    assert not long


def test_no_promises_that_no_figure_can_keep():
    for path in [*modules(), *SOURCE.rglob("*.html")]:
        text = path.read_text().lower()
        assert "gdpr compliant" not in text, path
        assert "anonymous" not in text, path
