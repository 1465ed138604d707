"""`python -m hwd.testing.crashes --kills 500 --seed 1` runs crashes of the real daemon, checked from outside.

Progress goes to stderr, one line a second or more; each breach of a rule gets a line on stdout. Exit status 1 where
there is one. The plan of a seed is the same each time; what the machine makes of it in time is not.
"""

import argparse
import sys

import typer

from hwd.daemon.process_main import run_until_stopped
from hwd.testing.crashes.campaign import campaign
from hwd.testing.crashes.plan import draw_lives
from hwd_drivers.core.clock import SystemClock


async def crash(kills: int, seed: int) -> int:
    clock = SystemClock()
    began_ns = shown_ns = clock.monotonic_ns()
    shown = 0
    async with campaign() as one:
        for life in draw_lives(seed, kills):
            await one.live(life)
            for broken in one.broken[shown:]:
                typer.echo(f"{broken}\n  {life}")
            shown = len(one.broken)
            now_ns = clock.monotonic_ns()
            if now_ns - shown_ns > 1e9 or life.number + 1 == kills:
                shown_ns, took_s = now_ns, (now_ns - began_ns) / 1e9
                typer.echo(
                    f"{life.number + 1} of {kills} kills in {took_s:.0f} s, {shown} breaches of a rule", err=True
                )
        await one.finish()
        for broken in one.broken[shown:]:
            typer.echo(str(broken))
        for how, count in sorted(one.died_at.items()):
            typer.echo(f"{count:5} died {how}", err=True)
    if one.broken:
        typer.echo(f"again: make crashes KILLS={kills} SEED={seed}")
    return 1 if one.broken else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m hwd.testing.crashes", description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    status = 1

    async def run() -> None:
        nonlocal status
        status = await crash(arguments.kills, arguments.seed)

    run_until_stopped(run())  # a signal ends the rack and the broker too
    return status


if __name__ == "__main__":
    sys.exit(main())
