"""A Polatis unit without any of its protocols: what all of them read and change, and what it says no to.

Ports are the unit's own numbers. Times come from the clock that the unit is given; what takes time returns the seconds until it is to be answered.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.errors import RefusedError
from hwd_drivers.kit.ids import Draws
from hwd_drivers.kit.mirror import Mirror
from hwd_drivers.kit.server import Faults
from hwd_drivers.kit.timing import SwitchTiming
from hwd_drivers.kit.values import Capabilities, Crossconnect, PortSide
from hwd_drivers.polatis.numbering import Numbering, UnitError, Wrong
from hwd_drivers.polatis.options import TwinOptions

FIRMWARE: Final = "6.5.1.7"
"""A version that real units were seen with."""
LABEL_LIMIT: Final = 64
"""Most characters of a port's label: nothing says how many there may be."""
KEPT_CROSSCONNECTS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """What a unit says it is."""

    vendor: str
    code: str
    serial: str
    firmware: str


class Unit:
    """One unit: `mirror` is its optics, `faults` what goes wrong with it, `labels` the names of its ports.

    Every method that takes ports raises UnitError for one that the unit does not have, and then has done nothing unless `options.lists` says otherwise.
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
        self.clock = clock
        self.numbering = Numbering.of(capabilities.ends)
        self.numbers = {end: self.numbering.number(end) for end in capabilities.ends}
        self.crossconnect = functools.lru_cache(maxsize=KEPT_CROSSCONNECTS)(self.numbering.crossconnect)
        self.monitored = frozenset(self.numbers[end] for end in capabilities.monitored)
        self.product = _product(self.numbering, draws.stream(f"twin/{name}/serial").randrange(10**6))
        self.mirror = Mirror(name=name, capabilities=capabilities, timing=timing, draws=draws)
        self.faults = Faults(mirror=self.mirror, clock=clock)
        self.labels: dict[int, str] = {}
        self.disabled: set[int] = set()
        self.shut: set[int] = set()

    # --- logins

    def takes(self, user: str, password: str) -> bool:
        """Whether it is a login of this unit."""
        return self.options.user in (None, user) and self.options.password in (None, password)

    # --- crossconnects

    def pairs(self, ports: Sequence[int] | None = None) -> list[tuple[int, int]]:
        """Port numbers of all crossconnects, or of those that one of `ports` is in; the input (the lower port) stands first."""
        if ports is not None:
            self.check(ports)
        asked = None if ports is None else frozenset(ports)
        pairs = [(self.numbers[each.a], self.numbers[each.b]) for each in self.mirror.crossconnects()]
        return [pair for pair in pairs if asked is None or not asked.isdisjoint(pair)]

    def peer(self, port: int) -> int | None:
        """The port that this one is joined to."""
        pair = self.mirror.crossconnect_at(self.numbering.end(port))
        if pair is None:
            return None
        one, other = (self.numbers[end] for end in pair.ends)
        return other if one == port else one

    def connect(self, pairs: Sequence[tuple[int, int]]) -> float:
        """Join the ports of each pair; returns the seconds until it is to be answered."""
        self.deny_if_told()
        if self.options.lists == "whole":
            return self._connect(self._wanted(pairs))
        answer_s = 0.0
        for pair in pairs:
            answer_s = max(answer_s, self._connect(self._wanted([pair])))
        return answer_s

    def connect_only(self, pairs: Sequence[tuple[int, int]]) -> float:
        """Join the ports of each pair and drop all other crossconnects."""
        self.deny_if_told()
        wanted = self._wanted(pairs)
        kept = frozenset(wanted)
        dropped_s = self._disconnect(each for each in self.mirror.crossconnects() if each not in kept)
        return max(dropped_s, self._connect(wanted)) if wanted else dropped_s

    def disconnect(self, ports: Sequence[int] | None) -> float:
        """Drop the crossconnects of these ports, either end names one; None is all. Ports without one are no error."""
        self.deny_if_told()
        if ports is None:
            return self._disconnect(self.mirror.crossconnects())
        ends = [self.numbering.end(port) for port in ports]
        return self._disconnect(
            dict.fromkeys(pair for end in ends if (pair := self.mirror.crossconnect_at(end)) is not None)
        )

    def disconnect_pairs(self, pairs: Sequence[tuple[int, int]]) -> float:
        """Drop exactly these crossconnects; one that is not there is no error."""
        self.deny_if_told()
        return self._disconnect([self.crossconnect(one, other) for one, other in pairs])

    # --- ports

    def check(self, ports: Iterable[int]) -> None:
        """Raises UnitError for a port that this unit does not have."""
        for port in ports:
            if not 1 <= port <= self.numbering.total:
                raise UnitError(Wrong.PORT, f"Invalid OXC port: {port}")

    def label(self, port: int, text: str) -> None:
        """Name a port; an empty text takes its name away."""
        self.check((port,))
        if len(text) > LABEL_LIMIT or not text.isprintable() or ";" in text:
            raise UnitError(
                Wrong.VALUE, f"Label of port {port}: over {LABEL_LIMIT} characters, or one that is not allowed"
            )
        if text:
            self.labels[port] = text
        else:
            self.labels.pop(port, None)

    # --- power

    def powers(self, ports: Sequence[int]) -> list[tuple[int, float | None]]:
        """What the monitors of these ports read, in dBm; None is dark."""
        if not self.monitored:
            raise UnitError(Wrong.HARDWARE)
        ends = [self.numbering.end(port) for port in ports]
        for port in ports:
            if port not in self.monitored:
                raise UnitError(Wrong.PORT, f"No power monitor at port: {port}")
        now_ns = self.clock.monotonic_ns()
        return [(port, self.mirror.power(end, now_ns)) for port, end in zip(ports, ends, strict=True)]

    # --- inside

    def deny_if_told(self) -> None:
        """For each change: raises UnitError where the faults say that the next one is denied."""
        if (denial := self.faults.take_denial()) is not None:
            raise UnitError(Wrong.TOLD, denial.text, code=denial.code)

    def _wanted(self, pairs: Sequence[tuple[int, int]]) -> list[Crossconnect]:
        options = self.options
        if options.order == "lower-first" and (turned := [pair for pair in pairs if pair[0] > pair[1]]):
            self.check(turned[0])
            raise UnitError(Wrong.SIDE, f"Port {turned[0][1]} has to stand before port {turned[0][0]}")
        wanted = [self.crossconnect(one, other) for one, other in pairs]
        if options.in_use != "move" or options.duplicates == "deny":
            _deny_twice(pairs)
            return wanted
        last: dict[PortSide, Crossconnect] = {end: pair for pair in wanted for end in pair.ends}
        return [pair for pair in dict.fromkeys(wanted) if all(last[end] == pair for end in pair.ends)]

    def _connect(self, wanted: Sequence[Crossconnect]) -> float:
        try:
            settling = self.mirror.connect(wanted, self.clock.monotonic_ns(), move=self.options.in_use == "move")
        except RefusedError as error:
            raise UnitError(Wrong.IN_USE, str(error)) from error
        return settling.answer_s if self.options.answer == "timing" else 0.0

    def _disconnect(self, going: Iterable[Crossconnect]) -> float:
        settling = self.mirror.disconnect(going, self.clock.monotonic_ns())
        return settling.answer_s if self.options.answer == "timing" else 0.0


def _deny_twice(pairs: Sequence[tuple[int, int]]) -> None:
    seen: set[int] = set()
    for port in (port for pair in pairs for port in pair):
        if port in seen:
            raise UnitError(Wrong.LIST, f"Port {port} stands twice in the list")
        seen.add(port)


def _product(numbering: Numbering, serial: int) -> Product:
    """A product code as real units have it, such as N-OST-24x24-LA1-DMHNS."""
    return Product(vendor="Polatis", code=f"N-OST-{numbering}-LA1-TWIN", serial=f"T{serial:06d}", firmware=FIRMWARE)
