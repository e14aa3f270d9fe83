"""``python -m faceblind``."""

from faceblind.cli import main

raise SystemExit(main())
