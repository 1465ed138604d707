"""A plan on the screen: what moves, what goes dark, its interlocks, and the expected time."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hwd.cli.output import Output, few, seconds
from hwd.model.plural import plural

if TYPE_CHECKING:
    from hwd.model.plan_summary import PlanComposite, PlanMoves, PlanOrder, PlanSummary

SHOWN = 4
"""Subjects of unknown interlocks in one line; the JSON has all."""


def show_plan(output: Output, plan: "PlanSummary") -> None:
    """Show what moves, what goes dark, and the expected time."""
    output.say(f"plan {plan.hash}: {plan.what} ({plan.mode})")
    for composite in plan.composites:
        for line in composite_lines(composite):
            output.say(line)
    for move in plan.moves:
        if plan.composites and not (move.remove or move.add):
            continue  # a composite has many elements, and most do not change
        output.say(f"  {move.switch}: {_changes(move) or 'nothing to do'} ({len(move.keep)} kept)")
    rows = [
        (
            f"  {link.link}",
            "stays" if link.kept else "moves",
            _figure(max, [one.loss_db_max for one in link.circuits], "{:.1f} dB"),
            _figure(min, [one.margin_db for one in link.circuits], "{:+.1f} dB"),
        )
        for link in plan.links
    ]
    if rows:
        output.table(("  link", "", "loss at most", "margin"), rows)
    if plan.order is not None:
        for line in step_lines(plan.order):
            output.say(line)
    if plan.dark:
        output.say(f"  goes dark: {', '.join(plan.dark)}")
    for line in interlock_lines(plan):
        output.say(line)
    if plan.isolation is not None:
        output.say(f"  isolation: {plan.isolation}")
    for warning in plan.warnings:
        output.say(f"  warning: {warning}")
    if plan.empty:
        output.say("  the switches are as wanted; nothing moves")
    else:
        output.say(f"  expected: {seconds(plan.expected_s)} ({plan.expected_from})")
    if plan.prediction is not None:
        output.say(f"  predicted: {plan.prediction}")


def step_lines(order: "PlanOrder") -> list[str]:
    """The steps of a plan, each with the links that are dark in it."""
    lines = [f"  order: {order}"]
    for number, step in enumerate(order.steps, 1):
        moves = "; ".join(f"{move.switch} {_changes(move)}" for move in step.moves)
        lines.append(f"    {number}: {moves}, dark {', '.join(step.dark) or 'none'}")
    if order.why:
        lines.append(f"    why more than one: {order.why}")
    return lines


def interlock_lines(plan: "PlanSummary") -> list[str]:
    """One line for each interlock that refuses or is overridden; the others in one line, by name."""
    from hwd.model.interlock import InterlockState

    lines, others = [], dict[str, list[str]]()
    for one in plan.interlocks:
        if one.state in (InterlockState.REFUSED, InterlockState.OVERRIDDEN):
            lines.append(f"  {one}")
        elif one.state is InterlockState.UNKNOWN:
            others.setdefault(f"{one.name} is unknown", []).append(one.subject)
    holding = dict.fromkeys(one.name for one in plan.interlocks if one.state is InterlockState.HOLDS)
    found = [f"{what} for {few([*dict.fromkeys(subjects)], SHOWN)}" for what, subjects in others.items()]
    names = [name for name in holding if not any(one.name == name and one.state != "holds" for one in plan.interlocks)]
    if names:
        found.insert(0, f"{', '.join(names)} hold{'s' if len(names) == 1 else ''}")
    return [*lines, f"  interlocks: {'; '.join(found)}"] if found else lines


def composite_lines(composite: "PlanComposite") -> list[str]:
    """The moves of a composite, and the elements that each crossconnect uses."""
    moves, least = composite.moves, composite.moves_at_least
    proof = "" if moves == least else f", at least {least} must"
    dark = composite.darkened
    does = f"{plural(moves, 'element move')}{proof}" if moves or not dark else ""
    if dark:
        does += f"{', ' if does else ''}{plural(dark, 'element')} go{'es' if dark == 1 else ''} dark"
    head = f"  {composite.composite}: {_changes(composite) or 'nothing to do'} ({len(composite.keep)} kept), {does}"
    return [head, *(f"    {one} through {' '.join(elements)}" for one, elements in composite.through.items())]


def _changes(move: "PlanMoves | PlanComposite") -> str:
    return " ".join([*(f"-{one}" for one in move.remove), *(f"+{one}" for one in move.add)])


def _figure(worst: Callable[[list[float]], float], values: list[float], form: str) -> str:
    return form.format(worst(values)) if values else ""
