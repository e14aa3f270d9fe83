"""``faceblind export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from faceblind.cli import columns as c


def export(
    projector: Annotated[Path, Parameter(help="Projector file from `faceblind fit`.")],
    /,
    *,
    to: Annotated[
        Literal["faiss", "onnx", "torchscript", "json", "numpy"],
        Parameter(help="Form to write; json holds the matrices for any language, numpy is text to paste."),
    ],
    output: Annotated[
        Path | None,
        Parameter(name=["--output", "-o"], help="File to write; without it, numpy prints its text."),
    ] = None,
    compact: Annotated[
        bool, Parameter(help="Give d - r columns with identical cosines instead of d.", negative=())
    ] = False,
    renormalise: Annotated[bool, Parameter(help="Scale vectors to unit length.")] = True,
    encoder: Annotated[
        str | None,
        Parameter(
            help="onnx: put the projector behind this encoder, onnx:FILE or a name whose weights are an ONNX file."
        ),
    ] = None,
    keep_outputs: Annotated[
        str,
        Parameter(
            help="onnx with --encoder: other outputs of the encoder to keep, comma-separated; nothing is erased from them."
        ),
    ] = "",
    input_dtype: Annotated[
        Literal["float32", "float16"] | None,
        Parameter(help="onnx: number type of the vectors that go in; default float32."),
    ] = None,
    table: Annotated[Path | None, Parameter(help="faiss: table of raw embeddings to build a clean index from.")] = None,
    index: Annotated[Path | None, Parameter(help="faiss: index of raw vectors to build a clean one from.")] = None,
    factory: Annotated[
        str | None, Parameter(help="faiss: what to build, e.g. Flat, HNSW32 or IVF1024,Flat; default Flat.")
    ] = None,
    metric: Annotated[
        Literal["inner-product", "l2"] | None, Parameter(help="faiss: metric of the index; default inner-product.")
    ] = None,
    ids: Annotated[
        Literal["rows", "sample"] | None,
        Parameter(help="faiss: ids are row numbers of the table, or its keys; default rows."),
    ] = None,
    sample: c.Sample = "sample",
    embedding: c.Embedding = "embedding",
    metadata: c.Metadata = None,
    force: c.Force = False,
) -> int:
    """Write a projector in the form that another program takes; an earlier file of that name is replaced.

    Every form was compared with this program's own result before its file gets its name.
    """
    from faceblind.cli import EXIT_DONE, console
    from faceblind.deploy.export import ExportOptions, export_projector

    options = ExportOptions(
        compact=compact,
        renormalise=renormalise,
        encoder=encoder,
        keep_outputs=[name.strip() for name in keep_outputs.split(",") if name.strip()],
        input_dtype=input_dtype,
        table=table,
        index=index,
        factory=factory,
        metric=metric,
        ids=ids,
        force=force,
        columns={"identity": None, "sample": sample, "embedding": embedding, "metadata": metadata},
    )
    with console.counting("adding vectors") as progress:
        made = export_projector(projector, to, output, options, progress=progress)
    for caution in made.cautions:
        console.warn(caution)
    if not made.files:
        console.say(made.text.rstrip("\n"))
        return EXIT_DONE
    console.say(
        f"Takes:   {made.takes}\nGives:   {made.gives}\nChecked: {made.checked}\n"
        f"Written: {', '.join(str(path) for path in made.files)}"
    )
    return EXIT_DONE
