"""The table of a run of the bench, and its file."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.measure import Bar

HEAD = ("measured", "value", "limit", "met", "n", "spread")


def machine() -> str:
    """What was measured on, and how busy it was."""
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}, Python {platform.python_version()}, load {load:.1f}"


def table(bars: Sequence[Bar], here: str) -> str:
    rows = [HEAD, *(_row(bar) for bar in bars)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    ]
    return "\n".join([*lines, "", f"on {here}"])


def write(path: Path, bars: Sequence[Bar], here: str) -> None:
    path.write_text(
        json.dumps({"machine": here, "bars": [{**asdict(bar), "met": bar.met} for bar in bars]}, indent=2) + "\n"
    )


def _row(bar: Bar) -> tuple[str, ...]:
    if bar.limit is None:
        return bar.name, _figure(bar.value, bar.unit), "", "", str(bar.n), bar.spread
    sign = ">=" if bar.at_least else "<="
    return (
        bar.name,
        _figure(bar.value, bar.unit),
        f"{sign} {_figure(bar.limit, bar.unit)}",
        "yes" if bar.met else "NO",
        str(bar.n),
        bar.spread,
    )


def _figure(value: float, unit: str) -> str:
    return f"{value:.2f}x" if unit == "x" else f"{value:.4g} {unit}"
