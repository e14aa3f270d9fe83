"""Scales, axes and the geometry of the plots."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_cases import degenerate, make_extras
from report_records import NORMAL, make_record

from faceblind.audit.report import axes, panels, svg
from faceblind.audit.report.det import det_figure
from faceblind.audit.report.figures import worst
from faceblind.audit.report.forest import forest_figure
from faceblind.audit.report.mapplot import map_figure, picked_out
from faceblind.audit.report.powerplot import power_figure
from faceblind.audit.report.rankplot import rank_figure

HOSTILE = '</title><script>alert(1)</script>" onload="x'


def points_of(drawn: str, css: str) -> list[tuple[float, float]]:
    """Points of the first path with exactly this class."""
    found = re.search(rf'<path d="M([^"Z]*)Z?" class="{re.escape(css)}"', drawn)
    assert found, css
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in found[1].split())]


def binormal(release: str, shift: float, *, floor: float = 1e-5) -> dict[str, Any]:
    far = [10 ** (-6 + 6 * i / 200) for i in range(200)]
    fnmr = [NORMAL.cdf(NORMAL.inv_cdf(1 - f) - shift) for f in far]
    return {
        "release": release,
        "rank": 0,
        "attacker": "cosine",
        "trained_on": None,
        "k": None,
        "far": far,
        "fnmr": fnmr,
        "fnmr_low": [max(0.0, m - 0.01) for m in fnmr],
        "fnmr_high": [min(1.0, m + 0.01) for m in fnmr],
        "eer": 0.2,
        "eer_low": 0.19,
        "eer_high": 0.21,
        "far_floor": floor,
    }


@given(st.floats(1e-6, 1 - 1e-6))
def test_probit_is_odd_about_one_half(share: float) -> None:
    assert axes.probit(share) == pytest.approx(-axes.probit(1 - share), abs=1e-6)
    assert axes.probit(0.975) == pytest.approx(1.959964, abs=1e-6)


@given(st.floats(0.001, 0.4), st.floats(0.5, 0.999), st.floats(0, 1))
def test_scales_hit_their_ends_and_clip(low: float, high: float, value: float) -> None:
    for transform in (axes.identity, axes.log10, axes.probit):
        scale = axes.Scale(low, high, 10, 200, transform)
        assert scale.at(low) == pytest.approx(10)
        assert scale.at(high) == pytest.approx(200)
        assert 10 - 1e-6 <= scale.at(value) <= 200 + 1e-6


@given(st.floats(0, 50), st.floats(0.01, 500), st.integers(2, 9))
def test_linear_ticks_lie_inside_and_are_evenly_spaced(low: float, span: float, about: int) -> None:
    ticks = axes.linear_ticks(low, low + span, about)
    assert all(low - 1e-6 <= t <= low + span + 1e-6 for t in ticks)
    assert len(ticks) <= 2 * about + 2
    if len(ticks) > 2:
        gaps = [b - a for a, b in pairwise(ticks)]
        assert max(gaps) == pytest.approx(min(gaps), rel=1e-6)


@pytest.mark.parametrize(("value", "top"), [(0.031, 0.04), (0.9, 1.0), (0.04, 0.04)])
def test_an_axis_from_zero_ends_on_a_tick(value: float, top: float) -> None:
    assert axes.round_up(value) == pytest.approx(top)


def test_ticks_are_in_percent() -> None:
    assert [axes.percent_tick(t) for t in (1e-6, 1e-4, 0.2, 0.999, 1)] == ["0.0001", "0.01", "20", "99.9", "100"]


def test_numbers_are_short() -> None:
    assert [svg.num(v) for v in (1.0, 1.239, -0.001, 0.5, 100)] == ["1", "1.24", "0", "0.5", "100"]


def test_elements_escape_text_and_attributes() -> None:
    drawn = svg.element("text", HOSTILE, class_=HOSTILE)
    assert "<script" not in drawn
    assert '" onload' not in drawn


def test_touching_tick_labels_are_dropped_and_their_lines_kept() -> None:
    scale = axes.Scale(0, 100, 0, 100)
    drawn = axes.x_axis(scale, 100, 0, [(t, "0.0001") for t in (0, 10, 90)], "x")
    assert drawn.count('class="grid"') == 3
    assert drawn.count(">0.0001<") == 2


def test_binormal_scores_are_straight_lines_on_det_axes() -> None:
    drawn = det_figure([binormal("raw", 1.5)], targets=[1e-4], key="k", title="t")
    xy = points_of(drawn, "curve c-raw")
    (x0, y0), (x1, y1) = xy[0], xy[-1]
    assert len(xy) > 50
    for x, y in xy:
        assert y == pytest.approx(y0 + (y1 - y0) * (x - x0) / (x1 - x0), abs=0.05)


def test_an_attacker_who_guesses_lies_on_the_guessing_line() -> None:
    drawn = det_figure([binormal("raw", 0.0)], targets=[1e-4], key="k", title="t")
    (x0, y0), (x1, y1) = points_of(drawn, "chance")
    for x, y in points_of(drawn, "curve c-raw"):
        assert y == pytest.approx(y0 + (y1 - y0) * (x - x0) / (x1 - x0), abs=0.1)


def test_a_better_attacker_lies_lower_and_the_first_curve_is_on_top() -> None:
    drawn = det_figure([binormal("raw", 2.0), binormal("isp", 1.0)], targets=[], key="k", title="t")
    raw = points_of(drawn, "curve c-raw")
    isp = dict(points_of(drawn, "curve c-isp"))
    shared = [(y, isp[x]) for x, y in raw if x in isp]
    assert len(shared) > 50
    assert all(worse > better for worse, better in shared)  # pixels grow downwards
    assert drawn.index("curve c-raw") > drawn.index("curve c-isp")


def test_the_unsupported_region_is_hatched_and_the_curve_faint_there() -> None:
    drawn = det_figure([binormal("raw", 1.5, floor=1e-4)], targets=[1e-4], key="k", title="t")
    edge = float(re.search(r'<line x1="([\d.]+)"[^>]*class="floor"', drawn)[1])
    assert 'fill="url(#k-h)"' in drawn
    assert "not supported" in drawn
    assert min(x for x, _ in points_of(drawn, "curve c-raw")) >= edge - 1e-6
    assert max(x for x, _ in points_of(drawn, "curve frail c-raw")) <= edge + 2
    clean = det_figure([binormal("raw", 1.5, floor=0.0)], targets=[1e-4], key="k", title="t")
    assert 'fill="url(#k-h)"' not in clean


def test_bands_hold_their_curves() -> None:
    curve = binormal("raw", 1.5)
    drawn = det_figure([curve], targets=[], key="k", title="t")
    band = points_of(drawn, "band c-raw")
    half = len(band) // 2
    upper, lower = dict(band[:half]), dict(band[half:])
    for x, y in points_of(drawn, "curve c-raw"):
        if x in upper and x in lower:
            assert upper[x] - 0.02 <= y <= lower[x] + 0.02


def test_long_curves_are_thinned() -> None:
    curve = binormal("raw", 1.5)
    for key in ("far", "fnmr", "fnmr_low", "fnmr_high"):
        curve[key] = [v for v in curve[key] for _ in range(100)]
    drawn = det_figure([curve], targets=[], key="k", title="t")
    assert len(points_of(drawn, "curve c-raw")) < 300


def test_forest_shows_a_bound_without_a_point() -> None:
    summary = make_record(nonmated=200)["summary"]
    point = dict(worst(summary, release="raw", far=1e-4), tar=0.0777, tar_high=0.123)
    drawn = forest_figure([point], far=1e-4, key="f").replace("\N{NO-BREAK SPACE}", " ")
    assert "≤ 12.3 %" in drawn
    assert "7.8 %" not in drawn
    assert "<circle" not in drawn


def test_forest_places_points_by_their_logarithm() -> None:
    summary = make_record()["summary"]
    base = worst(summary, release="raw", far=1e-4)
    # Three points a factor of ten apart are evenly spaced.
    drawn = forest_figure(
        [dict(base, tar=t, tar_low=t / 2, tar_high=t * 2) for t in (0.001, 0.01, 0.1)], far=1e-4, key="f"
    )
    x = [float(v) for v in re.findall(r'<circle cx="([\d.]+)"', drawn)]
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.02)


def test_rank_curve_marks_the_audited_rank_only_inside_its_range() -> None:
    points = make_record()["rank_curve"]
    assert "audited: 144" in rank_figure(points, chosen=144, key="r")
    assert "audited" not in rank_figure(points, chosen=900, key="r")
    assert "audited" not in rank_figure(points, chosen=None, key="r")


def test_rank_curve_has_two_panels_and_one_axis_title_each() -> None:
    drawn = rank_figure(make_record()["rank_curve"], chosen=144, key="r")
    assert drawn.count(">TAR (%)<") == 1
    assert drawn.count(">kept (%)<") == 1
    assert drawn.count(">rank: dimensions removed<") == 1


def test_power_marks_what_was_missed_hollow() -> None:
    power = make_record()["power"]
    drawn = power_figure(power, key="p")
    assert drawn.count("mark c-isp hollow") == sum(not p["caught"] for p in power["points"])
    assert drawn.count('mark c-isp"') == sum(p["caught"] for p in power["points"])


def test_maps_show_every_image_once() -> None:
    item = make_extras().maps[0]
    picked = picked_out([item])
    drawn = map_figure(item, picked=picked, key="m")
    assert len(picked) == 8
    assert drawn.count("h0") == 400 - 8 * 20
    assert drawn.count('class="mark c-m') == 8 * 20


def test_map_keeps_the_aspect_and_survives_one_point() -> None:
    from dataclasses import replace

    import numpy as np

    item = make_extras().maps[0]
    wide = replace(item, xy=np.array([[0.0, 0], [10, 0], [10, 1]]), identity=np.array(["a", "b", "c"]))
    at = [(float(x), float(y)) for x, y in re.findall(r"M([\d.]+) ([\d.]+)h0", map_figure(wide, picked=[], key="m"))]
    assert at[1][0] - at[0][0] == pytest.approx(10 * (at[1][1] - at[2][1]), abs=0.1)
    one = replace(item, xy=np.zeros((1, 2)), identity=np.array(["a"]))
    assert "nan" not in map_figure(one, picked=["a"], key="m")


def test_highlighted_people_have_the_most_images_with_ties_by_name() -> None:
    from dataclasses import replace

    import numpy as np

    item = make_extras().maps[0]
    names = np.array(["b", "a", "a", "c"])
    assert picked_out([replace(item, xy=np.zeros((4, 2)), identity=names)]) == ["a", "b", "c"]
    assert picked_out([]) == []


def test_det_panels_draw_or_count_every_curve() -> None:
    for record in (make_record(), *degenerate().values()):
        found = panels.det_panels(record)
        assert (found.main is None) == (not record["curves"])
        assert found.left_out >= 0
    whole = panels.det_panels(make_record())
    assert [panel.title.split(",")[0] for panel in whole.small] == ["ridge", "ridge", "cosine"]
    assert whole.left_out == 0


def test_det_panels_collect_leftover_curves_by_release() -> None:
    record = make_record()
    # As a real audit does: cosine everywhere, and one learning attacker that differs by release.
    record["curves"] = [
        c
        for c in record["curves"]
        if c["trained_on"] is None or (c["trained_on"] == "fit") == (c["release"] in {"raw", "pca"})
    ]
    found = panels.det_panels(record)
    assert found.left_out == 0
    assert any(panel.title == "Next worst attacker on each release" for panel in found.small)


def test_pictures_have_a_title_a_description_and_a_role() -> None:
    drawn = rank_figure(make_record()["rank_curve"], chosen=None, key="r")
    assert 'role="img"' in drawn
    assert 'aria-labelledby="r-t r-d"' in drawn
    assert '<title id="r-t">' in drawn
    assert '<desc id="r-d">' in drawn
