"""What the agents are asked during a reconfiguration: watch these ports, find these peers, and say at the end what you watched."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from hwd.model.testbed import NicPortId
from hwd.reconfigure.reconfiguration import Reconfiguration
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import HwdError

ANSWER_WITHIN_S = 1.0
"""For agents to say that they watch; one that does not answer is not waited for, its instants stay unknown."""
WATCH_S = 3600.0
"""The longest that agents watch without being asked again; `settle` ends it before."""
RENEW_S = 0.8 * WATCH_S

log = logging.getLogger(__name__)


class Agents(Protocol):
    """What the reconfiguration asks of the agents."""

    def address(self, port: NicPortId) -> tuple[str, int] | None:
        """IP address and probe port of a NIC port, None where its agent has not said."""
        ...

    def verbs(self, port: NicPortId) -> Mapping[str, Json] | None:
        """Where a NIC port is probed by RDMA, as `hwd_agents.wire.VerbsAddress`; None where it is not."""
        ...

    def boot(self, host: str) -> str | None:
        """The boot of a host's agent that can be asked now, None where there is none."""
        ...

    def why_silent(self, host: str) -> str | None:
        """Why nothing is heard of a host's agent now; None where it is."""
        ...

    def is_there(self, host: str) -> bool:
        """Whether a host's agent can be heard now, or soon, when its clock is aligned."""
        ...

    async def command(
        self, host: str, verb: str, arguments: Mapping[str, Json], *, within_s: float
    ) -> Mapping[str, Json]:
        """The data of the agent's answer; raises LinkError or DeadlineError."""
        ...


class Observing:
    """Asks the agents. An agent that cannot be asked is named in the log, and never an error: its instants stay unknown."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    async def begin(self, reconfiguration: Reconfiguration) -> None:
        """Let all hosts of it watch; returns when they do, or were given up."""
        await self._observe(reconfiguration, reconfiguration.hosts)

    async def keep(self, reconfiguration: Reconfiguration) -> None:
        """Tell agents that started anew or could not be told at first, and those that probe them, as soon as they can be told.

        They watch from then on only: that they saw nothing change says nothing of the time before.
        """
        while True:
            reconfiguration.agents_changed.clear()
            late = [
                host
                for host in sorted({end.host for link in reconfiguration.not_ready for end in link.ends})
                if self._agents.boot(host) is not None
                and reconfiguration.told.get(host) != self._to_tell(reconfiguration, host)
            ]
            reconfiguration.observed_late.update(late)
            await self._observe(reconfiguration, late)
            try:
                async with asyncio.timeout(RENEW_S):
                    await reconfiguration.agents_changed.wait()
            except TimeoutError:
                reconfiguration.told.clear()

    def silent(self, reconfiguration: Reconfiguration) -> list[str]:
        """Hosts of links that are not ready and of whose agents nothing is heard, each group with its reason: `h0, h1: its agent is down`."""
        groups: dict[str, list[str]] = {}
        for host in sorted({end.host for link in reconfiguration.not_ready for end in link.ends}):
            if (why := self._agents.why_silent(host)) is not None:
                groups.setdefault(why, []).append(host)
        return [f"{', '.join(hosts)}: {why}" for why, hosts in groups.items()]

    def nobody_heard(self, reconfiguration: Reconfiguration) -> bool:
        """Whether no agent of links that are not ready can tell anything: an agent whose clock is not aligned yet will."""
        hosts = {end.host for link in reconfiguration.not_ready for end in link.ends}
        return bool(hosts) and not any(self._agents.is_there(host) for host in hosts)

    async def settle(self, reconfiguration: Reconfiguration) -> None:
        """End the watch, and take what was watched into `reconfiguration.sampled`."""

        def keep(host: str, data: Mapping[str, Json]) -> None:
            ports = data.get("ports")
            if isinstance(ports, Mapping) and host not in reconfiguration.observed_late:
                for port, sampled in ports.items():
                    if isinstance(sampled, Mapping):
                        reconfiguration.sampled[f"{host}.{port}"] = sampled

        await self._ask(reconfiguration, "settle", reconfiguration.hosts, lambda _: {}, keep)

    async def _observe(self, reconfiguration: Reconfiguration, hosts: Iterable[str]) -> None:
        told = {host: self._to_tell(reconfiguration, host) for host in hosts}
        await self._ask(
            reconfiguration,
            "observe",
            told,
            lambda host: {"peers": told[host][1], "for_s": WATCH_S},
            lambda host, data: reconfiguration.told.update({host: told[host]}),
        )

    def _to_tell(self, reconfiguration: Reconfiguration, host: str) -> tuple[str | None, list[Json]]:
        """For which boot of an agent it is, and its peers."""
        peers: list[Json] = []
        for planned in reconfiguration.plan.links:
            for end in planned.routed.link.ends:
                peer = planned.routed.link.other(end)
                if end.host == host and (address := self._agents.address(peer)) is not None:
                    peers.append(
                        {
                            "port": str(end),
                            "peer": str(peer),
                            "peer_ip": address[0],
                            "peer_probe_port": address[1],
                            "kept": planned.kept,
                            "peer_verbs": self._agents.verbs(peer),
                        }
                    )
        return self._agents.boot(host), peers

    async def _ask(
        self,
        reconfiguration: Reconfiguration,
        verb: str,
        hosts: Iterable[str],
        arguments: Callable[[str], Mapping[str, Json]],
        take: Callable[[str, Mapping[str, Json]], None],
    ) -> None:
        async def ask(host: str) -> None:
            asked = {"reconfiguration": reconfiguration.id, **arguments(host)}
            try:
                take(host, await self._agents.command(host, verb, asked, within_s=ANSWER_WITHIN_S))
            except HwdError as error:
                log.warning(
                    "%s: %s. Instants of %s may stay unknown",
                    reconfiguration.id,
                    error,
                    host,
                )

        await asyncio.gather(*(ask(host) for host in hosts))
