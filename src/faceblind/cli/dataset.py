"""``faceblind dataset``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from faceblind.cli import columns as c

if TYPE_CHECKING:
    from faceblind.data.datasets import Prepared

Name = Literal["list", "celeba20", "vggface2-20", "lfw20", "ms1m", "imagenet", "disc2021", "folders", "csv"]


def dataset(
    name: Annotated[Name, Parameter(help="Data set; 'list' shows what is known about each.")],
    directory: Annotated[
        Path | None, Parameter(help="Directory as downloaded from its owner, unpacked; for csv also the file.")
    ] = None,
    /,
    *,
    output: Annotated[
        Path | None,
        Parameter(name=["--output", "-o"], help="Folder for labels.csv, split.csv and manifest.json."),
    ] = None,
    seed: c.Seed = 0,
    images: Annotated[
        str | None,
        Parameter(
            help="Images of each person, exactly; default 20 (folders, csv: all). ImageNet: of each train class, default 50. "
            "DISC2021: references that nobody copied, and training images, default all. Or 'all'."
        ),
    ] = None,
    people: Annotated[
        str | None,
        Parameter(
            help="People to fit on, validate on and test, as 320,80,80 (attackers get as many as fit); or four numbers "
            "fit,attack,validation,test; or one, divided like the default; or 'all'."
        ),
    ] = None,
    check: Annotated[
        Literal["drawn", "all"], Parameter(help="Open only the images that are drawn, or all of them.")
    ] = "drawn",
    leave_out: Annotated[
        Path | None,
        Parameter(help="CSV with a column sample or path: images not to draw, such as TABLE.skipped.csv of embed."),
    ] = None,
    queries: Annotated[Literal["dev", "final"], Parameter(help="Which queries of DISC2021.")] = "dev",
    strict: Annotated[bool, Parameter(help="Exit with 1 on findings of severity error.", negative=())] = False,
) -> int:
    """Check a data set and draw from it what the paper draws, as files that embed and audit take.

    Exit codes: 0 done (whatever was found), 1 --strict said no, 2 usage or data error.
    """
    from faceblind._errors import HygieneError, UsageError
    from faceblind.cli import EXIT_DONE, console
    from faceblind.data.datasets import Request, prepare, read_leave_out

    if name == "list":
        _show_known()
        return EXIT_DONE
    if directory is None or output is None:
        raise UsageError(f"name the directory and the folder to write: faceblind dataset {name} DIRECTORY -o FOLDER")
    if images is not None and images != "all" and not images.isdigit():
        raise UsageError(f"images is a number or 'all', got {images!r}")
    request = Request(
        seed=seed,
        images=int(images) if images is not None and images.isdigit() else images,
        people=people,
        check=check,
        leave_out=read_leave_out(leave_out) if leave_out is not None else frozenset(),
        queries=queries,
    )
    with console.staged() as progress:
        made = prepare(name, directory, output, request, progress=progress)
    console.show_findings(made.findings)
    _show_counts(made)
    _show_next(made, output)
    if strict and made.errors:
        kinds = ", ".join(finding.kind for finding in made.errors)
        raise HygieneError(f"{len(made.errors)} findings do not pass --strict: {kinds}")
    return EXIT_DONE


def _show_known() -> None:
    from faceblind.cli import console
    from faceblind.data.datasets import FACTS

    for facts in FACTS.values():
        console.say(f"{facts.name}  ({facts.title})\n  owner: {facts.owner}{'  ' + facts.page if facts.page else ''}")
        console.say(f"  terms: {facts.terms}\n  point at: {facts.point_at}")
        published = [f"{number:,} {what}" for what, number in facts.counts.items()]
        published += [f"about {number:,} {what}" for what, number in facts.about.items()]
        if published:
            console.say(f"  published: {', '.join(published)}")


def _show_counts(made: Prepared) -> None:
    from faceblind.cli import console

    found = ", ".join(f"{number:,} {what}" for what, number in made.counts["found"].items())
    console.say(f"Found in {made.root if made.facts.name != 'ms1m' else 'the data set'}: {found}")
    for part, numbers in made.counts["drawn"].items():
        console.say(f"  {part}: " + ", ".join(f"{number:,} {what}" for what, number in numbers.items()))


def _show_next(made: Prepared, output: Path) -> None:
    from faceblind.cli import console

    console.say(f"Written: {', '.join(str(output / name) for name in (*made.tables, 'manifest.json'))}\nNext:")
    stem = made.facts.name.replace("-", "_")  # the text up to a dash is the data set, where reproduce reads tables
    for labels in made.embed:
        part = "" if len(made.embed) == 1 else f"_{Path(labels).stem}"
        table = output / f"{stem}{part}-sscd.parquet"
        parts = ["faceblind", "embed", made.root, "--labels", output / labels, "-o", table]
        console.say("  " + shlex.join(map(str, parts)))
    if made.facts.people:
        parts = ["faceblind", "audit", table, "--split", output / "split.csv", "-o", output / "audit"]
        console.say("  " + shlex.join(map(str, parts)))
