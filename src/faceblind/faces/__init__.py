"""Faces in images: synthetic people to audit with, so that no real face is ever needed."""
