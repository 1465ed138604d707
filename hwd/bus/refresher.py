"""Refresher: asks an agent for the present state of its ports after it was disconnected.

The state in its birth may be old, and events since then may have been acknowledged already.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from hwd.bus.containment import Containment
from hwd.bus.host_agent import HostAgent
from hwd_agents.wire import Refresh, Refreshed, Reply
from hwd_drivers.core.errors import DeadlineError, LinkError, ProtocolError

WITHIN_S = 5.0

log = logging.getLogger(__name__)

Command = Callable[[str, Refresh], Awaitable[tuple[Reply, Refreshed | None]]]
"""`command(host, arguments)`; raises LinkError, DeadlineError or ProtocolError."""


class Refresher:
    """The carriers of a host's ports are unknown until its agent has answered.

    Call `ask` at each alignment of its clock: a request that failed is repeated.
    """

    def __init__(self, command: Command, containment: Containment) -> None:
        self._command = command
        self._containment = containment
        self._asking: set[str] = set()
        self._warned: set[str] = set()

    def ask(self, host: HostAgent) -> None:
        """Send a request where the agent is up, its ports are stale, and no request is under way."""
        if host.up and host.stale and host.name not in self._asking:
            refresh = partial(self._refresh, host)
            if self._containment.begin(host.name, "its refresh", refresh, name="refresh"):
                self._asking.add(host.name)

    async def _refresh(self, host: HostAgent) -> None:
        boot = host.boot
        try:
            reply, answer = await self._command(host.name, Refresh())
            if reply.outcome == "expired":  # it came late, or the alignment was wrong
                log.debug("%s: refresh: %s", host.name, reply.why)
                return
            if answer is None:
                self._warn(host, f"{reply.outcome}: {reply.why}")
                return
        except (LinkError, DeadlineError) as error:
            log.debug("%s", error)
            return
        except ProtocolError as error:
            self._warn(host, str(error))
            return
        finally:
            self._asking.discard(host.name)
        if host.boot == boot and host.up:
            host.refresh(answer.ports, answer.states, answer.at_ns)
            self._warned.discard(host.name)

    def _warn(self, host: HostAgent, why: str) -> None:
        """Log a failure once, until a request succeeds."""
        if host.name not in self._warned:
            self._warned.add(host.name)
            log.warning(
                "%s: its agent does not say how its ports are, so their carriers are unknown: %s", host.name, why
            )
