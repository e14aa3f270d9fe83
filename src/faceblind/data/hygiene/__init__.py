"""Hygiene: what is wrong with the data, said before any number is printed.

One duplicated photograph under two names is a non-mated pair with cosine 1: under a correct threshold rule it pushes
the threshold above every mated score and the audit would report that nothing leaks. Labels that are wrong, moved by a
row or split over two names do the same more quietly. What makes the numbers untrustworthy is an error.
"""

from faceblind.data.hygiene.check import check_hygiene
from faceblind.data.hygiene.near import EXACT, NEAR
from faceblind.data.hygiene.overlap import identity_overlap
from faceblind.data.hygiene.record import save_findings

__all__ = ["EXACT", "NEAR", "check_hygiene", "identity_overlap", "save_findings"]
