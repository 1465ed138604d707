"""`hwd sim` plays the simulated world of one seed, and tells it."""

from typing import Annotated

import typer

from hwd.cli.options import Json
from hwd.cli.output import Output
from hwd.cli.write_target import busy
from hwd.model.plural import plural

Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Which world; one seed is one world.")]
Shrink = Annotated[
    bool,
    typer.Option("--shrink", help="Where a rule is broken, look for the fewest steps and overtakings that break it."),
]

commands = typer.Typer(rich_markup_mode=None)


@commands.command(epilog="Example: hwd sim --seed 17")
def sim(seed: Seed, shrink: Shrink = False, json: Json = False) -> None:
    """Play a simulated world: a small rack, its operators, and what befalls it, drawn from a seed.

    Times count from the begin of its plan. Where the seed draws so, tasks that could go on wait while others overtake
    them: how often is said, and `departures` of the JSON has the step and the turns of each.

    Exit status: 0 all rules were kept; 1 one was broken.
    """
    from hwd_drivers.core.structs import to_plain

    output = Output(json=json)
    with busy(output, f"playing seed {seed}"):
        from hwd.sim.draw import draw_plan
        from hwd.sim.execution import play
        from hwd.sim.shrink import shrink as shrink_it

        report = play(draw_plan(seed))
    if shrink and report.violations:
        report = shrink_it(report, play, tell=output.note)
    plan = report.plan
    order = f"tasks overtaken {plural(len(report.departures), 'time')}" if report.departures else "no task overtaken"
    output.say(
        f"seed {plan.seed}: rack {plan.rack}, {plural(len(plan.steps), 'step')}, {order}, {report.lasted_s:.1f} s"
    )
    for line in report.story:
        output.say(line)
    for violation in report.violations:
        output.say(f"BROKEN {violation}")
    if not report.violations:
        output.say("all rules are kept")
    output.data(to_plain(report))
    raise typer.Exit(1 if report.violations else 0)
