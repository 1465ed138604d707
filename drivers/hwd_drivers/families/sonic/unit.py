"""A SONiC optical switch without its command line: its configuration, its optics, and its refusals."""

from collections.abc import Iterable, Sequence
from typing import Final

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Capabilities, Crossconnect, PortOverride, PortSide
from hwd_drivers.families.sonic.options import TwinOptions
from hwd_drivers.families.sonic.protocol import Mode, Row
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.server import Denial, Faults
from hwd_drivers.twins.timing import SwitchTiming

UP_BEFORE_NS: Final = 3600 * 10**9
"""Uptime of a twin at its start, one hour: a restart after less than a minute or two would not be visible."""


class CommandRefused(Exception):
    """A refusal in the unit's own words; `status` is the exit status of its command, None for the usual one."""

    def __init__(self, text: str, *, status: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


class Unit:
    """A simulated switch: `configured` are the crossconnects of its configuration; `mirror` has those of its optics.

    They differ after trouble: a crossconnect in the optics only is stale.
    """

    def __init__(
        self,
        *,
        name: str,
        capabilities: Capabilities,
        timing: SwitchTiming,
        draws: Draws,
        clock: Clock,
        options: TwinOptions,
    ) -> None:
        self.name = name
        self.capabilities = capabilities
        self.options = options
        self.host_key_draws = draws.stream(f"twin/{name}/host-key")
        self.serial = f"T{draws.stream(f'twin/{name}/serial').randrange(10**6):06d}"
        self.mirror = Mirror(name=name, capabilities=capabilities, timing=timing, draws=draws)
        self.faults = Faults(mirror=self.mirror, clock=clock)
        self.faults.on_reboot.append(self._rebooted)
        self.labels: dict[PortSide, str] = {}
        self._clock = clock
        self._up_since_ns = clock.monotonic_ns() - UP_BEFORE_NS
        self._ends = frozenset(capabilities.ends)
        self._configured: dict[Crossconnect, None] = {}
        self._blocked: set[PortSide] = set()

    def takes(self, user: str, password: str | None) -> bool:
        """Whether the login is valid. Password None: a public key, which only a unit without a password accepts."""
        if self.options.user not in (None, user):
            return False
        return self.options.password is None or self.options.password == password

    @property
    def configured(self) -> list[Crossconnect]:
        """Configured crossconnects in the order of their ports."""
        return sorted(self._configured, key=Crossconnect.sort_key)

    def rows(self) -> list[Row]:
        """The state of each crossconnect in the optics."""
        rows = []
        for reading in self.mirror.readings(self._clock.monotonic_ns()):
            rows.append(Row(pair=reading.crossconnect, a_state=reading.state, b_state=reading.state))
        return rows

    def override(self, end: PortSide) -> PortOverride:
        return PortOverride.FORCE_BLOCKED if end in self._blocked else PortOverride.NORMAL

    def add(self, pairs: Sequence[Crossconnect], mode: Mode) -> float:
        """Make them, all or none; returns the seconds until the answer."""
        wanted = list(dict.fromkeys(pairs))
        self._check(wanted)
        seen: set[PortSide] = set()
        for pair in wanted:
            if not seen.isdisjoint(pair.ends):
                raise CommandRefused(f"Cross-connect {pair}: a port stands twice in the list")
            seen.update(pair.ends)
        there = [*self._configured, *(pair for pair in self.mirror.crossconnects() if pair not in self._configured)]
        kept = frozenset(wanted)
        colliding = [pair for pair in there if pair not in kept and not seen.isdisjoint(pair.ends)]
        if mode is Mode.SAFE and colliding:
            first = next(pair for pair in wanted if not set(pair.ends).isdisjoint(colliding[0].ends))
            raise CommandRefused(f"Cross-connect {first} conflicts with existing cross-connect {colliding[0]}")
        doing, denial = self.faults.take_change(wanted)
        if denial is not None and not doing:
            raise _refusal(denial)
        gone = [pair for pair in there if pair not in kept] if mode is Mode.OVERWRITE else colliding
        now_ns = self._clock.monotonic_ns()
        for pair in gone:
            self._configured.pop(pair, None)
        if gone:
            self.mirror.disconnect(gone, now_ns)
        self._configured |= dict.fromkeys(doing if denial is not None else wanted)
        try:
            settling = self.mirror.connect(doing, now_ns, move=True)
        except (ConfigError, RefusedError) as error:
            raise CommandRefused(str(error)) from error
        if denial is not None:
            raise _refusal(denial)
        return settling.answer_s if self.options.answer == "timing" else 0.0

    def delete(self, pairs: Sequence[Crossconnect]) -> float:
        """Remove them; one that is not configured is refused, even if it is in the optics.

        Returns the seconds until the answer.
        """
        wanted = list(dict.fromkeys(pairs))
        self._check(wanted)
        for pair in wanted:
            if pair not in self._configured:
                raise CommandRefused(f"Cross-connect {pair} does not exist")
        doing, denial = self.faults.take_change(wanted)
        for pair in doing if denial is not None else wanted:
            del self._configured[pair]
        settling = self.mirror.disconnect(doing, self._clock.monotonic_ns()) if doing else None
        if denial is not None:
            raise _refusal(denial)
        return settling.answer_s if settling is not None and self.options.answer == "timing" else 0.0

    def set_port(self, end: PortSide, to: PortOverride) -> None:
        """Make a port dark, or release it."""
        self.check_port(end)
        if (denial := self.faults.take_denial()) is not None:
            raise _refusal(denial)
        now_ns = self._clock.monotonic_ns()
        if to is PortOverride.FORCE_BLOCKED:
            self._blocked.add(end)
            self.mirror.block([end], now_ns)
        else:
            self._blocked.discard(end)
            self.mirror.unblock([end], now_ns)

    def check_port(self, end: PortSide) -> None:
        if end not in self._ends:
            raise CommandRefused(f"Port {end} does not exist")

    def _check(self, pairs: Iterable[Crossconnect]) -> None:
        for pair in pairs:
            for end in pair.ends:
                self.check_port(end)

    @property
    def uptime_s(self) -> float:
        """Seconds since its last start."""
        return (self._clock.monotonic_ns() - self._up_since_ns) / 1e9

    def close(self) -> None:
        """Nothing happens by itself."""

    def _rebooted(self) -> None:
        """Restore the stored configuration when the unit is up."""
        self._up_since_ns = self._clock.monotonic_ns()
        if self.options.startup == "dark":
            self._configured.clear()
            self._blocked.clear()
            return
        now_ns = self._clock.monotonic_ns()
        self.mirror.connect(list(self._configured), now_ns, move=True)
        self.mirror.block(self._blocked, now_ns)


def _refusal(denial: Denial) -> CommandRefused:
    return CommandRefused(denial.text or denial.code, status=int(denial.code) if denial.code.isdigit() else None)
