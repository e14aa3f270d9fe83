"""Taking a projector to the data: streaming fit and apply over tables of any size."""

from faceblind.deploy.apply import ApplyReport, apply_table
from faceblind.deploy.fit import fit_table

__all__ = ["ApplyReport", "apply_table", "fit_table"]
