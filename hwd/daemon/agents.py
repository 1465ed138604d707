"""The agents as a reconfiguration needs them, on top of the gateway."""

from typing import TypeVar

import msgspec

from hwd.bus.birth_data import troubles
from hwd.bus.gateway import Gateway
from hwd.model.host import NEVER_CONNECTED
from hwd.model.nic_port import NicPortId
from hwd_agents.wire import Arguments, PortNote, VerbsAddress
from hwd_drivers.core.errors import FailedError

A = TypeVar("A", bound=msgspec.Struct)


class GatewayAgents:
    """The agents of a gateway, as `hwd.reconfigure.reconfigurer.Agents`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def address(self, port: NicPortId) -> tuple[str, int] | None:
        note = self._note(port)
        if note is None or note.ip is None or note.probe_port is None:
            return None
        return note.ip.partition("/")[0], note.probe_port

    def verbs(self, port: NicPortId) -> VerbsAddress | None:
        note = self._note(port)
        return None if note is None else note.verbs

    def boot(self, host: str) -> str | None:
        agent = self._gateway.hosts().get(host)
        return agent.boot if agent is not None and agent.up and agent.alignment is not None else None

    def why_silent(self, host: str) -> str | None:
        if not self._gateway.connected:
            return "the broker is not connected"
        agent = self._gateway.hosts().get(host)
        if agent is None or agent.boot is None:
            return NEVER_CONNECTED
        if not agent.up:
            return "its agent is down"
        return None if agent.alignment is not None else "its clock is not aligned yet"

    def is_there(self, host: str) -> bool:
        agent = self._gateway.hosts().get(host)
        return self._gateway.connected and agent is not None and agent.up

    def why_missing(self, port: NicPortId) -> str | None:
        agent = self._gateway.hosts().get(port.host)
        if not self._gateway.connected or agent is None or not agent.up or agent.birth is None:
            return None
        note = agent.birth.ports.get(port.port)
        if note is None or note.present:
            return None
        return troubles(agent.birth).get(port.port) or f"there is no interface {note.interface}"

    async def command(self, host: str, arguments: Arguments[A], *, within_s: float) -> A:
        reply, answer = await self._gateway.command(host, arguments, within_s=within_s)
        if answer is None:
            raise FailedError(f"agent of {host}: {arguments.VERB}: {reply.outcome}: {reply.why}")
        return answer

    def _note(self, port: NicPortId) -> PortNote | None:
        agent = self._gateway.hosts().get(port.host)
        return None if agent is None or agent.birth is None else agent.birth.ports.get(port.port)
