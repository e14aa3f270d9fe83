"""What the terminal shows of certificates: the conclusion, and the table of checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from faceblind.cli import console

if TYPE_CHECKING:
    from faceblind.audit.certificate import Certificate, Verification

_SHOWN = 20
_MARKS = {
    "passed": ("passed", "green"),
    "failed": ("FAILED", "bold red"),
    "warning": ("warning", "yellow"),
    "not checked": ("not checked", "cyan"),
}


def command_of(verb: str, settings: Mapping[str, Any]) -> str:
    """Return a command with its settings for the record; files are said to be there, not where."""
    parts = [f"faceblind {verb}"]
    for name, value in settings.items():
        if value is True:
            parts.append(name)
        elif value not in (None, False, ""):
            parts.append(f"{name} {value}" if " " not in str(value) else f"{name} ({value})")
    return " ".join(parts)


def show_certificate(certificate: Certificate) -> None:
    """Print what a certificate concludes, of what, and until when."""
    from rich.markup import escape

    data = certificate.data
    subject, validity = data["subject"], data["validity"]
    out = console.out()
    synthetic = "  [reverse] SYNTHETIC PEOPLE [/]" if data["synthetic"] else ""
    out.print(f"\n[bold]{escape(data['conclusion']['headline'])}[/]{synthetic}")
    if data["conclusion"]["because_of"]:
        out.print(f"  No conclusion because of: {escape(', '.join(data['conclusion']['because_of']))}")
    signed = f"signed by {data['signature']['fingerprint'][:16]}..." if data["signature"] else "not signed"
    out.print(
        escape(
            f"Projector {subject['projector']['method']}, rank {subject['projector']['rank']}, "
            f"digest {subject['projector']['digest'][:12]}; table {subject['table']['name']}, {subject['table']['rows']:,} rows; "
            f"{validity['issued'][:10]} to {validity['expires'][:10]}; {signed}"
        )
    )


def show_verification(result: Verification, *, every: bool = False) -> None:
    """Print the table of checks, and the differences that are not tolerated."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Checks", title_justify="left")
    table.add_column("check", overflow="fold")
    table.add_column("result", no_wrap=True)
    table.add_column("what was found", overflow="fold")
    for check in result.checks:
        label, style = _MARKS[check.status]
        table.add_row(escape(check.name), f"[{style}]{label}[/]", escape(check.detail))
    out = console.out()
    out.print(table)
    differences = result.differences
    if differences:
        out.print("Differences:")
        for difference in differences if every else differences[:_SHOWN]:
            out.print(f"  {escape(str(difference))}")
        if not every and len(differences) > _SHOWN:
            out.print(f"  and {len(differences) - _SHOWN:,} more; list them with --all")
    counts = ", ".join(f"{number} {status}" for status, number in result.counts().items() if number)
    if result.ok:
        out.print(f"[bold]Nothing failed[/]: {counts}.")
    else:
        names = ", ".join(check.name for check in result.failed)
        out.print(f"[bold red]FAILED[/]: {escape(names)} ({counts}).")
