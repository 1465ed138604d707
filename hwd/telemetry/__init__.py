"""Metrics, from documents only."""

from hwd.telemetry.metrics import CONTENT_TYPE, Metrics

__all__ = ["CONTENT_TYPE", "Metrics"]
