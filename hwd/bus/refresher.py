"""Refresher: asks a host that is heard again how its ports are now.

What it told before may be old, and its events since then may be long taken.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hwd.bus.containment import Contain
from hwd.bus.host import Host
from hwd_agents.wire import Refreshed, Reply
from hwd_drivers.core.errors import DeadlineError, LinkError, ProtocolError

WITHIN_S = 5.0

log = logging.getLogger(__name__)

Command = Callable[[str, str, dict[str, Any]], Awaitable[Reply]]
"""`command(host, verb, arguments)`; raises LinkError or DeadlineError."""


class Refresher:
    """Until a host has answered, the carriers of its ports are unknown.

    `ask` is to be called again and again: one that could not be asked is asked anew.
    """

    def __init__(self, command: Command, *, contain: Contain) -> None:
        self._command = command
        self._contain = contain
        self._asking: set[str] = set()
        self._complained: set[str] = set()

    def ask(self, host: Host, tasks: asyncio.TaskGroup) -> None:
        """Where it is up, its clock known, and nothing fresh was heard since it was away."""
        if host.up and host.stale and host.name not in self._asking:
            self._asking.add(host.name)
            tasks.create_task(self._refresh(host), name=f"hwd:{host.name}/refresh")

    async def _refresh(self, host: Host) -> None:
        with self._contain(host.name, "its refresh"):
            await self._ask(host)

    async def _ask(self, host: Host) -> None:
        boot = host.boot
        try:
            reply = await self._command(host.name, "refresh", {})
            if reply.outcome == "expired":  # it came late, or the clocks had moved apart
                log.debug("%s: refresh: %s", host.name, reply.why)
                return
            if reply.outcome != "done":
                self._complain(host, f"{reply.outcome}: {reply.why}")
                return
            answer = msgspec.convert(reply.data, Refreshed)
        except (LinkError, DeadlineError) as error:
            log.debug("%s", error)
            return
        except ProtocolError as error:
            self._complain(host, str(error))
            return
        finally:
            self._asking.discard(host.name)
        if host.boot == boot and host.up:
            rdma = {port: states.get("rdma") for port, states in answer.states.items()}
            host.refresh(answer.ports, rdma, answer.at_ns)
            self._complained.discard(host.name)

    def _complain(self, host: Host, why: str) -> None:
        """Once, until it works."""
        if host.name not in self._complained:
            self._complained.add(host.name)
            log.warning(
                "%s: its agent does not say how its ports are, so their carriers are unknown: %s", host.name, why
            )
