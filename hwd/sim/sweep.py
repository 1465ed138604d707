"""Plays the worlds of many seeds, in processes of their own.

    python -m hwd.sim.sweep --seeds 10000 --workers 2

Progress goes to stderr, one line a second or more; each seed that breaks a rule gets a line on stdout. Exit status 1
where there is one.
"""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import typer

from hwd.sim.draw import draw_plan
from hwd.sim.execution import play
from hwd_drivers.core.clock import Clock, SystemClock

SEEDS_A_TASK: Final = 20
TASKS_A_PROCESS: Final = 10
"""Then another process begins: what a killed node held is never freed."""


def failures(
    *,
    first: int,
    count: int,
    workers: int,
    clock: Clock,
    seeds_a_task: int = SEEDS_A_TASK,
    tasks_a_process: int = TASKS_A_PROCESS,
) -> Iterator[tuple[int, Sequence[str]]]:
    """The seeds from `first` on that break a rule, as they are found, each with a line of each violation; progress goes
    to stderr.
    """
    seeds = range(first, first + count)
    tasks = [seeds[start : start + seeds_a_task] for start in range(0, count, seeds_a_task)]
    began_ns = shown_ns = clock.monotonic_ns()
    done = failed = 0
    # not ProcessPoolExecutor: with max_tasks_per_child that of Python 3.11 stops for ever at the first renewal
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, maxtasksperchild=tasks_a_process) as pool:
        for found, worlds in pool.imap_unordered(broken, tasks):
            done, failed = done + worlds, failed + len(found)
            yield from found.items()
            now_ns = clock.monotonic_ns()
            if now_ns - shown_ns > 1e9 or done == count:
                shown_ns, took_s = now_ns, (now_ns - began_ns) / 1e9
                typer.echo(f"{done} of {count} worlds in {took_s:.0f} s, {failed} break a rule", err=True)


def broken(seeds: Sequence[int]) -> tuple[dict[int, list[str]], int]:
    """Which of the seeds break which rules, and how many were played."""
    found: dict[int, list[str]] = {}
    for seed in seeds:
        if violations := play(draw_plan(seed)).violations:
            found[seed] = [*map(str, violations)]
    return found, len(seeds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m hwd.sim.sweep", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    failed = 0
    found = failures(first=arguments.first, count=arguments.seeds, workers=arguments.workers, clock=SystemClock())
    for seed, lines in found:
        failed += 1
        for line in lines:
            typer.echo(f"seed {seed}: {line}")
        typer.echo(f"again: hwd sim --seed {seed} --shrink")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
