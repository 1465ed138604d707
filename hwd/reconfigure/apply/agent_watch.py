"""The agents' watch over NIC ports, from before the first command of a reconfiguration to its end."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

import msgspec

from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.reconfigure.apply.reconfiguration import Reconfiguration
from hwd_agents.wire import Arguments, Observations, Observe, Peer, Settle, VerbsAddress
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.values import natural_key

ANSWER_WITHIN_S = 1.0
"""For agents to answer. The instants of one that does not answer in time stay unknown."""
WATCH_S = 3600.0
"""The longest watch of an agent without a renewal; `settle` ends it before."""
RENEW_S = 0.8 * WATCH_S

log = logging.getLogger(__name__)

A = TypeVar("A", bound=msgspec.Struct)


class Agents(Protocol):
    """The agents, as a reconfiguration needs them."""

    def address(self, port: NicPortId) -> tuple[str, int] | None:
        """IP address and probe port of a NIC port, None where its agent has not reported it."""
        ...

    def verbs(self, port: NicPortId) -> VerbsAddress | None:
        """The RDMA address for probes of a NIC port; None where it has none."""
        ...

    def boot(self, host: str) -> str | None:
        """The boot of a host's agent, None where no agent answers now."""
        ...

    def why_silent(self, host: str) -> str | None:
        """Why a host's agent is silent now; None where it is not."""
        ...

    def is_there(self, host: str) -> bool:
        """Whether a host's agent reports now, or will when its clock is aligned."""
        ...

    def why_missing(self, port: NicPortId) -> str | None:
        """Why the agent of a NIC port finds no interface for it now; None where it finds one, or no agent answers."""
        ...

    async def command(self, host: str, arguments: Arguments[A], *, within_s: float) -> A:
        """What the agent answers; raises LinkError, DeadlineError, ProtocolError, or FailedError where it did not."""
        ...


class AgentWatch:
    """Starts and ends the watch. An agent that does not answer is a warning and no error: its instants stay unknown."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    async def begin(self, reconfiguration: Reconfiguration) -> None:
        """Start the watch on all hosts; returns when their agents have answered or their time is over."""
        await self._observe(reconfiguration, reconfiguration.hosts)

    async def keep(self, reconfiguration: Reconfiguration) -> None:
        """Start the watch late where an agent connects late or restarts, and tell its peers, until cancelled.

        Such an agent watches from then on only: without events from it nothing is known of the time before.
        """
        while True:
            reconfiguration.agents_changed.clear()
            late = [
                host
                for host in sorted(
                    {end.host for link in reconfiguration.not_ready for end in link.ends}, key=natural_key
                )
                if self._agents.boot(host) is not None
                and reconfiguration.watched_by.get(host) != self._assignment(reconfiguration, host)
            ]
            reconfiguration.observed_late.update(late)
            await self._observe(reconfiguration, late)
            try:
                async with asyncio.timeout(RENEW_S):
                    await reconfiguration.agents_changed.wait()
            except TimeoutError:
                reconfiguration.watched_by.clear()

    def silent(self, reconfiguration: Reconfiguration) -> list[str]:
        """Hosts of links that are not ready whose agents are silent, by reason: `h0, h1: its agent is down`."""
        groups: dict[str, list[str]] = {}
        for host in sorted({end.host for link in reconfiguration.not_ready for end in link.ends}, key=natural_key):
            if (why := self._agents.why_silent(host)) is not None:
                groups.setdefault(why, []).append(host)
        return [f"{', '.join(hosts)}: {why}" for why, hosts in groups.items()]

    def missing(self, link: Link) -> dict[NicPortId, str]:
        """Ends of a link whose agents find no interface for them now, with what the agents say of it."""
        return {end: why for end in link.ends if (why := self._agents.why_missing(end)) is not None}

    def all_away(self, reconfiguration: Reconfiguration) -> bool:
        """Whether all agents of links that are not ready are away. An agent with an unaligned clock counts as there."""
        hosts = {end.host for link in reconfiguration.not_ready for end in link.ends}
        return bool(hosts) and not any(self._agents.is_there(host) for host in hosts)

    async def arm(self, id: str, links: Iterable[Link]) -> None:
        """Let agents sample the ports of these links at their high rate from now on, under this id.

        An agent observes a port with one peer: that of the first of several links.
        """
        others = {end: link.other(end) for link in reversed(list(links)) for end in link.ends}
        asked: dict[str, list[Peer]] = {}
        for end, other in others.items():
            if (peer := self._peer(end, other, kept=True)) is not None:
                asked.setdefault(end.host, []).append(peer)
        commands = {host: Observe(reconfiguration=id, peers=peers, for_s=WATCH_S) for host, peers in asked.items()}
        await self._ask(id, commands, _ignore)

    async def disarm(self, id: str, hosts: Iterable[str]) -> None:
        """End what `arm` began."""
        await self._ask(id, dict.fromkeys(hosts, Settle(reconfiguration=id)), _ignore)

    async def settle(self, reconfiguration: Reconfiguration) -> None:
        """End the watch, and put how the agents sampled into `reconfiguration.sampled`."""

        def keep(host: str, answer: Observations) -> None:
            if host not in reconfiguration.observed_late:
                for port, sampled in answer.ports.items():
                    reconfiguration.sampled[f"{host}.{port}"] = sampled

        await self._ask(
            reconfiguration.id, dict.fromkeys(reconfiguration.hosts, Settle(reconfiguration=reconfiguration.id)), keep
        )

    async def _observe(self, reconfiguration: Reconfiguration, hosts: Iterable[str]) -> None:
        assignments = {host: self._assignment(reconfiguration, host) for host in hosts}
        await self._ask(
            reconfiguration.id,
            {
                host: Observe(reconfiguration=reconfiguration.id, peers=peers, for_s=WATCH_S)
                for host, (_, peers) in assignments.items()
            },
            lambda host, _: reconfiguration.watched_by.update({host: assignments[host]}),
        )

    def _assignment(self, reconfiguration: Reconfiguration, host: str) -> tuple[str | None, list[Peer]]:
        """The boot of a host's agent, and the peers that it shall probe."""
        peers: list[Peer] = []
        for planned in reconfiguration.plan.links:
            for end in planned.routed.link.ends:
                other = planned.routed.link.other(end)
                if end.host == host and (peer := self._peer(end, other, kept=planned.kept)) is not None:
                    peers.append(peer)
        return self._agents.boot(host), peers

    def _peer(self, end: NicPortId, peer: NicPortId, *, kept: bool) -> Peer | None:
        """What the agent of `end` is told of the other end; None where nobody has reported its address."""
        address = self._agents.address(peer)
        if address is None:
            return None
        return Peer(
            port=end,
            peer=peer,
            peer_ip=address[0],
            peer_probe_port=address[1],
            kept=kept,
            peer_verbs=self._agents.verbs(peer),
        )

    async def _ask(self, id: str, asked: Mapping[str, Arguments[A]], take: Callable[[str, A], None]) -> None:
        async def ask(host: str, arguments: Arguments[A]) -> None:
            try:
                take(host, await self._agents.command(host, arguments, within_s=ANSWER_WITHIN_S))
            except HwdError as error:
                log.warning("%s: %s. Instants of %s may stay unknown", id, error, host)

        await asyncio.gather(*(ask(host, arguments) for host, arguments in asked.items()))


def _ignore(host: str, answer: Observations) -> None:
    """Nothing is made of what an armed agent has seen: its events tell it."""
