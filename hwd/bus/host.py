"""Host: what is known of one host's agent: which boot lives, its birth, whether it is up."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from hwd.bus.allowance import Allowance
from hwd.bus.clocks.exchange import ClockExchange
from hwd.bus.intake import Intake, Losses
from hwd.bus.rival import Rival
from hwd.timeline.alignment import Alignment
from hwd_agents.wire import Birth, Event, PortNote, SpoolNote, State, encode
from hwd_drivers.core.documents import Json

Tell = Callable[..., None]
"""`tell(kind, **data)` emits a document."""
CAUSES = {"down": "it stopped in order", "lost": "its connection to the broker was lost"}
NEVER_HEARD = "no agent of it was heard since the daemon started"
BUS_AWAY = "the broker is not connected"
PAST_MOST = 4096
"""Past boots that are remembered: an hour of the fastest that new ones may come."""
BUS_BACK = "nothing was heard of it since the broker is back"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """A host's agent as others see it.

    `boot` and `birth` are None until it was first heard of, `alignment` until its clock is known.

    `lost`: its events that are gone, and flaps that nobody saw one by one, since the daemon started. `asked`:
    `ClockExchange.to_data`. `trouble`: what the daemon fails to do for it, empty where all works. `cause`: why it is
    not up; `heard_wall_ns`: when something was heard of it last. The carrier of a port is None where it is not known as
    of now. `rival`: another boot that says that it is this host, and is not listened to while this one answers.
    """

    host: str
    boot: str | None = None
    up: bool = False
    cause: str = NEVER_HEARD
    heard_wall_ns: int | None = None
    birth: Birth | None = None
    alignment: Alignment | None = None
    asked: Mapping[str, Json] = field(default_factory=dict)
    lost: int = 0
    trouble: str = ""
    rival: str | None = None

    def __str__(self) -> str:
        return f"{self.host} {'up' if self.up else 'down'} {self.alignment or 'not aligned'}"

    def to_data(self) -> dict[str, Json]:
        return {
            "host": self.host,
            "up": self.up,
            "cause": self.cause,
            "heard_wall_ns": self.heard_wall_ns,
            "boot": self.boot,
            "version": None if self.birth is None else self.birth.version,
            "clock": None if self.alignment is None else {**self.alignment.to_data(), **self.asked},
            "wall_clock": None if self.birth is None else wall_data(self.birth),
            "ports": {} if self.birth is None else dict(ports_data(self.birth)),
            "settings": [] if self.birth is None else settings_data(self.birth),
            "lost": self.lost,
            "rival": self.rival,
            "trouble": self.trouble,
            "spool": None if self.birth is None else spool_data(self.birth),
            "selection": "" if self.birth is None else selection_trouble(self.birth),
        }


class Host:
    """The life of one host's agent.

    A boot begins with its birth. Another takes its place when it said farewell, was lost, or does not answer any more:
    until then that one is a `rival`.

    `State` and `Birth` come on two topics, hence in any order; the state of a boot that was not born yet waits.

    `stale`: whatever it told of its ports may have changed since. So it is from the start, and whenever it was away: a
    broker keeps births as they were when they were sent, and events that were acknowledged do not come again.
    """

    def __init__(self, name: str, tell: Tell, on_end: Callable[[str], None], allowance: Allowance) -> None:
        self.name = name
        self.allowance = allowance
        self._told_birth: tuple[object, ...] | None = None  # its content
        self.boot: str | None = None
        self.birth: Birth | None = None
        self.up = False
        self.stale = True
        self.cause = NEVER_HEARD
        self.heard_s: float | None = None
        self.exchange: ClockExchange | None = None
        self.intakes: dict[str, Intake] = {}
        self.losses = Losses()
        self.lost = 0
        self._tell = tell
        self._on_end = on_end
        self.rival: Rival | None = None
        self._gone = True  # it said farewell, was lost, or was silent
        self._past: dict[str, None] = {}
        self._early: State | None = None
        self._sent: dict[tuple[str, str], int] = {}
        self._warned = False
        self._troubles: dict[str, str] = {}
        self._told: dict[str, Event] = {}  # by port: the last event of its carrier
        self._rdma: dict[str, bool | None] = {}

    def next_seq(self, boot: str, type: str) -> int:
        """Number our messages to it, for each boot and type."""
        self._sent[boot, type] = number = self._sent.get((boot, type), 0) + 1
        return number

    def is_new(self, boot: str) -> bool:
        """Whether it would take the place of the boot that lives."""
        return boot != self.boot and boot not in self._past

    def past(self, boot: str) -> bool:
        """Whether another lives now."""
        return self.boot is not None and boot != self.boot

    def same_clock(self, boot: str) -> bool:
        """Whether the present boot's clock stamps the events of `boot` too: a clock outlives the agents of its host."""
        return boot in self.intakes and self.has_clock(self.intakes[boot].clock)

    def has_clock(self, name: str) -> bool:
        """Whether the clock of the boot that lives has this name."""
        return bool(name) and self.birth is not None and self.birth.clock == name

    def forget(self, boot: str) -> None:
        """Its events are in, or given up."""
        del self.intakes[boot]
        self._sent.pop((boot, "ack"), None)

    def take_birth(self, birth: Birth, now_s: float, *, retained: bool = False) -> bool:
        """Return whether a new boot began.

        `retained`: the broker kept it, so its carriers are those of whenever it was sent.

        Where the boot that lives may still be there, or this one had ended, it becomes the `rival`: `successor` says
        whether its time has come.
        """
        past = birth.boot in self._past
        if past and retained:
            return False
        if birth.boot != self.boot and (past or not self._gone):
            if self.rival is not None and self.rival.birth.boot == birth.boot:
                self.rival.again(birth, now_s, retained=retained)
            else:
                self.rival = Rival(birth=birth, retained=retained, asked_s=now_s)
            return False
        return self._take(birth, now_s, retained=retained)

    def successor(self, now_s: float, *, connected: bool) -> Rival | None:
        """The rival that has just taken the place of the boot that lived; None where none has.

        Ask it now and then; without a broker nobody can answer.
        """
        rival = self.rival
        if rival is None:
            return None
        if not connected:
            rival.asked_s, rival.refused = now_s, False
            return None
        if not (self._gone and rival.birth.boot not in self._past):
            if rival.refused and not self._gone:
                return None
            if not self._gone and rival.hears(self.heard_s):
                self._refuse(rival)
                return None
            if rival.waits(now_s):
                return None
        self.rival = None
        self._take(rival.birth, now_s, retained=rival.retained)
        return rival

    def _refuse(self, rival: Rival) -> None:
        rival.refused = True
        if not rival.told:
            rival.told = True
            log.warning(
                "%s: another agent, boot %s, says that it is this host; it is not listened to, as boot %s answers. "
                "Does one run twice, or does somebody know its password?",
                self.name,
                rival.birth.boot,
                self.boot,
            )

    def _take(self, birth: Birth, now_s: float, *, retained: bool) -> bool:
        if retained:
            birth = _without_carrier(birth)
        new = birth.boot != self.boot
        if new:
            self.end("a new boot took its place")
            if self.boot is not None:
                self._past[self.boot] = None
                if len(self._past) > PAST_MOST:
                    del self._past[next(iter(self._past))]
            self._past.pop(birth.boot, None)
            self.boot, self.exchange = birth.boot, ClockExchange(birth.boot)
            self._gone = False
            self._told.clear()
        self._born(birth)
        if self._early is not None and self._early.boot == birth.boot:
            state, self._early = self._early, None
            self.take_state(state, now_s)
        return new

    def take_state(self, state: State, now_s: float) -> None:
        """An old will cannot end a new life: only the boot that lives is listened to."""
        if self.rival is not None and state.boot == self.rival.birth.boot and state.state != "up":
            self.rival = None
        if state.boot in self._past:
            return
        if state.boot != self.boot:
            self._early = state
        elif state.state == "up":
            self.alive(now_s)
        elif not self.up or self.allowance.state():
            self.end(CAUSES[state.state])

    def alive(self, now_s: float) -> None:
        """It was heard of."""
        before_s, self.heard_s = self.heard_s, now_s
        self._gone = False
        if not self.up and self.boot is not None:
            if self._warned and before_s is not None:
                log.info("%s: agent up again; nothing was heard of it for %.1f s", self.name, now_s - before_s)
            self.up, self.cause, self._warned = True, "", False
            self._tell("host.up", host=self.name, boot=self.boot)

    def silent_s(self, now_s: float) -> float:
        """For how long nothing was heard of it."""
        return 0.0 if self.heard_s is None else now_s - self.heard_s

    def event(self, event: Event) -> None:
        """One of the boot that lives, of a carrier, an interface or an RDMA device."""
        if event.port is None:
            return
        if event.kind == "rdma":
            active = event.data.get("active")
            self._rdma[event.port] = active if isinstance(active, bool) else None
        else:
            self._told[event.port] = event

    def refresh(self, ports: Mapping[str, PortNote], rdma: Mapping[str, bool | None], at_ns: int) -> None:
        """Take the state of its ports and their RDMA devices at `at_ns` of its clock; later events of carriers hold."""
        if self.birth is None:
            return
        self._rdma = dict(rdma)
        now = {
            port: _after(note, event) if (event := self._told.get(port)) is not None and event.at_ns > at_ns else note
            for port, note in ports.items()
        }
        self.stale = False
        self._born(msgspec.structs.replace(self.birth, ports=now))

    @property
    def why_down(self) -> str:
        """Why it cannot be asked, in words."""
        return self.cause if self.cause in (NEVER_HEARD, BUS_AWAY) else f"its agent is down: {self.cause}"

    def end(self, cause: str) -> None:
        """It is down until it is heard of again."""
        self._gone = True
        self._away(cause)
        if self.boot is not None:
            self.cause = cause
            self._warn()
        self._on_end(cause)

    def refused(self, why: str) -> None:
        """The broker let nobody in under its name; of a host that is heard of this is somebody else's trouble."""
        if not self.up:
            self.cause = f"the broker refuses its agent: {why}. `hwd agent deploy {self.name}` brings it its password"

    def bus_down(self) -> None:
        """Nothing can be heard of it; what it was asked it may still answer."""
        self._away(BUS_AWAY)

    def bus_up(self) -> None:
        if self.cause == BUS_AWAY:
            self.cause = BUS_BACK

    def missed(self) -> None:
        """It has had its time to be heard since the broker is back."""
        if self.cause == BUS_BACK:
            self._warn()

    def _away(self, cause: str) -> None:
        if self.birth is not None:
            self.birth = _without_carrier(self.birth)
            self._told_birth = _content(self.birth)
        self.stale = True
        self._rdma.clear()
        if self.up:
            self.up, self.cause = False, cause
            self._tell("host.down", host=self.name, boot=self.boot, cause=cause)

    def _warn(self) -> None:
        """Once, until it is heard of again. Of a broker that is away the bus itself has told."""
        if not self._warned:
            self._warned = True
            level = logging.INFO if self.cause == CAUSES["down"] else logging.WARNING  # somebody stopped it
            log.log(level, "%s: agent down: %s", self.name, self.cause)

    def _warn_of(self, found: dict[str, str]) -> None:
        """Once each, and once when it is over."""
        for subject, why in found.items():
            if subject not in self._troubles:
                log.warning("%s: %s: %s", self.name, subject, why)
        for subject in self._troubles:
            if subject not in found:
                log.info("%s: %s: well again", self.name, subject)
        self._troubles = found

    def _born(self, birth: Birth) -> None:
        before, self.birth = self.birth, birth
        self._warn_of(troubles(birth))
        self.tell_birth(anew=before is None or before.boot != birth.boot)

    def tell_birth(self, *, anew: bool = False, quietly: bool = False) -> None:
        """Where it is other than it was told.

        What is too much now is told later, as it is then: call it now and then, `quietly`.
        """
        birth = self.birth
        if birth is None or (content := _content(birth)) == self._told_birth:
            return
        if anew or self.allowance.birth(len(encode(birth)), quietly=quietly):
            self._told_birth = content
            self._tell(
                "host.birth",
                host=self.name,
                boot=birth.boot,
                version=birth.version,
                ports={port: {**note, "rdma": self._rdma.get(port)} for port, note in ports_data(birth).items()},
                inventory=inventory_data(birth),
                settings=settings_data(birth),
                wall_clock=wall_data(birth),
            )


