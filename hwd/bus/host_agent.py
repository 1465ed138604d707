"""HostAgent: the state of one host's agent, by its messages: its current boot, its birth, and whether it is up."""

import logging
from collections.abc import Callable, Mapping

import msgspec

from hwd.bus.allowance import Allowance
from hwd.bus.birth_data import selection_trouble, spool_of, troubles, wall_clock
from hwd.bus.clocks.clock_exchange import ClockExchange
from hwd.bus.intake import Intake, Losses
from hwd.bus.rival import Rival
from hwd.model.host import BUS_BACK, NEVER_CONNECTED, HostBirth, HostDown, HostPort, HostStatus, HostUp
from hwd.timeline.alignment import Alignment
from hwd_agents.wire import Birth, Event, PortNote, State, encode
from hwd_agents.wire.events import RdmaData
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.structs import from_plain, to_plain

Emit = Callable[[Fact], None]
"""`emit(fact)` emits a document."""
CAUSES = {"down": "it stopped in order", "lost": "its connection to the broker was lost"}
BUS_AWAY = "the broker is not connected"
PAST_MOST = 4096
"""Past boots that are remembered: an hour of the fastest that new ones may come."""

log = logging.getLogger(__name__)


class HostAgent:
    """The state of one host's agent.

    A boot is one start of the agent's process. The first birth of a boot makes it the current one. Another boot takes
    its place when the current one has stopped, was lost, or does not answer any more: until then the other is a
    `rival`.

    `State` and `Birth` come on two topics, hence in any order. A state that comes before the birth of its boot waits.

    `stale`: the ports may have changed since the agent reported them. They are stale at first, and after each
    disconnect: a broker retains a birth as it was when it was sent, and acknowledged events are not sent again.

    `boot` and `birth` are None until the agent first connects. `cause`: why it is not up. `lost`: events that are gone,
    and flaps that nobody saw one by one, since the daemon started. `exchange`: the requests that align its clock.
    `alignments`: of the clocks of all boots.
    """

    def __init__(
        self,
        name: str,
        emit: Emit,
        on_end: Callable[[str], None],
        allowance: Allowance,
        alignments: Mapping[str, Alignment],
    ) -> None:
        self.name = name
        self.allowance = allowance
        self._alignments = alignments
        self._emitted: tuple[object, ...] | None = None  # the content of the last `host.birth`
        self.boot: str | None = None
        self.birth: Birth | None = None
        self.up = False
        self.stale = True
        self.cause = NEVER_CONNECTED
        self.last_message_s: float | None = None
        self.exchange: ClockExchange | None = None
        self.intakes: dict[str, Intake] = {}
        self.losses = Losses()
        self.lost = 0
        self._emit = emit
        self._on_end = on_end
        self.rival: Rival | None = None
        self._ended = True  # the current boot stopped, was lost, or was silent
        self._past: dict[str, None] = {}
        self._early_state: State | None = None
        self._sent: dict[tuple[str, str], int] = {}
        self._warned = False
        self._troubles: dict[str, str] = {}
        self._carrier_events: dict[str, Event] = {}  # by port: the last one
        self._rdma: dict[str, bool | None] = {}

    def next_seq(self, boot: str, type: str) -> int:
        """The sequence number of the next message to this agent, by boot and type."""
        self._sent[boot, type] = number = self._sent.get((boot, type), 0) + 1
        return number

    @property
    def alignment(self) -> Alignment | None:
        """The alignment of the clock of the current boot; None where it was not measured yet."""
        return None if self.boot is None else self._alignments.get(self.boot)

    def status(
        self,
        ports: Mapping[str, HostPort],
        *,
        heard_wall_ns: int | None,
        since_wall_ns: int | None,
        trouble: str,
        skew: str,
    ) -> HostStatus:
        """The status of the host. `trouble`: the work of the daemon that fails for it; empty where all works."""
        birth, exchange, alignment = self.birth, self.exchange, self.alignment
        return HostStatus(
            host=self.name,
            up=self.up,
            cause=self.cause,
            since_wall_ns=since_wall_ns,
            heard_wall_ns=heard_wall_ns,
            boot=self.boot,
            version=None if birth is None else birth.version,
            clock=None if exchange is None or alignment is None else exchange.status(alignment),
            wall_clock=None if birth is None else wall_clock(birth),
            ports=dict(ports),
            settings=[] if birth is None else birth.settings,
            lost=self.lost,
            rival=None if self.rival is None else self.rival.birth.boot,
            trouble=trouble,
            spool=None if birth is None else spool_of(birth),
            selection="" if birth is None else selection_trouble(birth),
            skew=skew,
        )

    def is_new(self, boot: str) -> bool:
        """Whether this boot is neither the current one nor a past one."""
        return boot != self.boot and boot not in self._past

    def past(self, boot: str) -> bool:
        """Whether another boot is the current one."""
        return self.boot is not None and boot != self.boot

    def same_clock(self, boot: str) -> bool:
        """Whether `boot` has the clock of the current boot: a clock runs on when the agent of its host is restarted."""
        return boot in self.intakes and self.has_clock(self.intakes[boot].clock)

    def has_clock(self, name: str) -> bool:
        """Whether the clock of the current boot has this name."""
        return bool(name) and self.birth is not None and self.birth.clock == name

    def forget(self, boot: str) -> None:
        """Delete the state of a past boot, whose events were all emitted or dropped."""
        del self.intakes[boot]
        self._sent.pop((boot, "ack"), None)

    def take_birth(self, birth: Birth, now_s: float, *, retained: bool = False) -> bool:
        """Return whether its boot became the current one.

        `retained`: the broker had stored it, so that its carriers are of an unknown time.

        Where the current boot may still run, or this one had ended, the birth becomes that of the `rival`:
        `promote_rival` says later whether it takes over.
        """
        past = birth.boot in self._past
        if past and retained:
            return False
        if birth.boot != self.boot and (past or not self._ended):
            if self.rival is not None and self.rival.birth.boot == birth.boot:
                self.rival.renew(birth, now_s, retained=retained)
            else:
                self.rival = Rival(birth=birth, retained=retained, asked_s=now_s)
            return False
        return self._take(birth, now_s, retained=retained)

    def promote_rival(self, now_s: float, *, connected: bool) -> Rival | None:
        """Make the rival the current boot where it may be, and return it; None where there is none, or it has to wait.

        Call it each second. Without a broker the current boot cannot answer, so the rival waits.
        """
        rival = self.rival
        if rival is None:
            return None
        if not connected:
            rival.asked_s, rival.refused = now_s, False
            return None
        if not (self._ended and rival.birth.boot not in self._past):
            if rival.refused and not self._ended:
                return None
            if not self._ended and rival.was_answered(self.last_message_s):
                self._refuse(rival)
                return None
            if rival.has_to_wait(now_s):
                return None
        self.rival = None
        self._take(rival.birth, now_s, retained=rival.retained)
        return rival

    def _refuse(self, rival: Rival) -> None:
        rival.refused = True
        if not rival.logged:
            rival.logged = True
            log.warning(
                "%s: another agent, boot %s, says that it is this host; it is not listened to, as boot %s answers. "
                "Does one run twice, or does somebody know its password?",
                self.name,
                rival.birth.boot,
                self.boot,
            )

    def _take(self, birth: Birth, now_s: float, *, retained: bool) -> bool:
        if retained:
            birth = _without_states(birth)
        new = birth.boot != self.boot
        if new:
            self.end("a new boot took its place")
            if self.boot is not None:
                self._past[self.boot] = None
                if len(self._past) > PAST_MOST:
                    del self._past[next(iter(self._past))]
            self._past.pop(birth.boot, None)
            self.boot, self.exchange = birth.boot, ClockExchange(birth.boot)
            self._ended = False
            self._carrier_events.clear()
        self._set_birth(birth)
        if self._early_state is not None and self._early_state.boot == birth.boot:
            state, self._early_state = self._early_state, None
            self.take_state(state, now_s)
        return new

    def take_state(self, state: State, now_s: float) -> None:
        """Take the state of the current boot. That of a past one, such as an old will, changes nothing."""
        if self.rival is not None and state.boot == self.rival.birth.boot and state.state != "up":
            self.rival = None
        if state.boot in self._past:
            return
        if state.boot != self.boot:
            self._early_state = state
        elif state.state == "up":
            self.alive(now_s)
        elif not self.up or self.allowance.state():
            self.end(CAUSES[state.state])

    def alive(self, now_s: float) -> None:
        """A message of the current boot came, so its agent runs."""
        before_s, self.last_message_s = self.last_message_s, now_s
        self._ended = False
        if not self.up and self.boot is not None:
            if self._warned and before_s is not None:
                log.info("%s: agent up again; nothing was heard of it for %.1f s", self.name, now_s - before_s)
            self.up, self.cause, self._warned = True, "", False
            self._emit(HostUp(host=self.name, boot=self.boot))

    def silent_s(self, now_s: float) -> float:
        """How long ago its last message came; 0 where none came yet."""
        return 0.0 if self.last_message_s is None else now_s - self.last_message_s

    def event(self, event: Event) -> None:
        """Take an event of the current boot, of a carrier, an interface or an RDMA device."""
        if event.port is None:
            return
        if isinstance(event.data, RdmaData):
            self._rdma[event.port] = event.data.active
        else:
            self._carrier_events[event.port] = event

    def refresh(
        self, ports: Mapping[str, PortNote], states: Mapping[str, Mapping[str, bool | None]], at_ns: int
    ) -> None:
        """Take its ports and their states by instant at `at_ns` of its clock; later carrier events override them."""
        if self.birth is None:
            return
        self._rdma = {port: of_port.get("rdma") for port, of_port in states.items()}
        inventory = msgspec.structs.replace(
            self.birth.inventory, states={port: dict(of_port) for port, of_port in states.items()}
        )
        now = {
            port: _after(note, event)
            if (event := self._carrier_events.get(port)) is not None and event.at_ns > at_ns
            else note
            for port, note in ports.items()
        }
        self.stale = False
        self._set_birth(msgspec.structs.replace(self.birth, ports=now, inventory=inventory))

    @property
    def why_down(self) -> str:
        """Why no command can be sent to it, in words."""
        return self.cause if self.cause in (NEVER_CONNECTED, BUS_AWAY) else f"its agent is down: {self.cause}"

    def end(self, cause: str) -> None:
        """Mark it down until its next message."""
        self._ended = True
        self._set_down(cause)
        if self.boot is not None:
            self.cause = cause
            self._warn()
        self._on_end(cause)

    def refused(self, why: str) -> None:
        """The broker refused a client with its id. While the agent is up, that was another client."""
        if not self.up:
            self.cause = f"the broker refuses its agent: {why}. `hwd agent deploy {self.name}` brings it its password"

    def bus_down(self) -> None:
        """The broker is not connected. A command that was sent may still be answered when it is."""
        self._set_down(BUS_AWAY)

    def bus_up(self) -> None:
        if self.cause == BUS_AWAY:
            self.cause = BUS_BACK

    def silent_since_bus_up(self) -> None:
        """The broker has been connected long enough for its agent to send something: log that it is down."""
        if self.cause == BUS_BACK:
            self._warn()

    def _set_down(self, cause: str) -> None:
        if self.birth is not None:
            self.birth = _without_states(self.birth)
            self._emitted = _content(self.birth)
        self.stale = True
        self._rdma.clear()
        if self.up and self.boot is not None:
            self.up, self.cause = False, cause
            self._emit(HostDown(host=self.name, boot=self.boot, cause=cause))

    def _warn(self) -> None:
        """Log that it is down, once. The bus logs the loss of the broker itself."""
        if not self._warned:
            self._warned = True
            level = logging.INFO if self.cause == CAUSES["down"] else logging.WARNING  # somebody stopped it
            log.log(level, "%s: agent down: %s", self.name, self.cause)

    def _log_troubles(self, found: dict[str, str]) -> None:
        """Log each trouble once when it begins and once when it ends."""
        for subject, why in found.items():
            if subject not in self._troubles:
                log.warning("%s: %s: %s", self.name, subject, why)
        for subject in self._troubles:
            if subject not in found:
                log.info("%s: %s: well again", self.name, subject)
        self._troubles = found

    def _set_birth(self, birth: Birth) -> None:
        before, self.birth = self.birth, birth
        self._log_troubles(troubles(birth))
        self.emit_birth(is_first=before is None or before.boot != birth.boot)

    def emit_birth(self, *, is_first: bool = False, quietly: bool = False) -> None:
        """Emit `host.birth` where its content has changed since the last one.

        A change over the allowance is emitted later, in its state of then: call it each second, `quietly`.
        """
        birth = self.birth
        if birth is None or (content := _content(birth)) == self._emitted:
            return
        if is_first or self.allowance.birth(len(encode(birth)), quietly=quietly):
            self._emitted = content
            self._emit(
                HostBirth(
                    host=self.name,
                    boot=birth.boot,
                    version=birth.version,
                    ports={
                        port: HostPort(**msgspec.structs.asdict(note), rdma=self._rdma.get(port))
                        for port, note in birth.ports.items()
                    },
                    inventory=birth.inventory,
                    settings=birth.settings,
                    wall_clock=wall_clock(birth),
                )
            )


def _content(birth: Birth) -> tuple[object, ...]:
    """The part of a birth whose change is worth a document; an agent sends the birth at every connect."""
    return birth.boot, birth.version, birth.ports, birth.inventory, birth.settings, wall_clock(birth)


def _without_states(birth: Birth) -> Birth:
    """Leave out the states of the ports, which may be old."""
    ports = {
        port: msgspec.structs.replace(note, carrier=None, carrier_changes=None) for port, note in birth.ports.items()
    }
    inventory = msgspec.structs.replace(birth.inventory, states=None)
    return msgspec.structs.replace(birth, ports=ports, inventory=inventory)


def _after(note: PortNote, event: Event) -> PortNote:
    """The note of a port, changed by an event."""
    fields = to_plain(event.data)
    changed = {key: fields[key] for key in ("carrier", "carrier_changes", "present") if key in fields}
    return from_plain({**to_plain(note), **changed}, PortNote)
