"""Jobs in a small world, in virtual time: what its tests do to it, and planes that they run."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hwd.jobs.verification.recorded_operations import operations_of
from hwd.model.bodies import JobBody
from hwd.model.job_status import JobStatus
from hwd.model.plane import Action, Applied, Event, Grant, Intent, Job, Plane, Route, StaticRoute, Switch, Target, View
from hwd.planes import Gathering
from hwd.records.records import Records
from hwd.sim.job_rank import JobRank
from hwd.sim.records_disk import RecordsDisk
from hwd.sim.world import DAEMON, World
from hwd_drivers.core.errors import RefusedError

from ..sim import lab as sim_lab

P = TypeVar("P")
EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
STATIC = "plane: static topology=ring"


@dataclass(frozen=True, kw_only=True)
class Work:
    """The job `go`. `entry`: more of its keys; `plane`: the plane `own`; `actions`: more host_actions of its testbed.

    `steps`: operations of each rank, of `seconds` and at most `within_s`.
    """

    entry: str = STATIC
    plane: Plane | None = None
    steps: int = 3
    within_s: float = 60.0
    seconds: float = 0.2
    actions: str = "route, "


def of_job(**changes: Any) -> pytest.MarkDecorator:
    """The job of the lab of this test is so."""
    return pytest.mark.parametrize("work", [Work(**changes)], ids=[pytest.HIDDEN_PARAM])


def of_jobs(**works: Work) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("work", works.values(), ids=works)


class Lab(sim_lab.Lab):
    """With the job `go` and its plane."""

    def __init__(self, world: World, records_url: str, plane: Plane | None) -> None:
        super().__init__(world)
        self._records_url = records_url
        self._plane = plane

    def plane(self, kind: type[P]) -> P:
        assert isinstance(self._plane, kind)
        return self._plane

    async def unmeasured(self, job: str) -> list[str]:
        """The operations of an ended job of which no agent told the end."""
        records = Records(self._records_url, RecordsDisk())
        await records.open()
        events = await records.jobs.events(job)
        records.close()
        return [str(one) for one in operations_of(events).all if one.sent is None]


async def trains(world: World, host: str, environment: Mapping[str, str], work: Work) -> int:
    """A rank that makes so many collectives with all others; the one of h1 comes late to each."""
    rank = JobRank(world, host, environment)
    await rank.join()
    try:
        for _ in range(work.steps):
            await asyncio.sleep(0.3 if host == "h1" else 0)
            await rank.collective("world", "all-reduce", seconds=work.seconds, within_s=work.within_s)
    except RefusedError:
        return 1
    return 0


class Routes:
    """Before it lets anybody go for the second time it sets a route of h0."""

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        self.heard: list[Event] = []
        self._gathering, self._ports = Gathering(job.groups), {str(one): one for one in view.ports}
        return {"ring": Target(links=view.topology("ring"))}

    def on(self, event: Event) -> Iterator[Action]:
        self.heard.append(event)
        if isinstance(event, Intent) and self._gathering.come(event):
            if event.operation.index == 0:
                yield Switch(target="ring")
                return
            to, port = self._ports["h1.eth0"], self._ports["h0.eth0"]
            yield Route(routes=(StaticRoute(host="h0", to=to, port=port),))
            yield Grant(ranks=(0, 1))
        if isinstance(event, Applied):
            yield Grant(ranks=(0, 1))


class Alternates:
    """Goes from one target to the other for each operation; `links`: of the second one, if not all."""

    def __init__(self, links: int | None = None) -> None:
        self._links = links

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        self._gathering, links = Gathering(job.groups), view.topology("ring")
        return {"a": Target(links=links), "b": Target(links=links[: self._links])}

    def on(self, event: Event) -> Iterator[Action]:
        if isinstance(event, Intent) and self._gathering.come(event):
            yield Switch(target="ab"[event.operation.index % 2])
        if isinstance(event, Applied):
            yield Grant(ranks=(0, 1))


def asked(index: int) -> Callable[[JobStatus], bool]:
    """Rank 0 has come to its operation of this number."""
    return lambda status: status.ranks[0].operation.startswith(f"all-reduce {index} of")


async def start(lab: Lab, is_so: Callable[[JobStatus], object] = lambda status: True) -> str:
    """In the daemon's process: what it starts dies with that. Returns when it is so."""
    job = (await lab.world.nodes.run_in_node(DAEMON, lab.service.jobs.start(JobBody(name="go"), None))).id
    await when(lab, job, is_so)
    return job


async def when(lab: sim_lab.Lab, job: str, is_so: Callable[[JobStatus], object]) -> JobStatus:
    while True:
        if is_so(status := await lab.service.jobs.job(job)):
            return status
        await asyncio.sleep(0.1)


async def ended(lab: sim_lab.Lab, job: str) -> JobStatus:
    return await when(lab, job, lambda status: status.ended)
