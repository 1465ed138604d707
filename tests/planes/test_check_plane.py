"""The suite lets planes pass that keep the rules, and finds those that do not, each by its breach."""

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hwd.config.planes import installed as planes
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import (
    Action,
    Applied,
    Demand,
    Done,
    Event,
    Failure,
    Fallback,
    Grant,
    Intent,
    Job,
    NotReady,
    Plane,
    Prepare,
    Recovery,
    Refuse,
    Route,
    StaticRoute,
    Switch,
    Target,
    View,
)
from hwd.planes import Breach, Gathering, PlaneError
from hwd.planes.static import Static
from hwd.testing.check_plane import check_plane
from hwd_drivers.core.errors import ConfigError

from .conftest import EXAMPLE

JOBS = 40
Spoil = Callable[[Event, list[Action]], Iterable[Action]]


class Spoilt:
    """The rotor, with something done to its targets, or to what it answers."""

    def __init__(
        self,
        rotor: Any,
        *,
        targets: Callable[[dict[str, Target], View], dict[str, Target]] = lambda targets, view: targets,
        actions: Spoil = lambda event, actions: actions,
    ) -> None:
        self._rotor = rotor
        self._targets = targets
        self._actions = actions

    def targets(self, job: Job, view: View) -> Mapping[str, Target]:
        return self._targets(self._rotor.targets(job, view), view)

    def on(self, event: Event) -> Iterable[Action]:
        return self._actions(event, [*self._rotor.on(event)])


class PerDemand:
    """Prepares a target when it is asked for, since it cannot list them; each time another one."""

    def targets(self, job: Job, view: View) -> Mapping[str, Target]:
        self._links, self._gathering = view.topology("ring"), Gathering(job.groups)
        self._count = 0
        self._sending: set[int] = set()
        self._held: list[int] = []
        self._moving = False
        return {}

    def on(self, event: Event) -> Iterator[Action]:
        match event:
            case Intent():
                self._held += self._gathering.come(event)
            case Done(rank=rank):
                self._sending.discard(rank)
            case Applied():
                self._moving = False
                held, self._held = self._held, []
                self._sending.update(held)
                if held:
                    yield Grant(ranks=tuple(held))
                return
            case NotReady(why=why):
                self._moving = False
                held, self._held = self._held, []
                if held:
                    yield Refuse(ranks=tuple(held), why=why)
                return
        if self._held and not self._moving and not self._sending:
            self._count += 1
            self._moving = True
            yield Prepare(id=f"demand{self._count}", target=Target(links=self._links))
            yield Switch(target=f"demand{self._count}")


def test_planes_that_keep_the_rules_pass(rotor_plane: ModuleType) -> None:
    assert check_plane(lambda: Static("ring"), jobs=JOBS) == JOBS
    assert check_plane(lambda: rotor_plane.Rotor(0.3), jobs=JOBS) == JOBS
    assert check_plane(PerDemand, jobs=JOBS) == JOBS


def grant_at_once(event: Event, actions: list[Action]) -> Iterator[Action]:
    """Lets the ranks go as soon as it turns the light."""
    yield from actions
    if isinstance(event, Intent) and not any(isinstance(action, Grant) for action in actions):
        yield Grant(ranks=(event.rank,))


class InAHurry(Spoilt):
    """A rotor that does not wait for the end of what it let go."""

    def on(self, event: Event) -> Iterable[Action]:
        self._rotor._sending.clear()
        return super().on(event)


def raising_at(kind: type[Event]) -> Spoil:
    def spoil(event: Event, actions: list[Action]) -> Iterable[Action]:
        if isinstance(event, kind):
            raise KeyError("rank")
        return actions

    return spoil


def by_chance(event: Event, actions: list[Action]) -> Iterable[Action]:
    """The order of the ranks is drawn anew each time."""
    for action in actions:
        if isinstance(action, Grant) and len(action.ranks) > 1:
            yield Grant(ranks=tuple(random.sample(action.ranks, len(action.ranks))))
        else:
            yield action


