"""The paper's tables (arXiv 2604.05296) on any embeddings, and the errors that arithmetic finds in the printed ones."""

from faceblind.audit.papers.check import check_printed
from faceblind.audit.papers.files import save_tables
from faceblind.audit.papers.orders import Slip
from faceblind.audit.papers.printed import Printed, printed_paper
from faceblind.audit.papers.protocol import Protocol
from faceblind.audit.papers.records import from_csv, records, to_csv
from faceblind.audit.papers.run import Reproduced, reproduce

__all__ = [
    "Printed",
    "Protocol",
    "Reproduced",
    "Slip",
    "check_printed",
    "from_csv",
    "printed_paper",
    "records",
    "reproduce",
    "save_tables",
    "to_csv",
]
