"""A projector's arithmetic as lines of NumPy that read its file, for programs that do not install faceblind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from faceblind.deploy.export.check import Check, check_rows
from faceblind.deploy.export.steps import TOO_SHORT, gone_ratio
from faceblind.erase import Projector


def numpy_lines(path: str | Path, *, compact: bool = False, renormalise: bool = True) -> str:
    """Return Python text that defines ``clean(X)`` for (n, d) arrays; it needs numpy and safetensors only.

    The text reads the projector from `path` when it is run. It was run and compared with `Projector.apply` before it is
    returned.

    Raises
    ------
    ProjectorError
        The file is missing or damaged; or the text does not agree, which would be a bug.
    """
    return checked_lines(path, compact=compact, renormalise=renormalise)[0]


def checked_lines(path: str | Path, *, compact: bool = False, renormalise: bool = True) -> tuple[str, Check]:
    """Return the text and how it was checked."""
    projector = Projector.load(path)
    text = _text(projector, str(path), compact, renormalise)
    space: dict[str, object] = {}
    exec(compile(text, "<numpy export>", "exec"), space)
    clean: Any = space["clean"]
    check = check_rows(projector, clean, compact=compact, renormalise=renormalise, what="the NumPy text")
    return text, check


def _text(projector: Projector, path: str, compact: bool, renormalise: bool) -> str:
    affine, oblique = projector.mean is not None, projector.lift is not None
    encoder = projector.encoder.encoder if projector.encoder else "an encoder that its file does not name"
    form = f"{projector.compact_dim} columns, compact" if compact else f"{projector.dim} columns"
    length = "np.linalg.norm(Y, axis=1, keepdims=True)"
    lines = [
        f"# projector {projector.digest}",
        f"# for vectors of {encoder}, {projector.dim} features -> {form}",
        "import numpy as np",
        "from safetensors.numpy import load_file",
        "",
        f"P = load_file({path!r})",
        'U = P["basis"]' + ('; L = P["lift"]' if oblique else ""),
    ]
    lift = "L" if oblique else "U"
    if compact:
        lines.append('V = np.linalg.qr(U, mode="complete")[0][:, U.shape[1]:]')
        lines.append("C = V - U @ (L.T @ V)" if oblique else "C = V")
        probe = "np.cos(np.arange(len(U))) @ C"
        if affine:
            lines.append(f'o = {lift} @ (U.T @ P["mean"])')
            lines.append("o = np.append(V.T @ o, np.linalg.norm(U.T @ o))")
            probe = f"np.append({probe}, 0) + o"
        lines += [
            f'if not np.allclose({probe}, P["compact_check"], atol=1e-6):',
            '    raise SystemExit("this linear algebra library builds another compact form")',
        ]
    lines += ["", "def clean(X):", "    X = np.asarray(X, np.float64)"]
    lines.append("    N = np.linalg.norm(X, axis=1, keepdims=True)")
    lines.append("    lost = N == 0")
    if affine:
        lines += ["    X = np.where(lost, 0, X / np.where(lost, 1, N))", "    N = np.where(lost, 0, 1)"]
    if compact:
        tail = "; Y = np.hstack([Y, np.zeros((len(Y), 1))]) + o" if affine else ""
        lines.append(f"    Y = X @ C{tail}")
    else:
        read = '(X - P["mean"])' if affine else "X"
        lines.append(f"    Y = X - {read} @ U @ {lift}.T")
    lines.append(f"    M = {length}")
    lines.append(f"    gone = lost | (M <= {TOO_SHORT!r}) | (M < {gone_ratio(projector)!r} * N)")
    lines.append(
        "    return np.where(gone, 0, Y / np.where(gone, 1, M)).astype(np.float32)"
        if renormalise
        else "    return np.where(gone, 0, Y).astype(np.float32)"
    )
    return "\n".join(lines) + "\n"
