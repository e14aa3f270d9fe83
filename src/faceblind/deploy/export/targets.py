"""One export by name of its target: what the command line's ``export`` does."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faceblind._errors import UsageError
from faceblind._files import write_text
from faceblind.data.tables import open_table
from faceblind.deploy.export.check import Check
from faceblind.deploy.export.faiss import save_faiss
from faceblind.deploy.export.faiss_rebuild import rebuild_index
from faceblind.deploy.export.faiss_sidecar import sidecar_path
from faceblind.deploy.export.numpy_text import checked_lines
from faceblind.deploy.export.onnx import save_onnx
from faceblind.deploy.export.onnx_fuse import fuse_onnx
from faceblind.deploy.export.plain import save_json
from faceblind.deploy.export.steps import Steps
from faceblind.deploy.export.torch import save_torchscript
from faceblind.erase import Projector

TARGETS = ("faiss", "onnx", "torchscript", "json", "numpy")
_ONLY_FOR = {
    "encoder": "onnx",
    "keep_outputs": "onnx",
    "input_dtype": "onnx",
    "table": "faiss",
    "index": "faiss",
    "factory": "faiss",
    "metric": "faiss",
    "ids": "faiss",
}


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Settings of an export; those of another target must be left out."""

    compact: bool = False
    renormalise: bool = True
    encoder: str | None = None
    keep_outputs: Collection[str] = ()
    input_dtype: str | None = None
    table: Path | None = None
    index: Path | None = None
    factory: str | None = None
    metric: str | None = None
    ids: str | None = None
    force: bool = False
    columns: dict[str, Any] = field(default_factory=dict)
    """Column names, as `open_table` takes them."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What an export wrote, and how it was checked."""

    files: tuple[Path, ...]
    takes: str
    gives: str
    checked: str
    cautions: tuple[str, ...] = ()
    text: str = ""
    """The text itself, of an export that needs no file."""


def export_projector(
    path: str | Path,
    to: str,
    output: str | Path | None = None,
    options: ExportOptions | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Write a projector file in another form.

    Parameters
    ----------
    path
        Projector file.
    to : str
        One of `TARGETS`.
    output
        File to write; without it, ``numpy`` returns its text only.

    Raises
    ------
    UsageError
        No such target, no output, or options that belong to another target.
    FaceblindError
        As the functions of the targets.
    """
    options = options or ExportOptions()
    _check_options(to, output, options)
    if output is not None and Path(output).exists() and Path(output).samefile(path):
        raise UsageError(f"{output} is the projector itself, which is only read: name another file")
    projector = Projector.load(path)
    form = {"compact": options.compact, "renormalise": options.renormalise}
    steps = Steps.of(projector, compact=options.compact, renormalise=options.renormalise)
    encoder = projector.encoder.encoder if projector.encoder else "an encoder that the projector does not name"
    takes = f"raw (n, {steps.dim}) vectors of {encoder}"
    gives = f"(n, {steps.output_dim}) clean vectors" + (" of unit length" if options.renormalise else "")
    if to == "numpy":
        text, check = checked_lines(path, **form)
        if output is not None:
            write_text(output, text)
        return Exported(
            files=() if output is None else (Path(output),), takes=takes, gives=gives, checked=str(check), text=text
        )
    if output is None:  # _check_options has seen to it
        raise UsageError(f"--to {to} needs a file to write: -o FILE")
    if options.table or options.index:
        return _rebuilt(projector, Path(output), options, progress, takes)
    if options.encoder:
        return _fused(projector, Path(output), options, gives)
    saved: dict[str, Callable[[], Check]] = {
        "faiss": lambda: save_faiss(projector, output, metric=options.metric or "inner-product", **form),
        "onnx": lambda: save_onnx(projector, output, input_dtype=options.input_dtype or "float32", **form),
        "torchscript": lambda: save_torchscript(projector, output, **form),
        "json": lambda: save_json(projector, output, **form),
    }
    check = saved[to]()
    files = (Path(output), sidecar_path(output)) if to == "faiss" else (Path(output),)
    return Exported(files=files, takes=takes, gives=gives, checked=str(check))


def _check_options(to: str, output: str | Path | None, options: ExportOptions) -> None:
    if to not in TARGETS:
        raise UsageError(f"--to is one of {', '.join(TARGETS)}, got {to!r}")
    for name, target in _ONLY_FOR.items():
        if getattr(options, name) and to != target:
            raise UsageError(f"--{name.replace('_', '-')} goes with --to {target}, not with --to {to}")
    if output is None and to != "numpy":
        raise UsageError(f"--to {to} needs a file to write: -o FILE")
    if options.table and options.index:
        raise UsageError("--table and --index are two sources of vectors: give one")
    if options.factory and not (options.table or options.index):
        raise UsageError("--factory says what to build from vectors: give --table or --index as well")
    if options.ids and not options.table:
        raise UsageError("--ids says which ids the rows of a table get: give --table as well")
    if options.keep_outputs and not options.encoder:
        raise UsageError("--keep-outputs goes with --encoder")
    if options.input_dtype and options.encoder:
        raise UsageError("--input-dtype is for a projector alone; behind an encoder it takes what the encoder gives")


def _rebuilt(
    projector: Projector,
    output: Path,
    options: ExportOptions,
    progress: Callable[[int, int], None] | None,
    takes: str,
) -> Exported:
    source = options.index if options.table is None else open_table(options.table, **options.columns)
    if source is None:
        raise UsageError("give --table or --index")
    report = rebuild_index(
        projector,
        source,
        output,
        factory=options.factory or "Flat",
        metric=options.metric or "inner-product",
        compact=options.compact,
        renormalise=options.renormalise,
        ids=options.ids or "rows",
        force=options.force,
        progress=progress,
    )
    trained = f", trained on {report.trained_on:,} rows" if report.trained_on else ""
    emptied = [f"{report.emptied:,} rows had nothing left and are stored as zeros"] if report.emptied else []
    stored = "" if report.stored_difference is None else f"; stored vectors differ by {report.stored_difference:.1e}"
    return Exported(
        files=(output, sidecar_path(output)),
        takes=f"queries: {takes} (do not project them before: the index does)",
        gives=f"neighbours among {report.rows:,} clean vectors of {report.dim} columns ({report.factory}{trained})",
        checked=f"{report.check}{stored}; {report.rows:,} rows counted when read back",
        cautions=(*report.cautions, *emptied),
    )


def _fused(projector: Projector, output: Path, options: ExportOptions, gives: str) -> Exported:
    fused = fuse_onnx(
        options.encoder or "",
        projector,
        output=output,
        compact=options.compact,
        renormalise=options.renormalise,
        keep_outputs=options.keep_outputs,
        force=options.force,
    )
    return Exported(
        files=fused.files,
        takes=f"images as before (faceblind embed --encoder onnx:{fused.path})",
        gives=f"{gives}; no longer: {', '.join(fused.dropped)}",
        checked=f"{fused.check}, on images, against the encoder and then the projector",
        cautions=fused.cautions,
    )
