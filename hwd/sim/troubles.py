"""The troubles of a simulated world: each is one that its seam really has, and each ends."""

import asyncio
import errno
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Final

from hwd.model.fault import Clear, Panel, PortFault, SwitchFault, parse_fault
from hwd.sim.plan import Act, BadDisk, CutClient, DelayMessages, Kill, RepeatMessages, StopBroker, TwinFault
from hwd.sim.racks import Rack
from hwd.sim.watches.witness import Witness
from hwd.sim.world import DAEMON, World, agent_node, host_of
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.errors import ConfigError, HwdError, RefusedError
from hwd_drivers.core.values import PortSide

NEVER: Final = 1 << 60
RESTART_S: Final = 5.0
"""As in the unit of `hwd install-service`."""


class Troubles:
    """Begins the troubles of a plan; each ends by a timer, and all at `end_all`."""

    def __init__(self, world: World, rack: Rack, witness: Witness, tell: Callable[[str], None]) -> None:
        self._world = world
        self._rack = rack
        self._witness = witness
        self._tell = tell
        self._ends: list[tuple[asyncio.TimerHandle, Callable[[], None]]] = []
        self._away_s: dict[str, float] = {}
        world.nodes.on_kill(self._died)
        world.on_no_start = self._could_not_start

    def begin(self, act: Act) -> None:
        """What befalls the world now."""
        world = self._world
        match act:
            case Kill(node=node, callbacks=callbacks, away_s=away_s):
                if world.nodes.alive(node):
                    self._away_s[node] = away_s
                    world.nodes.kill_at(node, world.nodes.callbacks(node) + callbacks)
            case StopBroker(for_s=for_s):
                world.broker.stop()
                self._until(for_s, world.broker.start)
            case CutClient(node=node):
                world.broker.cut(node)
            case RepeatMessages(for_s=for_s):
                world.broker.repeat_qos1 = True
                self._until(for_s, partial(setattr, world.broker, "repeat_qos1", False))
            case DelayMessages(by_s=by_s, for_s=for_s):
                world.bus_delay_s = by_s
                self._until(for_s, partial(setattr, world, "bus_delay_s", 0.0))
            case TwinFault():
                self._twin_fault(act)
            case BadDisk(disk="records", error=error, for_s=for_s):
                if error == "hangs":
                    world.records_disk.hang()
                else:
                    world.records_disk.refuse({"EIO": "disk I/O error", "ENOSPC": "database or disk is full"}[error])
                self._until(for_s, world.records_disk.mend)
            case BadDisk(disk=name, error=error, writes=writes, for_s=for_s):
                disk = world.journal_disk if name == "journal" else world.spools[name]
                self._witness.failed_disks.add(name)
                if error == "EIO":
                    disk.refusal = (errno.EIO, writes)
                else:
                    disk.capacity_bytes = len(disk.read()) + 40 * writes
                self._until(for_s, partial(_mend, disk))

    async def end_all(self) -> None:
        """End all troubles: who is dead starts, and what failed works."""
        for timer, end in self._ends:
            timer.cancel()
            end()
        self._ends.clear()
        world = self._world
        with self._witness.outside():
            world.faults.set(Clear())
        nodes = [DAEMON, *map(agent_node, self._rack.testbed.hosts)]
        for node in nodes:
            if world.nodes.alive(node):
                world.nodes.kill_at(node, NEVER)
        while not all(map(world.nodes.alive, nodes)):  # noqa: ASYNC110 - virtual time, and the dead tell nothing
            await asyncio.sleep(0.1)

    def _until(self, for_s: float, end: Callable[[], None]) -> None:
        self._ends.append((asyncio.get_running_loop().call_later(for_s, end), end))

    def _twin_fault(self, act: TwinFault) -> None:
        fault = parse_fault(act.fault)
        if isinstance(fault, SwitchFault) and (ends := getattr(fault, "ends", None)):
            self._witness.touch(fault.switch, frozenset(map(PortSide.parse, ends)))
        try:
            with self._witness.outside():
                self._world.faults.set(fault)
        except (RefusedError, ConfigError) as error:  # its front panel is dark while it reboots
            self._tell(f"it cannot be: {error}")
            return
        if isinstance(fault, Panel):
            return
        clear = (
            Clear(switch=fault.switch)
            if isinstance(fault, SwitchFault)
            else Clear(port=fault.port)
            if isinstance(fault, PortFault)
            else Clear(host=fault.subject)
        )
        self._until(act.for_s, partial(self._clear, clear))

    def _clear(self, clear: Clear) -> None:
        with self._witness.outside():
            self._world.faults.set(clear)

    def _could_not_start(self, error: HwdError) -> None:
        """The service manager starts it again."""
        self._tell(f"the daemon cannot start: {error}")
        self._away_s[DAEMON] = RESTART_S
        asyncio.get_running_loop().call_soon(self._world.kill, DAEMON, context=Context())

    def _died(self, node: str) -> None:
        """Start a node again that died, as by its service manager; a rank's program does not."""
        if node != DAEMON and host_of(node) not in self._world.testbed.hosts:
            return
        self._tell(f"{node} died")
        asyncio.get_running_loop().call_later(self._away_s.pop(node, 0.0) + 0.001, self._start, node)

    def _start(self, node: str) -> None:
        self._world.kill(node)
        if node == DAEMON:
            self._world.start_daemon()
        else:
            self._world.start_agent(host_of(node))
            self._tell(f"{node} starts again")


def _mend(disk: MemoryDisk) -> None:
    disk.refusal = None
    disk.capacity_bytes = None
