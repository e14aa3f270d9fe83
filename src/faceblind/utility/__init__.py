"""Utilities: what released vectors are still of use for."""

from faceblind.utility.neighbours import nearest, neighbour_overlap

__all__ = ["nearest", "neighbour_overlap"]