def ports_data(birth: Birth) -> Mapping[str, dict[str, Json]]:
    data: dict[str, dict[str, Json]] = msgspec.to_builtins(birth.ports)
    return data


def inventory_data(birth: Birth) -> dict[str, Json]:
    """What the host says of itself, as far as it does."""
    data: dict[str, Json] = msgspec.to_builtins(birth.inventory)
    return data


def settings_data(birth: Birth) -> Sequence[Json]:
    """What runs have set of its ports and not put back yet."""
    data: list[Json] = msgspec.to_builtins(birth.settings)
    return data


def spool_data(birth: Birth) -> Mapping[str, Json]:
    """`bytes`, `limit_bytes`, and `trouble`: what is wrong with it and its remedy, or empty."""
    found = birth.inventory.spool or SpoolNote()
    return {"bytes": found.bytes, "limit_bytes": found.limit_bytes, "trouble": found.why or ""}


def troubles(birth: Birth) -> dict[str, str]:
    """What is wrong on the host until somebody mends it, with its remedy: its spool, and ports without an interface."""
    found = {"spool": why} if (why := str(spool_data(birth).get("trouble") or "")) else {}
    for port, note in birth.ports.items():
        if not note.present and (link := note.sources.get("link")) is not None and link.why_not:
            found[port] = link.why_not
    return found


