"""``faceblind frequency attack``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter


def attack(
    model: Annotated[Path, Parameter(help="Model folder of frequency train.")],
    folder: Annotated[Path, Parameter(help="The faces it was trained with: its test people are attacked.")],
    /,
    *,
    attacks: Annotated[
        str | None, Parameter(help="Names with commas, linkage among them; default all that apply.")
    ] = None,
    judge: Annotated[
        str | None,
        Parameter(help="Face recogniser that looks at recovered faces, such as edgeface-xs (faceblind encoders)."),
    ] = None,
    judge_weights: Annotated[Path | None, Parameter(help="Its weights: your ONNX file.")] = None,
    people: Annotated[int | None, Parameter(help="Test people to attack, at most.")] = None,
    each: Annotated[
        int, Parameter(help="Photographs of each to attack; the others are what they are matched with.")
    ] = 2,
    public: Annotated[int | None, Parameter(help="Faces the attacker owns, at most.")] = None,
    gallery: Annotated[int, Parameter(help="Faces to show.")] = 4,
    far: Annotated[float, Parameter(help="FAR of re-identification.")] = 1e-2,
    seed: Annotated[int, Parameter(help="Of noise, targets and draws of people.")] = 0,
) -> int:
    """Try to recover faces from what a model releases and to link releases of one person; write report.html into its folder.

    Finished attacks are kept: a run that was stopped goes on with the next.
    """
    from faceblind.audit.frequency import write_report
    from faceblind.cli import EXIT_DONE, console
    from faceblind.encoders.device import import_extra

    import_extra("torch", "the frequency commands", extra="frequency")
    from faceblind.frequency.attacks.judge import open_judge
    from faceblind.frequency.workflow import attack_model

    opened = None if judge is None else open_judge(judge, weights=judge_weights)
    with console.staged() as progress:
        found = attack_model(
            model,
            folder,
            names=None if attacks is None else [name.strip() for name in attacks.split(",")],
            judge=opened,
            people=people,
            each=each,
            public=public,
            gallery=gallery,
            far=far,
            seed=seed,
            progress=progress,
        )
    floor = found["floor"]["psnr"]
    console.say(
        f"A constant picture, the floor: PSNR {floor['mean']:.2f} dB ({floor['low']:.2f} to {floor['high']:.2f})"
    )
    for row in found["attacks"]:
        console.say(line(row))
    for space in dict.fromkeys(row["space"] for row in found["linkage"]):
        console.say(linkage_line([row for row in found["linkage"] if row["space"] == space]))
    console.say(f"Written to {model / 'attacks.json'}; pictures are in {model / 'gallery'}")
    console.say(f"Report: {write_report([model], model / 'report.html')}")
    return EXIT_DONE


def line(row: dict[str, Any]) -> str:
    """Say one attack."""
    psnr, ssim, reid = row["psnr"], row["ssim"], row["reid"]
    said = (
        f"{row['title']}: PSNR {psnr['mean']:.2f} dB ({psnr['low']:.2f} to {psnr['high']:.2f}), SSIM {ssim['mean']:.2f}"
    )
    if reid:
        said += (
            f"; re-identified {reid['tar']:.1%} at FAR {reid['far_target']:g} ({reid['low']:.1%} to {reid['high']:.1%}; "
            f"chance {reid['null']['tar']:.1%}, true photographs {reid['original']['tar']:.1%})"
        )
    return said + f". Needs: {row['holds']}"


def linkage_line(rows: list[dict[str, Any]]) -> str:
    """Say how well releases are linked in a space, by whoever links them best there."""
    best = max(rows, key=lambda row: row["tar"])
    return (
        f"Linkage by {best['space']}: TAR {best['tar']:.1%} at FAR {best['far_target']:g} "
        f"({best['low']:.1%} to {best['high']:.1%}; chance {best['null']['tar']:.1%}), {best['attacker']} against "
        f"{best['gallery']}"
    )
