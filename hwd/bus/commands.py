"""Commands: the commands to the agents, from each one's expiry to its reply."""

import asyncio
from dataclasses import dataclass
from typing import Any

from hwd.bus.host_agent import HostAgent
from hwd_agents.bus.protocol import Bus
from hwd_agents.wire import Arguments, Command, Reply, encode, topic
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import DeadlineError, LinkError
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.structs import to_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    host: str
    boot: str
    reply: asyncio.Future[Reply]


class Commands:
    """Pairs replies with commands by id. A reply counts only from the host and the boot that was asked."""

    def __init__(self, *, bus: Bus, testbed: str, clock: Clock, ids: Ids) -> None:
        self._bus = bus
        self._testbed = testbed
        self._clock = clock
        self._ids = ids
        self._waiting: dict[str, _Waiting] = {}

    async def send(self, agent: HostAgent, arguments: Arguments[Any], *, within_s: float, lease: str | None) -> Reply:
        """Send a command; return the reply to it. Raises LinkError and DeadlineError, as `Gateway.command` does."""
        host, verb = agent.name, arguments.VERB
        if agent.boot is None or not agent.up:
            raise LinkError(f"{host}: cannot {verb}: {agent.why_down}")
        if (alignment := agent.alignment) is None:
            raise LinkError(f"{host}: cannot {verb}: its clock is not aligned yet, so no expiry can be given")
        expires_ns, error_ns = alignment.to_agent(self._clock.monotonic_ns() + round(within_s * 1e9))
        command = Command(
            boot=agent.boot,
            seq=agent.next_seq(agent.boot, "command"),
            id=self._ids.uuid(),
            reply_to=topic(self._testbed, host, "reply"),
            expires_at_ns=expires_ns - error_ns,
            verb=verb,
            lease=lease,
            arguments=to_plain(arguments),
        )
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[command.id] = _Waiting(host=host, boot=agent.boot, reply=reply)
        try:
            async with asyncio.timeout(within_s):
                await self._bus.publish(topic(self._testbed, host, "command"), encode(command), qos=1)
                return await reply
        except TimeoutError as error:
            raise DeadlineError(f"{host}: {verb}: its agent did not answer within {within_s} s") from error
        finally:
            del self._waiting[command.id]
            if not reply.cancel() and not reply.cancelled():
                reply.exception()  # mark it as retrieved, even where nobody waits for it

    def take(self, host: str, reply: Reply) -> bool:
        """Pass a reply to the caller that waits for it; return whether there is one."""
        waiting = self._waiting.get(reply.id)
        if waiting is None or (waiting.host, waiting.boot) != (host, reply.boot):
            return False
        if not waiting.reply.done():
            waiting.reply.set_result(reply)
        return True

    def fail(self, host: str, cause: str) -> None:
        """The host's agent is down: fail all its commands."""
        for waiting in self._waiting.values():
            if waiting.host == host and not waiting.reply.done():
                waiting.reply.set_exception(LinkError(f"{host}: its agent was lost before it answered: {cause}"))
