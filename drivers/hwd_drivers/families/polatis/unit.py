"""A Polatis unit without its protocols: the state that they all read and change, and its refusals.

Ports are the unit's own numbers. The clock is passed in; methods that take time return the seconds until the answer.
"""

import functools
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.core.values import Capabilities, Crossconnect, Identity, PortSide
from hwd_drivers.families.polatis.alarms import Alarms
from hwd_drivers.families.polatis.attenuators import Voas
from hwd_drivers.families.polatis.flapping import Flapping
from hwd_drivers.families.polatis.groups import Groups
from hwd_drivers.families.polatis.numbering import Numbering
from hwd_drivers.families.polatis.options import TwinOptions
from hwd_drivers.families.polatis.power import REMEMBERS_S, PowerMonitors
from hwd_drivers.families.polatis.settings import VoaSetting
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.server import Denial, Faults
from hwd_drivers.twins.timing import SwitchTiming

USUAL_LOGINS: Final = (("admin", "root"), ("root", "root"))
"""Users and passwords of real units in published programs."""
LABEL_LIMIT: Final = 64
"""Most characters of a port's label; no source documents the limit."""
KEPT_CROSSCONNECTS: Final = 4096


class PortState(StrEnum):
    """State of a port."""

    ENABLED = "enabled"
    """The port works."""
    DISABLED = "disabled"
    """Disabled by an operator: no light passes."""
    FAILED = "failed"
    """The port does not work."""


class BootMode(StrEnum):
    """Crossconnects after power-up."""

    DARK = "DARK"
    """The unit boots without crossconnects."""
    RESTORE = "REST"
    """Those before."""
    AUTOMATIC = "AUT"
    """As REST; no source documents the difference."""


