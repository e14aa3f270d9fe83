"""Utilities: what released vectors are still of use for."""

from faceblind.utility.neighbours import neighbour_overlap, nearest

__all__ = ["nearest", "neighbour_overlap"]
