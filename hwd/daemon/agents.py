"""The agents as a reconfiguration needs them, on top of the gateway."""

from collections.abc import Mapping

from hwd.bus.birth_data import troubles
from hwd.bus.gateway import Gateway
from hwd.bus.host_agent import NEVER_HEARD
from hwd.model.testbed import NicPortId
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import FailedError


class GatewayAgents:
    """`hwd.reconfigure.reconfigurer.Agents` over a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def address(self, port: NicPortId) -> tuple[str, int] | None:
        view = self._gateway.hosts().get(port.host)
        note = view.birth.ports.get(port.port) if view is not None and view.birth is not None else None
        if note is None or note.ip is None or note.probe_port is None:
            return None
        return note.ip.partition("/")[0], note.probe_port

    def verbs(self, port: NicPortId) -> Mapping[str, Json] | None:
        view = self._gateway.hosts().get(port.host)
        note = view.birth.ports.get(port.port) if view is not None and view.birth is not None else None
        if note is None or note.verbs is None:
            return None
        return {"gid": note.verbs.gid, "qpn": note.verbs.qpn, "qkey": note.verbs.qkey}

    def boot(self, host: str) -> str | None:
        view = self._gateway.hosts().get(host)
        return view.boot if view is not None and view.up and view.alignment is not None else None

    def why_silent(self, host: str) -> str | None:
        if not self._gateway.connected:
            return "the broker is not connected"
        view = self._gateway.hosts().get(host)
        if view is None or view.boot is None:
            return NEVER_HEARD
        if not view.up:
            return "its agent is down"
        return None if view.alignment is not None else "its clock is not aligned yet"

    def is_there(self, host: str) -> bool:
        view = self._gateway.hosts().get(host)
        return self._gateway.connected and view is not None and view.up

    def why_missing(self, port: NicPortId) -> str | None:
        view = self._gateway.hosts().get(port.host)
        if not self._gateway.connected or view is None or not view.up or view.birth is None:
            return None
        note = view.birth.ports.get(port.port)
        if note is None or note.present:
            return None
        return troubles(view.birth).get(port.port) or f"there is no interface {note.interface}"

    async def command(
        self, host: str, verb: str, arguments: Mapping[str, Json], *, within_s: float
    ) -> Mapping[str, Json]:
        reply = await self._gateway.command(host, verb, dict(arguments), within_s=within_s)
        if reply.outcome != "done":
            raise FailedError(f"agent of {host}: {verb}: {reply.outcome}: {reply.why}")
        return reply.data
