"""The jobs of a run: how long their iterations took, and how much of their light's moves was hidden behind them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hwd.model.run_facts import RunJob
from hwd.report.grouping import swept
from hwd.report.quantity import MISSING, duration
from hwd.timeline.resampling import median_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """Jobs of one entry with the same arguments and sweep values, which are in its name. `seconds`: of their iterations
    but the first one of each, which also connects the ranks; `interval`: of their median, 95 %, by a bootstrap over
    iterations; None below six of them.
    `hidden`: the share of the moves' time that no operation waited for; None where nothing moved.
    """

    name: str
    plane: str
    jobs: int
    n: int
    median_s: float | None
    interval: tuple[float, float] | None
    moves: int
    links: int | None
    hidden: float | None


def job_rows(jobs: Iterable[RunJob]) -> tuple[JobRow, ...]:
    """The rows of jobs in the order in which the first of each began."""
    found: dict[tuple[str, str], list[RunJob]] = {}
    for one in jobs:
        name = " · ".join(filter(None, (" ".join([one.entry, *one.arguments]), swept(one.sweep))))
        found.setdefault((name, one.plane), []).append(one)
    return tuple(_row(name, plane, some) for (name, plane), some in found.items())


def job_figures(row: JobRow) -> dict[str, str]:
    """The figures of a row by the headings of their columns."""
    low, high = row.interval or (None, None)
    return {
        "job": row.name,
        "plane": row.plane,
        "iterations": str(row.n),
        "median": duration(row.median_s),
        "95 % interval": MISSING if low is None else f"{duration(low)} to {duration(high)}",
        "moves": str(row.moves),
        "new links": MISSING if row.links is None else str(row.links),
        "hidden": MISSING if row.hidden is None else f"{row.hidden:.0%}",
    }


def _row(name: str, plane: str, jobs: Sequence[RunJob]) -> JobRow:
    seconds = np.array([value for one in jobs for value in one.seconds[1:]])
    moving_s = sum(one.moving_s for one in jobs)
    links = [one.links for one in jobs]
    return JobRow(
        name=name,
        plane=plane,
        jobs=len(jobs),
        n=len(seconds),
        median_s=float(np.median(seconds)) if len(seconds) else None,
        interval=median_interval(seconds, range(len(seconds))),
        moves=sum(one.moves for one in jobs),
        links=None if None in links else sum(one or 0 for one in links),
        hidden=1 - min(1.0, sum(one.held_s for one in jobs) / moving_s) if moving_s else None,
    )
