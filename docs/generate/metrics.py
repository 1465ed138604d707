"""Metrics with type, labels and meaning, from the daemon's registry."""

from docs.generate.pages import code, table
from hwd.telemetry import Metrics
from hwd.telemetry.budget import Budget


def metrics() -> str:
    """The budget does not matter here: no series is made."""
    none = Budget(switches=1, ends=1, hosts=1, ports=1, lanes=1)
    rows = sorted((code(one.name), one.type, ", ".join(one.labels), one.help) for one in Metrics(none))
    return table(("metric", "type", "labels", "means"), rows)
