"""Draws the plan of a world from a seed."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from hwd.sim import plan
from hwd.sim.racks import RACKS, Rack
from hwd.sim.world import DAEMON, agent_node
from hwd_drivers.core.ids import Draws

TRUNKS_SHARE: Final = 0.25
"""The share of the seeds whose rack has links over trunks, which move in several steps."""
LASTS_S: Final = 12.0
"""The time in which operators act and things befall the world; then all faults end."""
DEEDS: Final = (3, 8)
TROUBLES: Final = (0, 4)
SETS_ONE_IN: Final = 4
"""The number of worlds of which one is about a prepared set."""
JOBS_ONE_IN: Final = 3
"""The number of worlds of which one has jobs."""
ONE_IN: Final = (0, 200, 40, 10)
"""How seldom a step of a task is overtaken; 0: never."""


def draw_plan(seed: int) -> plan.WorldPlan:
    """The plan of this seed."""
    draws = Draws(seed)
    draw, order = draws.stream("plan"), draws.stream("order of moves")
    rack = RACKS[draw.choice(("host-owned", "one-switch", "two-switches"))]
    if order.random() < TRUNKS_SHARE:
        rack = RACKS["trunks"]
    of_sets = draws.stream("sets")
    is_of_sets = of_sets.random() * SETS_ONE_IN < 1
    times = sorted(draw.uniform(0.0, LASTS_S) for _ in range(draw.randint(*DEEDS)))
    if is_of_sets:
        times = sorted([*times, *(of_sets.uniform(0.0, LASTS_S) for _ in range(draw.randint(*DEEDS)))])
    acts: list[tuple[float, plan.AnyAct]] = []
    numbers: dict[type[object], list[int]] = {}
    steps: list[plan.Step] = []
    for at_s in times:
        deed = _deed_of_sets(of_sets, rack, numbers) if is_of_sets else _deed(draw, rack, numbers)
        act = _stepped(order, deed)
        numbers.setdefault(type(act), []).append(len(steps))
        steps.append(plan.Step(number=len(steps), at_s=round(at_s, 3), act=act))
    for _ in range(draw.randint(*TROUBLES)):
        near_s = draw.choice(times) + draw.choice((0.0, draw.uniform(0.0, 0.3)))  # most is at stake during a deed
        at_s = draw.choice((near_s, near_s, draw.uniform(0.0, LASTS_S)))
        acts.append((at_s, _trouble(draw, rack)))

    def add(some: Iterable[tuple[float, plan.AnyAct]]) -> None:
        for at_s, act in some:
            steps.append(plan.Step(number=len(steps), at_s=round(at_s, 3), act=act))

    add(acts)
    add(_claims(draws.stream("claims"), rack, first=len(steps), times=times))
    add(_transfers(draws.stream("transfers"), rack, first=len(steps), times=times))
    add(_jobs(draws.stream("jobs"), rack, first=len(steps)))
    add(_killed_planes(draws.stream("planes"), steps))
    steps.sort(key=lambda step: (step.at_s, step.number))
    return plan.WorldPlan(seed=seed, rack=rack.name, steps=tuple(steps), one_in=draw.choice(ONE_IN))


def _deed(draw: random.Random, rack: Rack, earlier: dict[type[object], list[int]]) -> plan.AnyAct:
    """`earlier`: the numbers of the steps before, by kind: most deeds are about one of them."""
    applies, leases, runs = (earlier.get(kind, []) for kind in (plan.Apply, plan.TakeLease, plan.RunPlaybook))
    choices: list[tuple[int, Callable[[], plan.AnyAct]]] = [
        (8, lambda: _apply(draw, rack, leases)),
        (2, lambda: _lease(draw, rack)),
        (2, lambda: _run(draw, rack)),
    ]
    if applies:
        choices += [
            (4, lambda: plan.Confirm(of=draw.choice(applies[-2:]))),
            (3, lambda: plan.RollBack(of=draw.choice(applies[-2:]))),
            (1, lambda: plan.GiveUp(of=draw.choice(applies))),
        ]
    if leases:
        choices.append((1, lambda: plan.ReleaseLease(of=draw.choice(leases))))
    if runs:
        choices.append((2, lambda: plan.AbortRun(of=draw.choice(runs))))
    if rack.owned:
        choices.append((6, lambda: _select(draw, rack)))
        choices.append((3, lambda: plan.TakeBackSwitch(switch=draw.choice([*rack.owners]))))
    if earlier.get(plan.TakeBackSwitch):
        choices.append((2, lambda: plan.GrantSwitch(switch=draw.choice([*rack.owners]))))
    return _one_of(draw, choices)


def _one_of(draw: random.Random, choices: Sequence[tuple[int, Callable[[], plan.AnyAct]]]) -> plan.AnyAct:
    (make,) = draw.choices([make for _, make in choices], weights=[weight for weight, _ in choices])
    return make()


def _stepped(draw: random.Random, act: plan.AnyAct) -> plan.AnyAct:
    """Every other apply goes in steps; drawn apart, so that the rest of a seed is the same without it."""
    steps = draw.random() < 0.5
    return replace(act, steps=steps) if isinstance(act, plan.Apply | plan.RunPlaybook) else act


def _deed_of_sets(draw: random.Random, rack: Rack, earlier: dict[type[object], list[int]]) -> plan.AnyAct:
    """Draw a deed in a world that is about a prepared set: its lease, the set, then mostly its switches."""
    leases, sets, switches = (earlier.get(kind, []) for kind in (plan.TakeLease, plan.PrepareSet, plan.SwitchSet))
    if not leases:
        return plan.TakeLease(ports=("all",), for_s=draw.choice((5.0, 30.0, 30.0)))
    if not sets:
        return _set(draw, rack, leases)
    choices: list[tuple[int, Callable[[], plan.AnyAct]]] = [
        (14, lambda: plan.SwitchSet(of=sets[-1], target=draw.choice(("t0", "t1", "t0", "t1", "before")))),
        (1, lambda: plan.ReleaseSet(of=draw.choice(sets))),
        (1, lambda: plan.ReleaseLease(of=draw.choice(leases))),
        (1, lambda: plan.KickLease(of=draw.choice(leases))),
        (1, lambda: plan.TakeLease(ports=("all",), for_s=30.0)),
        (2, lambda: _set(draw, rack, leases)),
        (1, lambda: _apply(draw, rack, leases)),
    ]
    if switches:
        choices += [
            (2, lambda: plan.RollBack(of=switches[-1])),
            (1, lambda: plan.GiveUp(of=draw.choice(switches))),
        ]
    return _one_of(draw, choices)


def _set(draw: random.Random, rack: Rack, leases: list[int]) -> plan.PrepareSet:
    return plan.PrepareSet(
        wanted=tuple(draw.sample(rack.wanted, 2)),
        lease=leases[-1],
        rule=draw.choice(("finish", "finish", "before", "t0")),
        for_s=draw.choice((None, None, None, 4.0)),
        ready_within_s=draw.choice((None, None, 2.0)),
    )


def _apply(draw: random.Random, rack: Rack, leases: list[int]) -> plan.Apply:
    return plan.Apply(
        what=draw.choice(rack.wanted),
        lease=draw.choice([None, *leases]),
        ready_within_s=draw.choice((None, None, 2.0)),
        confirm_within_s=draw.choice((None, 0.5, 2.0)),
    )


def _lease(draw: random.Random, rack: Rack) -> plan.TakeLease:
    switch = draw.choice(rack.driven_switches)
    ports = [f"{switch}.{number}" for number in range(1, 7)] + sorted(rack.attached.values())
    chosen = draw.sample(ports, draw.randint(1, 4))
    return plan.TakeLease(ports=tuple(draw.choice((chosen, ["all"]))), for_s=draw.choice((1.0, 4.0, 30.0)))


def _run(draw: random.Random, rack: Rack) -> plan.RunPlaybook:
    return plan.RunPlaybook(
        wanted=tuple(draw.choice(rack.wanted) for _ in range(draw.randint(1, 2))), mtu=draw.choice((None, None, 9000))
    )


def _claims(draw: random.Random, rack: Rack, *, first: int, times: list[float]) -> list[tuple[float, plan.AnyAct]]:
    """Who waits for leases and reserves them, and who restores the rack, in half of the worlds. `first`: the number of
    the first of these steps.
    """
    acts: list[tuple[float, plan.AnyAct]] = []
    ends_s: list[tuple[int, float]] = []
    for _ in range(draw.choice((0, draw.randint(1, 5)))):
        at_s = max(0.0, draw.choice((draw.choice(times) + draw.uniform(-0.3, 1.5), draw.uniform(0.0, LASTS_S))))
        if draw.random() < 0.3:
            some = draw.sample(sorted([*rack.attached.values(), *rack.driven_switches]), 1)
            ports = tuple(draw.choice(([], some)))
            acts.append((at_s, plan.Apply(what=draw.choice(rack.wanted))))
            at_s += draw.uniform(0.5, 2.0)
            if draw.random() < 0.8:
                acts.append((at_s, plan.TwinFault(fault=_lost(draw, rack), for_s=0.2)))
            at_s += draw.uniform(0.0, 2.0)
            acts.append((at_s, plan.Restore(ports=ports, confirm_within_s=draw.choice((None, None, 1.0)))))
            continue
        lease = first + len(acts)
        in_s = draw.choice((None, round(draw.uniform(0.3, 5.0), 3)))
        terms = replace(
            _lease(draw, rack),
            for_s=draw.choice((1.0, 2.0, 4.0)),
            queue=in_s is None,
            priority=draw.choice((0, 0, 5)) if in_s is None else 0,
            in_s=in_s,
            heartbeat_s=draw.choice((None, None, 1.0)),
        )
        acts.append((at_s, terms))
        then_s = at_s + (in_s or 0.0) + draw.uniform(0.0, 2.0)
        if draw.random() < 0.4:
            acts.append((then_s, plan.Apply(what=draw.choice(rack.wanted), lease=lease, confirm_within_s=1.0)))
        ends_s.append((lease, at_s + (in_s or 0.0) + terms.for_s))
        if draw.random() < 0.4:
            acts.append((then_s, draw.choice((plan.ReleaseLease, plan.KickLease))(of=lease)))
    for _ in range(draw.randint(0, 4) if ends_s else 0):
        of, own_s = draw.choice(ends_s)
        near_s = draw.choice((own_s, draw.choice(ends_s)[1]))  # where it ends itself, or another does
        end = draw.choice(
            (plan.RenewLease(of=of, for_s=2.0), plan.HearLease(of=of), plan.ReleaseLease(of=of), plan.KickLease(of=of))
        )
        acts.append((max(0.0, near_s + draw.uniform(-0.03, 0.03)), end))
    return acts


def _lost(draw: random.Random, rack: Rack) -> dict[str, Any]:
    """A front panel takes ends of crossconnects that may be desired."""
    ends = range(1, 5)
    pairs = [f"{source}A-{target}B" for source, target in zip(draw.sample(ends, 2), draw.sample(ends, 2), strict=True)]
    return {"switch": draw.choice(rack.driven_switches), "fault": "panel", "add": pairs}


def _transfers(draw: random.Random, rack: Rack, *, first: int, times: list[float]) -> list[tuple[float, plan.AnyAct]]:
    """Ranks that claim and end, in half of the worlds, some close to what operators do; and applies that wait for them.
    `first`: the number of the first of these steps.
    """
    acts: list[tuple[float, plan.AnyAct]] = []
    for _ in range(draw.choice((0, draw.randint(1, 5)))):
        at_s = max(0.0, draw.choice((draw.choice(times) + draw.uniform(-0.3, 1.5), draw.uniform(0.0, LASTS_S))))
        host = draw.choice(sorted(rack.testbed.hosts))
        port = draw.choice(rack.testbed.hosts[host].ports).id.port
        within_s, wait_s = draw.choice((0.5, 3.0, 10.0)), draw.choice((0.0, 0.0, 1.0, 4.0))
        claim = first + len(acts)
        acts.append((at_s, plan.Claim(host=host, port=port, within_s=within_s, wait_s=wait_s)))
        if draw.random() < 0.8:
            acts.append((at_s + draw.uniform(0.0, within_s), plan.EndTransfer(of=claim, dies=draw.random() < 0.3)))
        if draw.random() < 0.5:
            apply = plan.Apply(
                what=draw.choice(rack.wanted),
                confirm_within_s=draw.choice((None, 1.0)),
                drain_within_s=draw.choice((None, 0.5, 5.0)),
            )
            acts.append((at_s + draw.choice((0.0, draw.uniform(0.0, 1.0))), apply))
    return acts


def _jobs(draw: random.Random, rack: Rack, *, first: int) -> list[tuple[float, plan.AnyAct]]:
    """Draw the jobs of one in `JOBS_ONE_IN` worlds, early, so that their ports are free, and who dies under them."""
    acts: list[tuple[float, plan.AnyAct]] = []
    if rack.owned or draw.random() * JOBS_ONE_IN >= 1:
        return acts
    for _ in range(draw.choice((1, 1, 1, 2))):
        at_s, job = draw.uniform(0.0, 2.0), first + len(acts)
        acts.append((at_s, plan.RunJob(collectives=draw.randint(1, 5), seconds=draw.choice((0.02, 0.2, 1.0)))))
        if draw.random() < 0.25:
            acts.append((at_s + draw.uniform(0.0, 3.0), plan.StopJob(of=job)))
        for _ in range(draw.choice((0, 0, 1, 1, 2))):
            node = draw.choice([DAEMON, DAEMON, *map(agent_node, rack.testbed.hosts)])
            kill = plan.Kill(node=node, callbacks=draw.randint(1, 200), away_s=draw.choice((0.0, 0.5, 3.0, 6.0)))
            acts.append((at_s + draw.uniform(0.0, 3.0), kill))
    return acts


def _killed_planes(draw: random.Random, steps: Iterable[plan.Step]) -> list[tuple[float, plan.AnyAct]]:
    """Kill the planes of some of the jobs, while they run."""
    jobs = [step for step in steps if isinstance(step.act, plan.RunJob) and draw.random() < 0.2]
    return [(job.at_s + draw.uniform(0.0, 4.0), plan.KillPlane(of=job.number)) for job in jobs]


def _select(draw: random.Random, rack: Rack) -> plan.Select:
    return plan.Select(
        host=draw.choice(sorted(rack.owned)), output=draw.randint(1, 3), within_s=draw.choice((0.05, 1.0))
    )


def _trouble(draw: random.Random, rack: Rack) -> plan.AnyAct:
    hosts = [*rack.testbed.hosts]
    nodes = [DAEMON, DAEMON, *map(agent_node, hosts)]
    for_s = draw.choice((0.2, 1.0, 4.0))
    choices: list[tuple[int, Callable[[], plan.AnyAct]]] = [
        (
            6,
            lambda: plan.Kill(
                node=draw.choice(nodes),
                callbacks=draw.choice((1, draw.randint(1, 60), draw.randint(1, 600))),
                away_s=draw.choice((0.0, 0.5, 3.0)),
            ),
        ),
        (1, lambda: plan.StopBroker(for_s=for_s)),
        (2, lambda: plan.CutClient(node=draw.choice(nodes))),
        (1, lambda: plan.RepeatMessages(for_s=for_s)),
        (2, lambda: plan.DelayMessages(by_s=draw.choice((0.01, 0.5, 3.0, 8.0)), for_s=for_s)),
        (8, lambda: plan.TwinFault(fault=_switch_fault(draw, rack), for_s=for_s)),
        (2, lambda: plan.TwinFault(fault=_host_fault(draw, rack), for_s=for_s)),
        (
            3,
            lambda: plan.BadDisk(
                disk=draw.choice(["journal", "journal", *hosts]),
                error=draw.choice(("EIO", "ENOSPC")),
                writes=draw.choice((0, draw.randint(0, 6))),
                for_s=for_s,
            ),
        ),
        (2, lambda: plan.BadDisk(disk="records", error=draw.choice(("EIO", "ENOSPC", "hangs")), writes=0, for_s=for_s)),
    ]
    return _one_of(draw, choices)


def _switch_fault(draw: random.Random, rack: Rack) -> dict[str, Any]:
    switch = draw.choice(rack.driven_switches)
    ends = [f"{draw.randint(1, 4)}{draw.choice('AB')}"]
    fault: dict[str, Any] = draw.choice(
        (
            {"fault": "deny", "code": "SROF"},
            {"fault": "reset"},
            {"fault": "refuse"},
            {"fault": "slow", "seconds": draw.choice((0.2, 2.0, 12.0))},
            {"fault": "silent"},
            {"fault": "half"},
            {"fault": "garble"},
            {"fault": "wrong"},
            {"fault": "partial", "pairs": draw.randint(0, 3)},
            {"fault": "stick", "ends": ends},
            {"fault": "fail", "ends": ends},
            {"fault": "panel", "add": [f"{draw.randint(1, 4)}A-{draw.randint(1, 8)}B"]},
            {"fault": "reboot", "seconds": draw.choice((0.2, 2.0))},
        )
    )
    return {"switch": switch, **fault}


def _host_fault(draw: random.Random, rack: Rack) -> dict[str, Any]:
    host = draw.choice(sorted(rack.testbed.hosts))
    port = draw.choice(rack.testbed.hosts[host].ports).id
    fault: dict[str, Any] = draw.choice(
        (
            {"host": host, "fault": "clock-step", "seconds": draw.choice((-3600.0, -1.0, 0.5, 3600.0))},
            {"port": port, "fault": "unplug"},
            {"port": port, "fault": "cut"},
            {"port": port, "fault": "flap", "times": draw.randint(1, 4)},
            {"port": port, "fault": "stuck-phy"},
        )
    )
    return fault
