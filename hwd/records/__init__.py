"""Runs, documents and leases in SQL: SQLite by default, PostgreSQL by URL. No other module knows which."""

from hwd.records.recorder import RecordingSink
from hwd.records.records import Records, Stored
from hwd.records.run import Run, RunOutcome

__all__ = ["RecordingSink", "Records", "Run", "RunOutcome", "Stored"]
