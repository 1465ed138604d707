"""The switches of a testbed as the daemon drives them: their supervisors, and the origin of their times."""

import asyncio
from collections.abc import Mapping

from hwd.daemon.seams import Machine
from hwd.daemon.switch_opener import OpenSwitch
from hwd.fabric.fabric import Fabric
from hwd.model.instant import Origin
from hwd.model.testbed import Switch, Testbed
from hwd_drivers.core.documents import Sink
from hwd_drivers.devices.abilities import Device
from hwd_drivers.devices.supervisor import LONGEST_RETRY_S, NOT_CONNECTED_YET, Supervisor

TWIN_RETRY_S = 1.0
"""The longest pause before a twin is tried again: it is a process of this machine, which an attempt costs nothing."""


class DrivenSwitches:
    """A supervisor for each switch that no host owns, and a task for each supervisor.

    A switch that a reload leaves as it is keeps its supervisor, and so its session. `drivers` and `origins` are always
    the same objects, with those of now.
    """

    def __init__(self, testbed: Testbed, open_switch: OpenSwitch, *, machine: Machine, sink: Sink) -> None:
        self._open_switch = open_switch
        self._machine = machine
        self._sink = sink
        self._switches: dict[str, Switch] = _driven(testbed)
        self._drivers = {name: self._supervisor(switch) for name, switch in self._switches.items()}
        self._origins = origins(testbed)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._group: asyncio.TaskGroup | None = None

    @property
    def drivers(self) -> Mapping[str, Supervisor]:
        return self._drivers

    @property
    def origins(self) -> Mapping[str, Origin]:
        """The origin of every switch of the testbed, also of those that hosts own."""
        return self._origins

    def looked(self) -> bool:
        """Whether each switch was read, or a first attempt to connect to it failed."""
        return all(one.cause != NOT_CONNECTED_YET for one in self._drivers.values())

    def powers_asked_wall_ns(self, switch: str) -> int | None:
        """When a switch was asked for the powers that it answered last; None where that is not known."""
        driver = self._drivers.get(switch)
        return None if driver is None else driver.powers_asked_wall_ns

    async def run(self) -> None:
        """Supervise all of them, until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            try:
                for name in self._drivers:
                    self._start(name)
                await asyncio.Event().wait()
            finally:  # while sessions end none begins: a reload may still come
                self._group = None

    def use_testbed(self, fabric: Fabric) -> None:
        """Go on with the testbed of this fabric: end the sessions with switches that are gone or changed, and begin
        those with new and changed ones, each after the end of its former one.
        """
        switches, before = _driven(fabric.testbed), self._switches
        changed = [name for name, switch in switches.items() if before.get(name) != switch]
        new, found = {name: self._supervisor(switches[name]) for name in changed}, origins(fabric.testbed)
        for name in [name for name in before if name not in switches or name in new]:
            del self._drivers[name]
            if (task := self._tasks.pop(name, None)) is not None:
                task.cancel()
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
        self._switches = switches
        drivers = {name: new[name] if name in new else self._drivers[name] for name in switches}
        self._drivers.clear()
        self._drivers.update(drivers)
        self._origins.clear()
        self._origins.update(found)
        for name in new:
            self._start(name)

    async def settle(self) -> None:
        """Wait for the end of the sessions that a reload ended."""
        if self._ending:
            await asyncio.wait([*self._ending])

    def _start(self, name: str) -> None:
        if self._group is None:
            return  # `run` starts all, or ends all

        async def supervise(supervisor: Supervisor, former: list[asyncio.Task[None]]) -> None:
            if former:  # many switches take one session at a time
                await asyncio.wait(former)
            await supervisor.run()

        own = f"hwd:{name}/supervisor"
        former = [task for task in self._ending if task.get_name() == own]
        self._tasks[name] = self._group.create_task(supervise(self._drivers[name], former), name=own)

    def _supervisor(self, switch: Switch) -> Supervisor:
        async def open_device() -> Device:
            return await self._open_switch(switch, self._sink)

        return Supervisor(
            name=switch.name,
            open=open_device,
            clock=self._machine.clock,
            sink=self._sink,
            draws=self._machine.draws,
            longest_retry_s=LONGEST_RETRY_S if switch.twin is None else TWIN_RETRY_S,
        )


def origins(testbed: Testbed) -> dict[str, Origin]:
    """The origin of the times of each switch, also of those that hosts own."""
    return {name: _origin(switch) for name, switch in testbed.switches.items()}


def _driven(testbed: Testbed) -> dict[str, Switch]:
    return {name: switch for name, switch in testbed.switches.items() if switch.owner is None}


def _origin(switch: Switch) -> Origin:
    if switch.twin is None:
        return Origin.MEASURED
    from hwd_drivers.twins.timing import find_timing  # a daemon of real switches does not load the simulator

    return Origin.FITTED if find_timing(switch.twin.timing).fitted_to else Origin.TWIN