class Unit:
    """One unit: `mirror` is its optics, `faults` its faults, `labels` the names of its ports.

    Every method with ports raises UnitError for an unknown one, and then has done nothing unless `options.lists` says
    otherwise.
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
        self.number = draws.stream(f"twin/{name}/serial").randrange(10**6)
        self.product = _product(capabilities, self.numbering, self.number, options)
        self.mirror = Mirror(name=name, capabilities=capabilities, timing=timing, draws=draws, remembers_s=REMEMBERS_S)
        self.monitors = PowerMonitors(
            mirror=self.mirror,
            clock=clock,
            numbering=self.numbering,
            ports=self._ports(capabilities.monitored),
            options=options,
        )
        self.alarms = Alarms(mirror=self.mirror, clock=clock, numbering=self.numbering, monitors=self.monitors)
        self.voas = Voas(
            mirror=self.mirror, clock=clock, numbering=self.numbering, ports=self._ports(capabilities.attenuated)
        )
        self.flapping = Flapping(self._flap)
        self.groups = Groups(
            numbering=self.numbering, pairs=self.pairs, connect=self.connect, disconnect=self.disconnect
        )
        self.faults = Faults(mirror=self.mirror, clock=clock)
        self.faults.on_reboot.append(self._rebooted)
        self.labels: dict[int, str] = {}
        self._boot = BootMode.DARK
        self._disabled: set[int] = set()
        self._shut: set[int] = set()
        self._flapped: set[int] = set()
        self._held: frozenset[int] = frozenset()
        self._turned: frozenset[Crossconnect] = frozenset()

    # --- logins

    def takes(self, user: str, password: str) -> bool:
        """Whether user and password are valid."""
        options = self.options
        if options.user is None and options.password is None:
            return options.logins == "anybody" or (user, password) in USUAL_LOGINS
        return options.user in (None, user) and options.password in (None, password)

    # --- crossconnects

    def pairs(self, ports: Sequence[int] | None = None) -> list[tuple[int, int]]:
        """Port numbers of all crossconnects, or of those of `ports`.

        The input comes first; in a unit without sides the port that its client named first.
        """
        if ports is not None:
            self.check(ports)
        asked = None if ports is None else frozenset(ports)
        numbers, turned = self.numbers, self._turned
        pairs = [
            (numbers[each.b], numbers[each.a]) if each in turned else (numbers[each.a], numbers[each.b])
            for each in self.mirror.crossconnects()
        ]
        return [pair for pair in pairs if asked is None or not asked.isdisjoint(pair)]

    def peer(self, port: int) -> int | None:
        """The port that this one is joined to."""
        pair = self.mirror.crossconnect_at(self.numbering.end(port))
        if pair is None:
            return None
        one, other = (self.numbers[end] for end in pair.ends)
        return other if one == port else one

    def connect(self, pairs: Sequence[tuple[int, int]]) -> float:
        """Join the ports of each pair; returns the seconds until the answer."""
        if self.options.lists == "whole":
            answer_s = self._connect(self._wanted(pairs))
            self._note_order(pairs)
            return answer_s
        answer_s = 0.0
        for pair in pairs:
            answer_s = max(answer_s, self._connect(self._wanted([pair])))
            self._note_order([pair])
        return answer_s

    def connect_only(self, pairs: Sequence[tuple[int, int]]) -> float:
        """Join the ports of each pair and remove all other crossconnects."""
        wanted = self._wanted(pairs)
        kept = frozenset(wanted)
        others = [each for each in self.mirror.crossconnects() if each not in kept]
        dropped_s = self._disconnect(others) if others or not wanted else 0.0
        answer_s = max(dropped_s, self._connect(wanted)) if wanted else dropped_s
        self._note_order(pairs)
        return answer_s

    def disconnect(self, ports: Sequence[int] | None) -> float:
        """Remove the crossconnects of these ports, each named by either end; None is all.

        Unconnected ports are no error.
        """
        if ports is None:
            return self._disconnect(self.mirror.crossconnects())
        ends = [self.numbering.end(port) for port in ports]
        going = dict.fromkeys(pair for end in ends if (pair := self.mirror.crossconnect_at(end)) is not None)
        return self._disconnect(list(going))

    def disconnect_pairs(self, pairs: Sequence[tuple[int, int]]) -> float:
        """Remove exactly these crossconnects; a missing one is no error."""
        return self._disconnect([self.crossconnect(one, other) for one, other in pairs])

    # --- ports

    def check(self, ports: Iterable[int]) -> None:
        """Raises UnitError for an unknown port."""
        for port in ports:
            if not 1 <= port <= self.numbering.total:
                raise UnitError(Wrong.PORT, f"Invalid OXC port: {port}")

    def label(self, port: int, text: str) -> None:
        """Name a port; an empty text removes its name."""
        self.check((port,))
        if len(text) > LABEL_LIMIT or not text.isprintable() or ";" in text:
            raise UnitError(
                Wrong.VALUE, f"Label of port {port}: over {LABEL_LIMIT} characters, or one that is not allowed"
            )
        if text:
            self.labels[port] = text
        else:
            self.labels.pop(port, None)

    def state(self, port: int) -> PortState:
        if self.numbering.end(port) in self.mirror.failed:
            return PortState.FAILED
        return PortState.DISABLED if port in self._disabled else PortState.ENABLED

    def enable(self, ports: Sequence[int]) -> None:
        self._set_ports(ports, self._disabled, on=False)

    def disable(self, ports: Sequence[int]) -> None:
        """Disable ports: no light passes; their crossconnects stay."""
        self._set_ports(ports, self._disabled, on=True)

    def is_shut(self, port: int) -> bool:
        """Whether its shutter is closed."""
        self.check((port,))
        return port in self._shut

    def shut(self, ports: Sequence[int]) -> None:
        """Close the shutters of these ports; their crossconnects stay."""
        self._set_ports(ports, self._shut, on=True)

    def open(self, ports: Sequence[int]) -> None:
        self._set_ports(ports, self._shut, on=False)

    @property
    def boot(self) -> BootMode:
        """Set the crossconnects after power-up."""
        return self._boot

    @boot.setter
    def boot(self, mode: BootMode) -> None:
        self._boot = mode
        self.faults.restores = mode is not BootMode.DARK

    def attenuate(self, ports: Sequence[int], setting: VoaSetting) -> None:
        """Set the attenuators of all these ports."""
        self.voas.check(ports)
        self.raise_denial()
        self.voas.set(ports, setting)

    def powers(self, ports: Sequence[int]) -> list[tuple[int, float | None]]:
        """Readings of the monitors of these ports, in dBm; None is dark."""
        self.voas.settle(self.clock.monotonic_ns())
        return self.monitors.read(ports)

    def close(self) -> None:
        """Stop everything that happens by itself."""
        self.flapping.close()

    # --- inside

    def _set_ports(self, ports: Sequence[int], dark: set[int], *, on: bool) -> None:
        """Add ports to those that are dark for one reason, or remove them."""
        self.check(ports)
        self.raise_denial()
        (dark.update if on else dark.difference_update)(ports)
        self._hold()

    def raise_denial(self) -> None:
        """Raises UnitError where the faults deny the next change; called before a change of ports or groups."""
        if (denial := self.faults.take_denial()) is not None:
            raise UnitError(Wrong.FAULT, denial.text, code=denial.code)

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
        doing, denial = self.faults.take_change(wanted)
        answer_s = 0.0
        if doing or denial is None:
            try:
                settling = self.mirror.connect(doing, self.clock.monotonic_ns(), move=self.options.in_use == "move")
            except RefusedError as error:
                raise UnitError(Wrong.IN_USE, str(error)) from error
            answer_s = settling.answer_s
        return self._answered(denial, answer_s)

    def _note_order(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Store the order of pairs: without sides the first port is the key of a pair in the YANG modules."""
        if self.numbering.outputs:
            return
        turned = {self.crossconnect(one, other): one > other for one, other in pairs}
        there = self.mirror.crossconnects()
        self._turned = frozenset(pair for pair in there if turned.get(pair, pair in self._turned))

    def _disconnect(self, going: Sequence[Crossconnect]) -> float:
        doing, denial = self.faults.take_change(going)
        answer_s = 0.0
        if doing or denial is None:
            answer_s = self.mirror.disconnect(doing, self.clock.monotonic_ns()).answer_s
        return self._answered(denial, answer_s)

    def _answered(self, denial: Denial | None, answer_s: float) -> float:
        if denial is not None:
            raise UnitError(Wrong.FAULT, denial.text, code=denial.code)
        return answer_s if self.options.answer == "timing" else 0.0

    def _ports(self, ends: Iterable[PortSide]) -> frozenset[int]:
        return frozenset(self.numbers[end] for end in ends)

    def _flap(self, port: int, dark: bool) -> None:
        if dark:
            self._flapped.add(port)
        else:
            self._flapped.discard(port)
        self._hold()

    def _hold(self) -> None:
        """Make dark what is shut, disabled or flapping; ends that others made dark stay."""
        held = frozenset(self._disabled | self._shut | self._flapped)
        now_ns = self.clock.monotonic_ns()
        freed, self._held = self._held - held, held
        self.mirror.unblock([self.numbering.end(port) for port in freed], now_ns)
        self.mirror.block([self.numbering.end(port) for port in held], now_ns)

    def _rebooted(self) -> None:
        """Open shutters, enable ports, as the mirror does, and drop programmes."""
        self.flapping.close()
        self.flapping.programmes.clear()
        self._shut.clear()
        self._disabled.clear()
        self._hold()


def _deny_twice(pairs: Sequence[tuple[int, int]]) -> None:
    seen: set[int] = set()
    for port in (port for pair in pairs for port in pair):
        if port in seen:
            raise UnitError(Wrong.LIST, f"Port {port} stands twice in the list")
        seen.add(port)


def _product(capabilities: Capabilities, numbering: Numbering, serial: int, options: TwinOptions) -> Identity:
    """A product code as real units have it: N-OST-24x24-LA1-DMHNS, N-VST with attenuators, I-OST without monitors."""
    kind = "N-VST" if capabilities.attenuated else "N-OST" if capabilities.monitored else "I-OST"
    return Identity(
        vendor=options.vendor,
        model=options.product_code or f"{kind}-{numbering}-LA1-TWIN",
        serial=options.serial or f"T{serial:06d}",
        firmware=options.firmware,
    )
