"""Host: what is known of one host's agent: which boot lives, its birth, whether it is up."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from hwd.bus.exchange import ClockExchange
from hwd.bus.intake import Intake, Losses
from hwd.timeline.alignment import Alignment
from hwd_agents.wire import Birth, State
from hwd_drivers.kit.documents import Json

Tell = Callable[..., None]
"""`tell(kind, **data)` emits a document."""
CAUSES = {"down": "it stopped in order", "lost": "its connection to the broker was lost"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """A host's agent as others see it. `boot` and `birth` are None until it was first heard of, `alignment` until its clock is known."""

    host: str
    boot: str | None = None
    up: bool = False
    birth: Birth | None = None
    alignment: Alignment | None = None

    def __str__(self) -> str:
        return f"{self.host} {'up' if self.up else 'down'} {self.alignment or 'not aligned'}"

    def to_data(self) -> dict[str, Json]:
        clock = None if self.alignment is None else self.alignment.to_data()
        return {
            "host": self.host,
            "up": self.up,
            "boot": self.boot,
            "version": None if self.birth is None else self.birth.version,
            "clock": clock,
            "ports": {} if self.birth is None else ports_data(self.birth),
            "settings": [] if self.birth is None else settings_data(self.birth),
        }


class Host:
    """The life of one host's agent. A boot begins with its birth and ends when another is born: nothing brings it back.

    `State` and `Birth` come on two topics, hence in any order; the state of a boot that was not born yet waits.
    """

    def __init__(self, name: str, tell: Tell, on_end: Callable[[str], None]) -> None:
        self.name = name
        self.boot: str | None = None
        self.birth: Birth | None = None
        self.up = False
        self.heard_s = 0.0
        self.exchange: ClockExchange | None = None
        self.intakes: dict[str, Intake] = {}
        self.losses = Losses()
        self._tell = tell
        self._on_end = on_end
        self._past: set[str] = set()
        self._early: State | None = None
        self._sent: dict[tuple[str, str], int] = {}

    def next_seq(self, boot: str, type: str) -> int:
        """Number our messages to it, for each boot and type."""
        self._sent[boot, type] = number = self._sent.get((boot, type), 0) + 1
        return number

    def past(self, boot: str) -> bool:
        """Whether another lives now."""
        return self.boot is not None and boot != self.boot

    def forget(self, boot: str) -> None:
        """Its events are in, or given up."""
        del self.intakes[boot]
        self._sent.pop((boot, "ack"), None)

    def take_birth(self, birth: Birth, now_s: float) -> bool:
        """Return whether a new boot began."""
        if birth.boot in self._past:
            return False
        new = birth.boot != self.boot
        if new:
            self.end("a new boot took its place")
            if self.boot is not None:
                self._past.add(self.boot)
            self.boot, self.exchange = birth.boot, ClockExchange(birth.boot)
        if new or self.birth is None or _content(birth) != _content(self.birth):
            self._tell(
                "host.birth",
                host=self.name,
                boot=birth.boot,
                version=birth.version,
                ports=ports_data(birth),
                inventory=birth.inventory,
                settings=settings_data(birth),
            )
        self.birth = birth
        if self._early is not None and self._early.boot == birth.boot:
            state, self._early = self._early, None
            self.take_state(state, now_s)
        return new

    def take_state(self, state: State, now_s: float) -> None:
        """An old will cannot end a new life: only the boot that lives is listened to."""
        if state.boot in self._past:
            return
        if state.boot != self.boot:
            self._early = state
        elif state.state == "up":
            self.alive(now_s)
        else:
            self.end(CAUSES[state.state])

    def alive(self, now_s: float) -> None:
        """It was heard of."""
        self.heard_s = now_s
        if not self.up and self.boot is not None:
            self.up = True
            self._tell("host.up", host=self.name, boot=self.boot)

    def end(self, cause: str) -> None:
        """It is down until it is heard of again."""
        if self.up:
            self.up = False
            self._tell("host.down", host=self.name, boot=self.boot, cause=cause)
        self._on_end(cause)


def ports_data(birth: Birth) -> Mapping[str, Json]:
    data: dict[str, Json] = msgspec.to_builtins(birth.ports)
    return data


def settings_data(birth: Birth) -> Sequence[Json]:
    """What runs have set of its ports and not put back yet."""
    data: list[Json] = msgspec.to_builtins(birth.settings)
    return data


def _content(birth: Birth) -> tuple[object, ...]:
    """What of a birth is news when it differs; an agent sends it at every connect."""
    return birth.version, birth.ports, birth.inventory, birth.settings
