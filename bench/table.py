"""The table of the results: for the terminal, for `results.json`, and for the README between its marks."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.measure import Bar

HEAD = ("measured", "value", "limit", "met", "n", "spread")
BEGIN, END = "<!-- results: written by `make bench` -->", "<!-- end of results -->"
Results = Mapping[str, Mapping[str, Any]]
"""By the name of the measurement: the machine that it ran on, and its bars as data."""


def machine() -> str:
    """This machine and its load, in words."""
    load = os.getloadavg()[0]
    system = f"{platform.machine()}, Linux {platform.release()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {system}, load {load:.1f}"


def result(bars: Sequence[Bar], here: str) -> Mapping[str, Any]:
    return {"machine": here, "bars": [{**asdict(bar), "met": bar.met} for bar in bars]}


def table(results: Results) -> str:
    """The table for a terminal."""
    rows = [HEAD, *(_row(bar) for one in results.values() for bar in one["bars"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    ]
    return "\n".join([*lines, "", *_machines(results)])


def markdown(results: Results) -> str:
    """The table for the README, in Markdown."""
    rows = [HEAD, tuple("---" for _ in HEAD), *(_row(bar) for one in results.values() for bar in one["bars"])]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, "", *(f"{line}  " for line in _machines(results))])


def keep(path: Path, readme: Path, results: Results, order: Sequence[str]) -> None:
    """Replace the lines of these measures in the results of earlier runs, and write the README's table from all."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    both = {**kept, **results}
    whole = {name: both[name] for name in order if name in both}
    path.write_text(json.dumps(whole, indent=2) + "\n")
    head, found, rest = readme.read_text().partition(BEGIN)
    _, closed, tail = rest.partition(END)
    if not found or not closed:
        raise ValueError(f"{readme}: no place for the results: it lacks the line {END if found else BEGIN}")
    readme.write_text(f"{head}{BEGIN}\n{markdown(whole)}\n{END}{tail}")


def _machines(results: Results) -> list[str]:
    """One line per machine: the measurements that ran on it."""
    places: dict[str, list[str]] = {}
    for name, one in results.items():
        places.setdefault(one["machine"], []).append(name)
    return [f"{', '.join(names)}: on {place}" for place, names in places.items()]


def _row(bar: Mapping[str, Any]) -> tuple[str, ...]:
    if bar["limit"] is None:
        return bar["name"], _figure(bar["value"], bar["unit"]), "", "", str(bar["n"]), bar["spread"]
    sign = ">=" if bar["at_least"] else "<="
    return (
        bar["name"],
        _figure(bar["value"], bar["unit"]),
        f"{sign} {_figure(bar['limit'], bar['unit'])}",
        "yes" if bar["met"] else "NO",
        str(bar["n"]),
        bar["spread"],
    )


def _figure(value: float, unit: str) -> str:
    return f"{value:.2f}x" if unit == "x" else f"{value:.4g} {unit}".rstrip()