def selection_trouble(birth: Birth) -> str:
    """Why jobs of the host cannot ask for its own switches; empty where they can, or where it has none."""
    return "" if birth.inventory.selection is None else birth.inventory.selection.why_not


def wall_data(birth: Birth) -> dict[str, Json] | None:
    """What keeps the wall clock of the host; None where its agent does not say. Nothing is put in order by it."""
    if birth.clocks is None or birth.clocks.wall is None:
        return None
    data: dict[str, Json] = msgspec.to_builtins(birth.clocks.wall)
    return data


def _content(birth: Birth) -> tuple[object, ...]:
    """What of a birth is news when it differs; an agent sends it at every connect."""
    return birth.boot, birth.version, birth.ports, birth.inventory, birth.settings, wall_data(birth)


def _without_carrier(birth: Birth) -> Birth:
    ports = {
        port: msgspec.structs.replace(note, carrier=None, carrier_changes=None) for port, note in birth.ports.items()
    }
    return msgspec.structs.replace(birth, ports=ports)


def _after(note: PortNote, event: Event) -> PortNote:
    """A port as an event left it."""
    told = {key: event.data[key] for key in ("carrier", "carrier_changes", "present") if key in event.data}
    return msgspec.convert({**msgspec.to_builtins(note), **told}, PortNote)
