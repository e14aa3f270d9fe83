"""Attacks on releases: what each of them recovers, and what it must hold for that."""
