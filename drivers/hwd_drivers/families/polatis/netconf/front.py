"""NetconfFront: the NETCONF server of a Polatis unit over SSH (RFC 6241, 6242, 5277).

Behaviour that no source documents is an option in `TwinOptions`; its default is the most likely behaviour.
"""

import asyncio
import itertools
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final
from xml.etree.ElementTree import Element

from typing_extensions import override

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.unit_error import UnitError
from hwd_drivers.families.polatis.alarms import PortAlarm
from hwd_drivers.families.polatis.netconf import protocol, xml
from hwd_drivers.families.polatis.netconf.datastore import Datastore
from hwd_drivers.families.polatis.netconf.messages import (
    BASE,
    BASE_1_0,
    BASE_1_1,
    NOTIFICATION,
    Hello,
    MessageDecoder,
    Notification,
    Reply,
    Rpc,
    encode,
)
from hwd_drivers.families.polatis.netconf.refusals import RefusedRpc, refusal_of, refuse
from hwd_drivers.families.polatis.netconf.subtree import select
from hwd_drivers.families.polatis.settings import AlarmType
from hwd_drivers.families.polatis.unit import Unit
from hwd_drivers.transports.dial import Acceptor, Dialer
from hwd_drivers.twins.server import TwinServer, TwinSession
from hwd_drivers.twins.unit_twin import Front

SUBSYSTEM: Final = "netconf"
STREAMS: Final = ("Polatis", "NETCONF")
SYSTEM: Final = "urn:ietf:params:xml:ns:yang:ietf-system"
DATE_AND_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
"""The type of this name of ietf-yang-types (RFC 6991)."""
CLOCK_END_S: Final = 2**32
"""The end of a clock of 32 bits."""
NEXT_S: Final = 1e-6
"""Gap between replies, which leave in the order of their requests, even if a later one is ready earlier."""
EVENTS: Final = {
    (AlarmType.LOS, True): "port-power-alarm",
    (AlarmType.LOS, False): "port-power-clear",
    (AlarmType.DEGRADED, True): "port-power-warn-alarm",
    (AlarmType.DEGRADED, False): "port-power-warn-clear",
}

Done = Element | float | None
"""Result of an operation: the content of the reply, or the seconds until ok is sent; None is ok at once."""

log = logging.getLogger(__name__)


class NetconfFront(Front[Unit]):
    """NETCONF server of a unit. `host_key` is its line for a known_hosts file, after the start."""

    def __init__(self, unit: Unit, *, dialer: Dialer, clock: Clock, address: str) -> None:
        super().__init__(unit, dialer=dialer, clock=clock, address=address, sessions_max=unit.options.sessions_max)
        self.datastore = Datastore(unit)
        self.host_key = ""
        self.locked_by: int | None = None
        self.clock_ahead_ns = 0
        self._numbers = itertools.count(1)
        unit.alarms.subscribers.append(self._notify)

    @override
    def acceptor(self) -> Acceptor:
        from hwd_drivers.transports.ssh.keys import public_line, twin_host_key
        from hwd_drivers.transports.ssh.server import SshAcceptor

        unit = self.unit
        key = twin_host_key(Draws(unit.number).stream(f"twin/{unit.name}/host-key"))
        self.host_key = public_line(key)
        return SshAcceptor(
            self.dialer,
            name=f"twin {unit.name}",
            host_key=key,
            check_login=lambda user, password: unit.takes(user, password or ""),
            subsystems=(SUBSYSTEM,),
        )

    @override
    def make_session(self, server: TwinServer) -> "_Session":
        return _Session(self, server, next(self._numbers))

    def session(self, number: int) -> "_Session | None":
        return next((each for each in self._netconf_sessions() if each.number == number), None)

    def capabilities(self) -> tuple[str, ...]:
        """Its hello message."""
        revision = protocol.OLD_REVISION if self.datastore.old else protocol.OPSW_REVISION
        bases = (BASE_1_0, BASE_1_1) if self.unit.options.netconf_base == "1.1" else (BASE_1_0,)
        return (
            *bases,
            "urn:ietf:params:netconf:capability:writable-running:1.0",
            "urn:ietf:params:netconf:capability:rollback-on-error:1.0",
            "urn:ietf:params:netconf:capability:notification:1.0",
            "urn:ietf:params:netconf:capability:interleave:1.0",
            f"{protocol.OPSW}?module=optical-switch&revision={revision}",
            f"{protocol.PLTS}?module=polatis-switch&revision={protocol.PLTS_REVISION}",
        )

    def set_clock(self, unix_s: float) -> None:
        """Set the clock of the unit, which its notifications have."""
        self.clock_ahead_ns = round(unix_s * 1e9) - self.clock.wall_ns()

    def _netconf_sessions(self) -> "list[_Session]":
        return [each for each in self.sessions if isinstance(each, _Session)]

    def _notify(self, alarm: PortAlarm) -> None:
        """Send a notification of an alarm to every subscribed session."""
        event = Element(f"{{{protocol.PLTS}}}{EVENTS[alarm.type, alarm.raised]}")
        xml.leaf(event, "port-id", alarm.port)
        xml.leaf(event, "port-label", self.unit.labels.get(alarm.port, ""))
        at_ns = self.clock.wall_ns() + self.clock_ahead_ns
        at = datetime.fromtimestamp(at_ns / 1e9, tz=UTC).isoformat(timespec="milliseconds")
        for session in self._netconf_sessions():
            session.tell(Notification(time=at.replace("+00:00", "Z"), event=event))


