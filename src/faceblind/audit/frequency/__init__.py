"""The report of the frequency half: what still recognises faces, and what attacks read out of the releases.

`write_report` joins the records of model folders into one offline page, with the numbers of DCTDP (arXiv 2207.07316)
beside ours and marked as the paper's.
"""

from __future__ import annotations

from faceblind.audit.frequency.record import Model, read_models
from faceblind.audit.frequency.render import render_report, write_report
from faceblind.audit.frequency.verdict import Verdict, verdict_of

__all__ = ["Model", "Verdict", "read_models", "render_report", "verdict_of", "write_report"]
