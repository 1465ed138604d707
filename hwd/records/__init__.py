"""Runs, documents and leases in SQL: SQLite by default, PostgreSQL by URL. No other module knows which."""

from hwd.records.recorder import RecordingSink
from hwd.records.records import Records, StoredDocument

__all__ = ["RecordingSink", "Records", "StoredDocument"]