class _Session(TwinSession):
    """One client. Operations are executed as they come; replies leave in order, each after its own delay."""

    def __init__(self, front: NetconfFront, server: TwinServer, number: int) -> None:
        super().__init__(server)
        self.number = number
        self._front = front
        self._unit = front.unit
        self._decoder = MessageDecoder(base_1_1=front.unit.options.netconf_base == "1.1")
        self._subscribed = False
        self._due_s = 0.0
        self._operations: dict[tuple[str, str], Callable[[Element], Done]] = {
            (BASE, "get"): lambda operation: self._get(operation, state=True),
            (BASE, "get-config"): self._get_config,
            (BASE, "edit-config"): self._edit_config,
            (BASE, "lock"): self._lock,
            (BASE, "unlock"): self._unlock,
            (BASE, "close-session"): lambda operation: None,
            (BASE, "kill-session"): self._kill_session,
            (NOTIFICATION, "create-subscription"): self._subscribe,
            (SYSTEM, "set-current-datetime"): self._set_clock,
        }
        if not front.datastore.old:
            unit, store = front.unit, front.datastore
            self._operations[protocol.PLTS, "add-group-cross-connect"] = store.connect_groups
            self._operations[protocol.PLTS, "delete-group-cross-connect"] = store.disconnect_group
            self._operations[protocol.OPSW, "port-set-state"] = partial(self._set_states, unit.enable, unit.disable)
            if unit.options.netconf_shutters:
                self._operations[protocol.PLTS, "port-shutter-set-state"] = partial(
                    self._set_states, unit.open, unit.shut
                )

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send(encode(Hello(capabilities=self._front.capabilities(), session=self.number), chunked=False))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._front.locked_by == self.number:
            self._front.locked_by = None
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        try:
            for message in self._decoder.feed(data):
                if isinstance(message, Rpc):
                    self._take(message)
                elif not isinstance(message, Hello) or message.session is not None:
                    raise ProtocolError(
                        f"NETCONF: a client that sends {type(message).__name__.lower()} as a device does"
                    )
        except ProtocolError as error:
            log.warning("twin %s: %s; ending the session", self._unit.name, error)
            self.abort()

    def tell(self, notification: Notification) -> None:
        if self._subscribed and not self.server.faults.silent:
            self.send(encode(notification, chunked=self._decoder.chunked))

    def _take(self, rpc: Rpc) -> None:
        operation = rpc.operation
        delay_s = 0.0
        try:
            if "message-id" not in rpc.attributes:
                info = {"bad_attribute": "message-id", "bad_element": "rpc"}
                raise refuse("missing-attribute", "rpc without message-id", type="rpc", **info)
            do = self._operations.get((xml.namespace(operation), xml.name(operation)))
            if do is None:
                name = xml.name(operation)
                raise refuse("operation-not-supported", f"{name[:80]} is not supported", type="protocol")
            done = do(operation)
            delay_s = done if isinstance(done, float) else 0.0
            reply = Reply(attributes=rpc.attributes, content=(done if isinstance(done, Element) else _OK,))
        except RefusedRpc as refusal:
            reply = Reply(attributes=rpc.attributes, errors=(refusal.error,))
        except UnitError as error:
            reply = Reply(attributes=rpc.attributes, errors=(refusal_of(error).error,))
        if self.server.faults.take_wrong():
            wrong = _data(self._front.datastore.read(frozenset({"system-config"}), state=True))
            reply = Reply(attributes=rpc.attributes, content=(wrong,))
        self._answer(reply, delay_s)
        if xml.name(operation) == "close-session":
            self.later(self._after_last() + self.server.faults.slow_s, lambda _: self.hang_up(), b"")

    def _answer(self, reply: Reply, delay_s: float) -> None:
        now_s = asyncio.get_running_loop().time()
        self._due_s = max(now_s + delay_s, self._due_s + NEXT_S) if delay_s or self._due_s > now_s else now_s
        self.reply(encode(reply, chunked=self._decoder.chunked), delay_s=self._due_s - now_s)

    def _after_last(self) -> float:
        """The time when the last reply has left."""
        return max(0.0, self._due_s - asyncio.get_running_loop().time()) + NEXT_S

    # --- operations

    def _get(self, operation: Element, *, state: bool) -> Done:
        wanted = xml.child(operation, "filter")
        if wanted is None:
            return _data(self._front.datastore.read(None, state=state))
        kind = wanted.get("type", wanted.get(f"{{{BASE}}}type", "subtree"))
        if kind != "subtree":
            raise refuse(
                "bad-attribute", f"filter {kind[:80]}", type="protocol", bad_attribute="type", bad_element="filter"
            )
        names = frozenset(map(xml.name, wanted))
        return _data(select(wanted, self._front.datastore.read(names, state=state)))

    def _get_config(self, operation: Element) -> Done:
        _expect_running(operation, "source")
        return self._get(operation, state=False)

    def _edit_config(self, operation: Element) -> Done:
        _expect_running(operation, "target")
        if self._front.locked_by not in (None, self.number):
            raise refuse("in-use", f"running is locked by session {self._front.locked_by}", type="protocol")
        default = xml.text(xml.child(operation, "default-operation")) or "merge"
        if default not in ("merge", "replace", "none"):
            raise refuse(
                "invalid-value", f"default-operation {default[:80]}", type="protocol", bad_element="default-operation"
            )
        config = xml.child(operation, "config")
        if config is None:
            raise refuse("missing-element", "edit-config without config", type="protocol", bad_element="config")
        return self._front.datastore.edit(config, default)

    def _lock(self, operation: Element) -> None:
        _expect_running(operation, "target")
        holder = self._front.locked_by
        if holder is not None:
            raise refuse("lock-denied", f"Session {holder} holds the lock", type="protocol", session_id=str(holder))
        self._front.locked_by = self.number

    def _unlock(self, operation: Element) -> None:
        _expect_running(operation, "target")
        if self._front.locked_by != self.number:
            raise refuse("operation-failed", "This session does not hold the lock", type="protocol")
        self._front.locked_by = None

    def _kill_session(self, operation: Element) -> None:
        word = xml.text(xml.child(operation, "session-id"))
        victim = self._front.session(int(word)) if word.isascii() and word.isdigit() and len(word) <= 10 else None
        if victim is None or victim is self:
            raise refuse("invalid-value", f"session-id {word[:80]}", type="protocol", bad_element="session-id")
        victim.abort()

    def _subscribe(self, operation: Element) -> None:
        stream = xml.text(xml.child(operation, "stream")) or "NETCONF"
        if stream not in STREAMS:
            raise refuse("invalid-value", f"There is no stream {stream[:80]}", bad_element="stream")
        for replay in ("startTime", "stopTime"):
            if xml.child(operation, replay) is not None:
                raise refuse("operation-not-supported", "No replay", type="protocol", bad_element=replay)
        if self._subscribed:
            raise refuse("operation-failed", "This session has subscribed before", type="protocol")
        self._subscribed = True

    def _set_clock(self, operation: Element) -> None:
        """RFC 7317, 3.3; a unit without NTP."""
        name = "current-datetime"
        given = xml.child(operation, name)
        if given is None:
            raise refuse("missing-element", f"{xml.name(operation)} without {name}", bad_element=name)
        word = xml.text(given)
        try:
            unix_s = datetime.fromisoformat(word).timestamp() if DATE_AND_TIME.fullmatch(word) else -1.0
        except ValueError:  # such as the 31st of February
            unix_s = -1.0
        if not 0 <= unix_s < CLOCK_END_S:
            raise refuse("invalid-value", f"{word[:80]} is no time of this clock", bad_element=name)
        self._front.set_clock(unix_s)

    def _set_states(
        self, enable: Callable[[list[int]], None], disable: Callable[[list[int]], None], operation: Element
    ) -> None:
        wanted: dict[str, list[int]] = {"port-enab": [], "port-disab": []}
        for each in operation:
            word = xml.text(each)
            if xml.name(each) not in wanted:
                raise refuse(
                    "unknown-element", f"{xml.name(each)} in {xml.name(operation)}", bad_element=xml.name(each)
                )
            if not (word.isascii() and word.isdigit() and len(word) <= 5):
                raise refuse("invalid-value", f"{word[:80]} is no port", bad_element=xml.name(each))
            wanted[xml.name(each)].append(int(word))
        self._unit.check(port for ports in wanted.values() for port in ports)
        if wanted["port-disab"]:
            disable(wanted["port-disab"])
        if wanted["port-enab"]:
            enable(wanted["port-enab"])


_OK: Final = Element(f"{{{BASE}}}ok")


def _data(containers: list[Element]) -> Element:
    data = Element(f"{{{BASE}}}data")
    data.extend(containers)
    return data


def _expect_running(operation: Element, where: str) -> None:
    stores = xml.child(operation, where)
    if stores is None or not len(stores):
        raise refuse("missing-element", f"{xml.name(operation)} without {where}", type="protocol", bad_element=where)
    store = xml.name(stores[0])
    if store != "running":
        raise refuse(
            "operation-not-supported", f"There is only running, not {store[:80]}", type="protocol", bad_element=store
        )