def doubled(targets: dict[str, Target], view: View) -> dict[str, Target]:
    """A NIC port is in two links."""
    first = targets["slot0"].links[0]
    other = next(port for port in view.ports if port not in first.ends)
    return {**targets, "slot0": Target(links=(first, Link.of(first.a, other)))}


def elsewhere(targets: dict[str, Target], view: View) -> dict[str, Target]:
    """A link to a host of somebody else."""
    stranger = NicPortId(host="h99", port="eth0")
    return {**targets, "slot0": Target(links=(Link.of(next(iter(view.ports)), stranger),))}


def some_of(event: Event, actions: list[Action]) -> Iterable[Action]:
    """Lets one rank of a group go, and forgets the others."""
    return [replace(action, ranks=action.ranks[:1]) if isinstance(action, Grant) else action for action in actions]


def instead(wanted: type[Action], other: Action) -> Spoil:
    def spoil(event: Event, actions: list[Action]) -> Iterable[Action]:
        return [other if isinstance(action, wanted) else action for action in actions]

    return spoil


class OneAfterTheOther(Spoilt):
    """Lets a group go only when every other one has come too: one dead rank holds all."""

    def targets(self, job: Job, view: View) -> Mapping[str, Target]:
        self._missing = {rank.number for rank in job.ranks}
        self._early: list[Event] = []
        return super().targets(job, view)

    def on(self, event: Event) -> Iterable[Action]:
        if isinstance(event, Intent):
            self._missing.discard(event.rank)
        if self._missing and not isinstance(event, Applied | NotReady):
            self._early.append(event)
            return []
        events, self._early = [*self._early, event], []
        return [action for one in events for action in super(OneAfterTheOther, self).on(one)]


def drawn(targets: dict[str, Target], view: View) -> dict[str, Target]:
    """Targets that are others each time."""
    return {**targets, "more": Target(links=(random.sample(targets["slot0"].links, 1)[0],))}


def widened(targets: dict[str, Target], view: View) -> dict[str, Target]:
    """Makes a port of somebody else its own."""
    stranger = NicPortId(host="h99", port="eth0")
    view.ports[stranger] = next(iter(view.ports.values()))  # type: ignore[index]
    return targets


ROUTE = StaticRoute(host="h0", to=NicPortId(host="h1", port="eth0"), port=NicPortId(host="h1", port="eth0"))

Make = Callable[[ModuleType], Plane]


def spoilt(**how: Any) -> Make:
    return lambda module: Spoilt(module.Rotor(0.3), **how)


def without_grants(event: Event, actions: list[Action]) -> list[Action]:
    return [one for one in actions if not isinstance(one, Grant)]


def refusing(event: Event, actions: list[Action]) -> list[Action]:
    return [Refuse(ranks=one.ranks, why="no") if isinstance(one, Grant) else one for one in actions]


def granting_to_nobody(event: Event, actions: list[Action]) -> list[Action]:
    return [*actions, Grant(ranks=(0,))] if isinstance(event, Done) else actions


def switching_twice(event: Event, actions: list[Action]) -> list[Action]:
    return [one for one in actions for _ in range(1 + isinstance(one, Switch))]


def looping(event: Event, actions: list[Action]) -> list[Action]:
    while actions or isinstance(event, Intent):
        pass
    return actions


def sleeping(event: Event, actions: list[Action]) -> list[Action]:
    threading.Event().wait(30.0)
    return actions


def hoarding(event: Event, actions: list[Action]) -> list[Action]:
    bytearray(2 << 30)
    return actions


def flooding(event: Event, actions: list[Action]) -> Iterator[Action]:
    return repeat(Switch(target="slot0"))


