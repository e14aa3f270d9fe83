"""Tables of embeddings in files: open, read, inspect, write."""

from faceblind.data.tables.api import open_table, read_table, read_with_findings, write_table
from faceblind.data.tables.inspection import Inspector
from faceblind.data.tables.table import Batch, EmbeddingTable
from faceblind.data.tables.writers import TableWriter, open_writer

__all__ = [
    "Batch",
    "EmbeddingTable",
    "Inspector",
    "TableWriter",
    "open_table",
    "open_writer",
    "read_table",
    "read_with_findings",
    "write_table",
]
