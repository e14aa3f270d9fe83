"""Faces in images: detection, five-point alignment, and synthetic people to audit with, so that no real face is needed."""
