"""Starts programs on the hosts of a testbed: in the network of a twin host, or over SSH."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from hwd.config.run_files.places import RackPlace
from hwd.model.program import RunningProgram
from hwd.model.testbed import Host
from hwd.rollout.processes.supervised_program import ProgramRequest
from hwd.rollout.processes.twin_processes import attach_in_namespace, start_in_namespace
from hwd_agents.transfers.client import SOCKET_VARIABLE
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import LinkError, RefusedError
from hwd_drivers.core.offload import Offload

SOCKET_VARIABLES: Final = {"transfers": SOCKET_VARIABLE, "select": "HWD_SELECT_SOCKET"}
"""By kind of socket, the variable in which programs find its path."""
STARTS_AT_ONCE: Final = 4
"""Programs on twin hosts that start at a time, each in a thread: it is the start of an interpreter on our cores."""


class HostProcesses:
    """The starter of programs on hosts, a `hwd.model.program.Processes`. `rack`: the twin rack that is up, None where
    there is none. `home` has `.ssh`.

    `offload` starts processes on twin hosts, outside the loop.
    """

    def __init__(
        self, rack: Callable[[], RackPlace | None], clock: Clock, offload: Offload, *, home: Path | None = None
    ) -> None:
        self._offload = offload
        self._turns = asyncio.Semaphore(STARTS_AT_ONCE)
        self._rack = rack
        self._clock = clock
        self._home = home

    async def start(
        self,
        host: Host,
        command: Sequence[str],
        *,
        user: str,
        within_s: float,
        environment: Mapping[str, str] = MappingProxyType({}),
        keep: str | None = None,
    ) -> RunningProgram:
        sockets = self._sockets(host) if host.ssh is None else {}
        request = ProgramRequest(
            command=command, user=user, within_s=within_s, environment={**sockets, **environment}, keep=keep
        )
        if host.ssh is None:
            keeper = self._keeper(host)
            async with self._turns:
                return await start_in_namespace(host.name, keeper, request, offload=self._offload)
        from hwd.rollout.processes.ssh_processes import start_over_ssh  # a daemon of twin hosts loads no SSH

        return await start_over_ssh(host.name, host.ssh, request, clock=self._clock, home=self._home)

    async def attach(self, host: Host, keep: str, *, user: str, taken: int | None = None) -> RunningProgram:
        if host.ssh is None:
            keeper = self._keeper(host)
            async with self._turns:
                return await attach_in_namespace(host.name, keeper, keep, offload=self._offload, taken=taken)
        from hwd.rollout.processes.ssh_processes import attach_over_ssh

        return await attach_over_ssh(
            host.name, host.ssh, keep, user=user, clock=self._clock, home=self._home, taken=taken
        )

    def _sockets(self, host: Host) -> dict[str, str]:
        """Where a program finds the agent of a twin host: several of them are on one machine."""
        place = self._rack()
        found = {} if place is None else place.hosts.get(host.name, {}).get("sockets")
        return {SOCKET_VARIABLES[name]: str(path) for name, path in found.items()} if isinstance(found, dict) else {}

    def _keeper(self, host: Host) -> Path:
        """The keeper of the network of a twin host. Raises RefusedError where it has none, LinkError where the rack is
        not up.
        """
        if host.twin is None:
            raise RefusedError(f"{host.name}: the testbed file does not say how to reach it: give it ssh: root@ADDRESS")
        if host.twin.machine is not None:
            raise RefusedError(f"{host.name}: is a virtual machine: give it ssh: with the address of its SSH server")
        place = self._rack()
        if place is None:
            raise LinkError(f"{host.name}: its twin rack is not up. Start it with `hwd twin up TESTBED`")
        entry = place.hosts.get(host.name, {})
        if not entry.get("kernel"):
            raise RefusedError(
                f"{host.name}: is a twin without a kernel: it has no network that a program could use. "
                "Write twin: {kernel: true}, and let the rack run where network namespaces are allowed"
            )
        return Path(str(entry["keeper"]))
