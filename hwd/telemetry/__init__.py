"""Metrics, from documents only."""

from hwd.telemetry.budget import Budget
from hwd.telemetry.exposition import Exposition
from hwd.telemetry.metrics import Metrics

__all__ = ["Budget", "Exposition", "Metrics"]