BAD: dict[str, tuple[Breach, Make]] = {
    "undeclared target": (Breach.UNDECLARED, spoilt(actions=instead(Switch, Switch(target="slot99")))),
    "overlapping ports": (Breach.OVERLAP, spoilt(targets=doubled)),
    "grant before applied": (Breach.EARLY_GRANT, spoilt(actions=grant_at_once)),
    "switch under a transfer": (Breach.UNDER_TRANSFER, lambda module: InAHurry(module.Rotor(0.05))),
    "never answers": (Breach.NO_ANSWER, spoilt(actions=without_grants)),
    "raises": (Breach.RAISED, spoilt(actions=raising_at(Done))),
    "raises at a failure": (Breach.RAISED, spoilt(actions=raising_at(Failure))),
    "raises at a recovery": (Breach.RAISED, spoilt(actions=raising_at(Recovery))),
    "raises at a demand": (Breach.RAISED, spoilt(actions=raising_at(Demand))),
    "not deterministic": (Breach.NOT_DETERMINISTIC, spoilt(actions=by_chance)),
    "foreign port": (Breach.FOREIGN, spoilt(targets=elsewhere)),
    "a part of a group": (Breach.NO_ANSWER, spoilt(actions=some_of)),
    "refuses for nothing": (Breach.NO_ANSWER, spoilt(actions=refusing)),
    "answers nobody": (Breach.NOT_WAITING, spoilt(actions=granting_to_nobody)),
    "switches twice": (Breach.MOVING, spoilt(actions=switching_twice)),
    "fallback": (Breach.NOT_ALLOWED, spoilt(actions=instead(Switch, Fallback(why="it is easier")))),
    "no action": (Breach.NO_ACTION, spoilt(actions=lambda event, actions: [*actions, "switch"])),
    "one dead rank holds all": (Breach.NO_ANSWER, lambda module: OneAfterTheOther(module.Rotor(0.3))),
    "targets by chance": (Breach.NOT_DETERMINISTIC, spoilt(targets=drawn)),
    "changes its view": (Breach.RAISED, spoilt(targets=widened)),
    "lights nothing": (Breach.EARLY_GRANT, spoilt(targets=lambda targets, view: dict.fromkeys(targets, Target()))),
    "loops": (Breach.NEVER_RETURNS, spoilt(actions=looping)),
    "sleeps": (Breach.NEVER_RETURNS, spoilt(actions=sleeping)),
    "takes memory": (Breach.TOO_MUCH, spoilt(actions=hoarding)),
    "floods": (Breach.TOO_MUCH, spoilt(actions=flooding)),
    "route of another host": (Breach.FOREIGN, spoilt(actions=instead(Grant, Route(routes=(ROUTE,))))),
}


@pytest.mark.parametrize(("breach", "make"), BAD.values(), ids=BAD)
def test_plane_that_breaks_a_rule_is_found_and_told_with_what_came_before(
    breach: Breach, make: Make, rotor_plane: ModuleType
) -> None:
    with pytest.raises(PlaneError, match=rf"^{breach}: .*\njob \d+ of seed 0, at [\d.]+ s(\n|$)") as caught:
        check_plane(lambda: make(rotor_plane), jobs=JOBS)
    assert caught.value.breach is breach
    if make is BAD["raises"][1]:
        assert "KeyError('rank') at Done(rank=" in str(caught.value)
        assert "-> Grant(ranks=(" in str(caught.value)


def test_topology_that_no_drawn_job_can_have_is_said() -> None:
    with pytest.raises(ConfigError, match="none of the 40 drawn jobs has hosts for this plane; of the last one: "):
        check_plane(lambda: Static("torus dims=9x9"), jobs=JOBS)


# --- planes of other packages


def test_plane_of_a_wheel_is_found_by_its_name_and_passes(tmp_path: Path) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", tmp_path, EXAMPLE], check=True, timeout=120)
    program = (
        "from hwd.config.planes import installed as planes; from hwd.testing.check_plane import check_plane; "
        "print(planes.names(), check_plane(lambda: planes.make('rotor', {'period_s': '0.2'}), jobs=20))"
    )
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert said.stdout == "('mfabric', 'rotor', 'static') 20\n"


def test_plane_is_made_with_its_arguments() -> None:
    assert isinstance(planes.make("static", {"topology": "pairs"}), Static)
    with pytest.raises(ConfigError, match="plane 'sttic': unknown; did you mean static"):
        planes.make("sttic", {})
    with pytest.raises(ConfigError, match="plane static: no argument 'topolgy'; did you mean topology"):
        planes.make("static", {"topolgy": "ring"})
