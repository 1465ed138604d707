"""Runs as files for other programs: `jsonl`, `csv`, `parquet`, `perfetto`, `bluesky`.

Each takes a run and its documents, and needs a bounded amount of memory.
"""

from hwd.report.export.event_model import bluesky
from hwd.report.export.json_lines import jsonl, read_jsonl
from hwd.report.export.rows import COLUMNS, Column, rows
from hwd.report.export.table import csv, parquet
from hwd.report.export.trace import perfetto

__all__ = ["COLUMNS", "Column", "bluesky", "csv", "jsonl", "parquet", "perfetto", "read_jsonl", "rows"]
