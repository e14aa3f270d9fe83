"""Extras from closed forms, degenerate records that a report must survive, and the golden cases."""

from __future__ import annotations

import copy
from html.parser import HTMLParser
from typing import Any

import numpy as np
from report_records import make_record

from faceblind.audit.report import Map, Neighbour, NeighbourRow, Picture, ReportExtras


def make_extras(*, hostile: str = "") -> ReportExtras:
    """Extras from closed forms: spirals of people for the maps, and stub pictures."""
    angle = np.arange(400) * 2.399963
    person = np.arange(400) // 20
    names = np.array([f"person {p:02d}{hostile}" for p in person])
    centre = np.stack([np.cos(person * 2.4), np.sin(person * 2.4)], axis=1) * (3 + person[:, None] % 7)
    tight = centre + 0.5 * np.stack([np.cos(angle), np.sin(angle)], axis=1) * (np.arange(400)[:, None] % 20 / 20) ** 0.5
    loose = np.stack([np.cos(angle), np.sin(angle)], axis=1) * np.sqrt((np.arange(400)[:, None] * 137) % 400)
    rows = tuple(
        NeighbourRow(
            query=picture(q, q, hostile),
            before=tuple(neighbour(q, n, same=n < 4 - q % 2, hostile=hostile) for n in range(5)),
            after=tuple(neighbour(q, n + 5, same=n < 1 + q % 2, hostile=hostile) for n in range(5)),
        )
        for q in range(4)
    )
    return ReportExtras(
        maps=(
            Map(release="raw", method="t-SNE", xy=tight, identity=names),
            Map(release="erased", method="t-SNE", xy=loose, identity=names),
        ),
        neighbours=rows,
        map_rule="20 of 80 people, drawn at random (seed 0) and kept whole: 400 of 1,600 images.",
        query_rule="Queries are 4 images drawn at random (seed 0), one each of 4 people with at least two images; they were not chosen for their result.",
    )


def neighbour(query: int, n: int, *, same: bool, hostile: str) -> Neighbour:
    return Neighbour(
        picture=picture(query if same else 40 + n, n, hostile), cosine=0.92 - 0.05 * n - 0.02 * query, same_person=same
    )


def picture(person: int, n: int, hostile: str) -> Picture:
    # A stub in place of a photograph: bytes are embedded as they are, and no codec decides what a golden file holds.
    jpeg = None if n % 4 == 3 else bytes([0xFF, 0xD8, 0xFF, person, n, 0xFF, 0xD9])
    return Picture(sample=f"id_{person:04d}/{n:06d}.jpg{hostile}", identity=f"person {person:02d}{hostile}", jpeg=jpeg)


def degenerate() -> dict[str, dict[str, Any]]:
    """Valid records that a report must survive, by name."""
    base = make_record()
    found = {
        "raw only": make_record(releases=("raw",), level="leaks"),
        "no raw": make_record(releases=("isp", "random")),
        "one rate": make_record(rates=(1e-3,)),
        "unsupported": make_record(nonmated=200, level="inconclusive"),
        "tiny": make_record(nonmated=2, rates=(1e-6,), level="inconclusive"),
        "wide rates": make_record(rates=(1.0, 0.5, 0.0), level="low"),
    }
    bare = copy.deepcopy(base) | {
        "gate": None,
        "hygiene": [],
        "summary": [],
        "worst": [],
        "comparisons": [],
        "rows": [],
        "curves": [],
        "rank_curve": [],
        "utility": [],
        "power": None,
        "limits": [],
    }
    bare["verdict"] = {"level": "inconclusive", "headline": "", "sentences": []}
    bare["provenance"] |= {
        "encoder": None,
        "attackers": [],
        "bootstrap": {},
        "libraries": {},
        "projector": None,
        "far_targets": [],
    }
    found["bare"] = bare
    dirty = copy.deepcopy(base)
    dirty["hygiene"].insert(
        0,
        {
            "kind": "duplicate_across_identities",
            "severity": "error",
            "count": 31,
            "examples": [f"id_{i:04d}/a.jpg = id_{i + 7:04d}/b.jpg (cosine 0.9999)" for i in range(9)],
            "message": "The same photograph under two names looks like a false accept and drives the threshold up; remove one of each.",
        },
    )
    found["dirty"] = dirty
    long = copy.deepcopy(base)
    for entry in (*long["summary"], *long["rows"], *long["curves"], *long["rank_curve"]):
        entry["attacker"] += "_" + "averylongattackername" * 6
    long["provenance"]["table"]["name"] = "portraits_" * 30
    long["hygiene"][0]["examples"] = ["x" * 500, "id / " * 90]
    long["hygiene"][0]["kind"] = "k" * 200
    long["verdict"]["headline"] = "W" * 300
    found["long names"] = long
    flat = copy.deepcopy(base)
    flat["rank_curve"] = [dict(flat["rank_curve"][0], tar=0.0, tar_low=0.0, tar_high=0.0)]
    flat["power"] = {**flat["power"], "points": [], "smallest_caught": None}
    for entry in flat["curves"]:
        entry |= {
            "far": [0.0, 1.0],
            "fnmr": [1.0, 0.0],
            "fnmr_low": [1.0, 0.0],
            "fnmr_high": [1.0, 0.0],
            "far_floor": 0.0,
        }
    found["flat"] = flat
    many = copy.deepcopy(base)
    many["rank_curve"] = [
        dict(p, rank=i, far_target=far) for i in range(60) for far in (1e-3, 1e-4) for p in many["rank_curve"][:1]
    ]
    many["summary"] += [dict(s, release="my own eraser", rank=9) for s in many["summary"] if s["release"] == "isp"]
    many["summary"] += [dict(s, release="planted") for s in many["summary"] if s["release"] == "isp"]
    many["provenance"]["attackers"] = many["provenance"]["attackers"] * 30
    many["provenance"]["note"] = {"deep": {"deeper": {"deepest": {"end": [1, 2]}}}}
    found["many"] = many
    return found


def golden_cases() -> dict[str, tuple[dict[str, Any], ReportExtras | None]]:
    """Records (with extras) whose pages are kept under tests/golden/report, by file name."""
    small = make_record(rates=(1e-2, 1e-4), releases=("raw", "isp", "random"))
    return {
        "full.html": (small, make_extras()),
        "unsupported.html": (
            make_record(rates=(1e-4,), releases=("raw", "isp"), nonmated=5000, level="inconclusive"),
            None,
        ),
        "bare.html": (degenerate()["bare"], None),
    }


class Page(HTMLParser):
    """Tags, attributes, text by section and the embedded record."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self.record = ""
        self.ids: list[str] = []
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag in {"script", "style"}:
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in {"script", "style"}:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.text += data
        elif self._inside[-1] == "script":
            self.record += data
