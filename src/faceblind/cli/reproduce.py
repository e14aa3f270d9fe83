"""``faceblind reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from faceblind.cli import columns as c

if TYPE_CHECKING:
    from faceblind.audit.papers import Reproduced
    from faceblind.audit.papers.layout import Cell
    from faceblind.audit.papers.readings import Reading

_FOLDER = Path("papers-out")


def reproduce(
    tables: Annotated[
        Path | None,
        Parameter(help="Folder of embedding tables named DATASET-ENCODER.parquet (.npz, .npy), or with a tables.csv."),
    ] = None,
    /,
    *,
    table: Annotated[str, Parameter(help="Tables of the paper: 1, 4, 5, 6, 8, 9, several with commas, or all.")] = "1",
    output: Annotated[
        Path, Parameter(name=["--output", "-o"], help="Folder for tableN.csv, .tex and .html.")
    ] = _FOLDER,
    as_printed: Annotated[
        bool, Parameter(help="Also measure with the paper's sampled impostors, many times.", negative=())
    ] = False,
    check_printed: Annotated[
        bool, Parameter(help="List what is wrong in the paper's own tables; needs no data.", negative=())
    ] = False,
    controls: Annotated[
        str, Parameter(name="--controls", help="Encoders that are face recognisers, shown raw only; comma-separated.")
    ] = "",
    dataset: Annotated[str | None, Parameter(help="Data set of the rows, instead of the paper's choice.")] = None,
    people: Annotated[str, Parameter(help="Identities to train on, validate on and test.")] = "320,80,80",
    images: Annotated[int, Parameter(help="Images per identity.")] = 20,
    least: Annotated[int, Parameter(help="Leave out people with fewer images than this.")] = 2,
    ks: Annotated[str, Parameter(help="Images per train identity of the probes.")] = "1,4,16",
    seeds: Annotated[int, Parameter(help="Draws of those images, averaged.")] = 5,
    far: Annotated[float, Parameter(help="False accept rate of the TAR tables.")] = 1e-4,
    rank: Annotated[int | None, Parameter(help="Dimensions to remove; default 192, or what the data support.")] = None,
    ranks: Annotated[str, Parameter(help="Ranks of Table 5.")] = "0,64,96,128,192",
    fit_people: Annotated[str, Parameter(help="Identities the eraser is fitted on in Table 6.")] = "320,640,1280,2000",
    cross: Annotated[bool, Parameter(help="ISP-X columns in Table 1 (they need a second data set).")] = True,
    impostors: Annotated[
        int | None, Parameter(help="Sampled impostors per image; default 4, and 10 for data sets named vgg...")
    ] = None,
    resamplings: Annotated[int, Parameter(help="How often impostors are sampled.")] = 200,
    rule: Annotated[
        Literal["at-most", "nearest"], Parameter(help="Threshold rule shown for sampled impostors.")
    ] = "at-most",
    draws: Annotated[int, Parameter(help="Bootstrap draws of people.")] = 1000,
    seed: c.Seed = 0,
    restart: Annotated[bool, Parameter(help="Measure finished cells again.", negative=())] = False,
) -> int:
    """Make the paper's tables from any embeddings, with intervals, grades, nulls and fresh attackers beside each cell.

    Finished cells are kept in OUTPUT/cells.json: a run that was stopped goes on where it was.
    """
    from faceblind._errors import UsageError
    from faceblind._files import remove, writable_folder
    from faceblind.audit.papers import Protocol, save_tables
    from faceblind.audit.papers import reproduce as run
    from faceblind.audit.papers.protocol import parse_numbers, parse_people, parse_tables
    from faceblind.audit.papers.run import CACHE
    from faceblind.cli import EXIT_DONE, console

    if check_printed:
        _show_slips()
    if tables is None:
        if check_printed:
            return EXIT_DONE
        raise UsageError("name the folder of embedding tables, or ask for --check-printed alone")
    protocol = Protocol(
        seed=seed,
        far=far,
        people=parse_people(people),
        images=images,
        least=least,
        ks=tuple(sorted(set(parse_numbers(ks, "images per identity", "1,4,16")))),
        seeds=seeds,
        rank=rank,
        ranks=tuple(sorted(set(parse_numbers(ranks, "ranks", "0,64,128")))),
        fit_people=tuple(sorted(set(parse_numbers(fit_people, "identities", "320,640")))),
        cross=cross,
        draws=draws,
        as_printed=as_printed,
        impostors=impostors,
        resamplings=resamplings,
        rule=rule,
    )
    wanted = parse_tables(table)
    writable_folder(output)
    if restart:
        remove(output / CACHE)
    with console.staged() as progress:
        made = run(
            tables,
            wanted,
            protocol=protocol,
            controls=[name.strip() for name in controls.split(",") if name.strip()],
            dataset=dataset,
            cache=output / CACHE,
            progress=progress,
        )
        written = save_tables(made, output)
    for one in made:
        _show_table(one)
    console.say("\n".join(f"Written: {path}" for path in written))
    return EXIT_DONE


def _show_slips() -> None:
    from faceblind.audit.papers import check_printed
    from faceblind.cli import console

    slips = check_printed()
    console.say(f"arXiv 2604.05296, printed tables: {len(slips)} slips that arithmetic finds")
    for slip in slips:
        where = f"Table {slip.tables[0]}" if len(slip.tables) == 1 else f"Tables {', '.join(slip.tables)}"
        console.say(f"  - [{slip.rule}] {where}: {slip.sentence}")


def _show_table(made: Reproduced) -> None:
    """Print a line per cell: the probe's figure with its interval, what stands beside it, and the printed spread."""
    from rich.markup import escape
    from rich.table import Table

    from faceblind.cli import console

    shown, layout = console.out(), made.layout
    synthetic = " (synthetic people)" if made.synthetic else ""
    table = Table(title=f"Table {layout.table}. {layout.title}{synthetic}, in percent", title_justify="left")
    heads = ["cell", "paper's probe", "worst attacker", "random / PCA"]
    for head in (*heads, *(["as printed"] if made.protocol.as_printed else [])):
        table.add_column(head)
    for cell in layout.cells:
        source = layout.rows[cell.row]
        place = escape(f"{source.dataset} {source.encoder} {layout.columns[cell.column].label}")
        table.add_row(place, *map(escape, _figures(made, cell)), end_section=cell.column == len(layout.columns) - 1)
    shown.print(table)
    for note in made.notes:
        shown.print(f"  note: {escape(note)}")


def _figures(made: Reproduced, cell: Cell) -> list[str]:
    roles, worst = made.roles(cell), made.worst(cell)
    if "own" not in roles or worst is None:
        return [f"- {cell.reason}"]
    nulls = " / ".join(_number(roles[name]) for name in ("random", "pca") if name in roles)
    found = [_number(roles["own"], ends=True), f"{_number(worst[1], ends=True)} {worst[0].attacker}", nulls]
    printed = roles["own"].printed
    if printed is not None:
        spread = printed.value if made.protocol.rule == "at-most" else printed.variant
        found.append(f"{100 * spread.first:.2f} ({100 * spread.low:.2f}-{100 * spread.high:.2f})")
    return found


def _number(reading: Reading, *, ends: bool = False) -> str:
    if reading.bounded:
        return f"<= {100 * reading.high:.2f}"
    return f"{100 * reading.value:.2f}" + (f" ({100 * reading.low:.2f}-{100 * reading.high:.2f})" if ends else "")
