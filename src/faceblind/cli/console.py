"""What the terminal shows: progress, findings, the verdict and a short table. Progress goes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from faceblind.audit.entries import Summary
    from faceblind.audit.result import AuditResult
    from faceblind.data.findings import Finding

_MARKS = {"error": ("ERROR", "bold red"), "warning": ("warning", "yellow"), "note": ("note", "cyan")}


def out() -> Console:
    """Return the console for results."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """Print one line to stdout, as it is."""
    sys.stdout.write(text + "\n")


def warn(text: str) -> None:
    """Print one line to stderr."""
    sys.stderr.write(f"faceblind: note: {text}\n")


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr for work that reports (done, total)."""
    with staged() as update:
        yield lambda done, total: update(what, done, total)


@contextmanager
def staged() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar on stderr for work that reports (what, done, total); silent when stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda what, done, total: progress.update(task, description=what, completed=done, total=total)


def show_findings(findings: Sequence[Finding]) -> None:
    """Print what was noticed about the data, worst first."""
    from rich.markup import escape

    console = out()
    if not findings:
        console.print("Data: no findings.")
        return
    console.print("Findings about the data:")
    for finding in findings:
        label, style = _MARKS[finding.severity]
        console.print(
            f"  [{style}]{label:>7}[/]  {escape(finding.kind)} ({finding.count:,}): {escape(finding.message)}"
        )
        for example in finding.examples:
            console.print(f"           {escape(example)}")


def show_result(result: AuditResult) -> None:
    """Print the verdict and the worst attacker of every release at every FAR."""
    from rich.markup import escape
    from rich.table import Table

    from faceblind.audit.verdict import worst_of

    console = out()
    synthetic = "  [reverse] SYNTHETIC PEOPLE [/]" if result.synthetic else ""
    console.print(f"\n[bold]{escape(result.verdict.headline)}[/]{synthetic}")
    for sentence in result.verdict.sentences:
        console.print(f"  - {escape(sentence)}")
    table = Table(title="TAR of the worst attacker (95 % interval over people)", title_justify="left")
    table.add_column("release")
    fars = sorted({s.far_target for s in result.summary}, reverse=True)
    for far in fars:
        table.add_column(f"FAR {far:g}", justify="right")
    for release in dict.fromkeys(s.release for s in result.summary):
        cells = [worst_of(result.summary, release, far) for far in fars]
        rank = next(s.rank for s in result.summary if s.release == release)
        table.add_row(f"{release}{f' (rank {rank})' if rank else ''}", *(_cell(cell) for cell in cells))
    console.print(table)
    if result.gate is not None:
        console.print(f"Gate {escape(result.gate.message)}", style="bold red" if result.gate.failed else "green")


def _cell(point: Summary | None) -> str:
    if point is None:
        return ""
    if point.grade == "unsupported":
        return f"<= {100 * point.tar_high:.2f} %"
    images = "" if point.k is None else f" k={point.k}"
    who = point.attacker + images + (f" on {point.trained_on}" if point.trained_on else "")
    return f"{100 * point.tar:.2f} % ({100 * point.tar_low:.2f}-{100 * point.tar_high:.2f})\n{who}, {point.grade}"
