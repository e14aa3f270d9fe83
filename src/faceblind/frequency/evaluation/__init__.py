"""Verification protocols: ten folds, templates, and exact TAR at FAR over people."""
