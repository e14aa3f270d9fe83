"""The report of an audit as one offline HTML file, a view of the JSON record."""

from __future__ import annotations

from faceblind.audit.report.build import build_extras
from faceblind.audit.report.extras import Map, Neighbour, NeighbourRow, Picture, ReportExtras
from faceblind.audit.report.render import render_html

__all__ = ["Map", "Neighbour", "NeighbourRow", "Picture", "ReportExtras", "build_extras", "render_html"]
