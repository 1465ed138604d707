"""The driver of bare parts on lines: converts states of elements to levels and pulses, and contacts to states."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from pydantic import Field
from typing_extensions import override

from hwd_drivers.core.errors import DeadlineError
from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.core.values import CrossconnectReading, CrossconnectState, Exchange, Identity
from hwd_drivers.devices.element_switch import ElementDevice
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.ttl.chip_lines import ChipLines, Use
from hwd_drivers.families.ttl.protocol import Pulse, Set
from hwd_drivers.families.ttl.socket_lines import SocketLines
from hwd_drivers.families.ttl.wiring import Part, Wiring

CHIP: Final = "/dev/gpiochip"
"""Prefix of the address of a GPIO chip of this machine; any other address is a line bank behind a socket."""
LOOK_S: Final = 0.002
"""Pause between the first two readings of the contacts of a moving part."""


class TtlOptions(Wiring):
    """Options of parts on lines in a testbed."""

    connect_within_s: float = Field(default=5.0, gt=0, description="limit for getting the lines")


class TtlSwitch(ElementDevice):
    """One session with the parts of one bank; open it with `TtlSwitch.open`."""

    def __init__(
        self, context: OpenContext, wiring: Wiring, bank: ChipLines | SocketLines, offload: ThreadOffload | None
    ) -> None:
        super().__init__(context)
        self._wiring = wiring
        self._bank = bank
        self._offload = offload
        self._parts = wiring.parts_of(context.name, context.capabilities)
        self._last_set: dict[int, int] = {}
        """The last state of each part that this session set."""

    @classmethod
    async def open(cls, context: OpenContext) -> "TtlSwitch":
        """Request the lines. Nothing moves: a line that holds a part keeps its level."""
        options = context.options_as(TtlOptions)
        parts = options.parts_of(context.name, context.capabilities)
        deadline_s = asyncio.get_running_loop().time() + options.connect_within_s
        if not context.address.startswith(CHIP):
            bank = await SocketLines.open(
                context.dialer, context.address, name=context.name, clock=context.clock, deadline_s=deadline_s
            )
            return cls(context, options, bank, None)
        offload = ThreadOffload(1)
        try:
            lines = await ChipLines.open(
                context.address,
                _use(parts, options),
                name=context.name,
                clock=context.clock,
                offload=offload,
                deadline_s=deadline_s,
            )
        except BaseException:
            offload.close()
            raise
        return cls(context, options, lines, offload)

    async def identify(self, *, deadline_s: float) -> Identity:
        """Identity of the bank: the parts have none."""
        bank = await self._bank.identify(deadline_s=deadline_s)
        return Identity(vendor="line bank", model=bank.label, serial=bank.serial, firmware=bank.version)

    @override
    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        """Wait while contacts show that a part moves, then read.

        A part whose position is unknown has no reading: a latching one without contacts that was not moved yet.
        """
        places = range(len(self._parts))
        seen = await self._poll_contacts(
            places, lambda place, state: state is not None or self._parts[place].contacts is None, deadline_s
        )
        return tuple(reading for place in places for reading in self._readings(place, seen))

    @override
    async def _move(
        self, targets: Mapping[int, int], deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> Exchange:
        """Returns when the contacts confirm it, or, without them, when the part's time has passed.

        Raises DeadlineError where pulses and `settle_s` would exceed the deadline: then nothing moved; and where
        contacts do not confirm it.
        """
        orders, settle_s = self._orders(targets), max(self._parts[place].settle_s for place in targets)
        pulses_us = sum(order.width_us for order in orders if isinstance(order, Pulse))
        takes_s, left_s = pulses_us / 1e6 + settle_s, deadline_s - asyncio.get_running_loop().time()
        if takes_s >= left_s:
            raise DeadlineError(
                f"{self.name}: nothing moved: pulses and settle_s take {takes_s:.3g} s, "
                f"the deadline leaves {max(0.0, left_s):.3g} s. Allow more time"
            )
        for place in targets:
            self._last_set.pop(place, None)  # unknown until it is done
        sent_ns = await self._bank.carry_out(orders, deadline_s=deadline_s, on_sent=on_commanded)
        self._last_set |= targets
        return Exchange(
            commanded_ns=sent_ns,
            acknowledged_ns=await self._arrive(targets, settle_s, deadline_s),
            commands=len(orders),
        )

    async def lost(self) -> Exception:
        return await self._bank.lost()

    async def close(self) -> None:
        """Release the lines; those that hold a part keep their level as far as the chip does."""
        await self._bank.close()
        if self._offload is not None:
            self._offload.close()

    def _orders(self, targets: Mapping[int, int]) -> list[Set | Pulse]:
        """Lines to hold, in one step, and to pulse, in one step for each width."""
        hold: dict[int, bool] = {}
        pulses: dict[int, dict[int, bool]] = {}
        for place, state in targets.items():
            part = self._parts[place]
            if part.pulse is not None:
                coil = part.pulse[state]
                pulses.setdefault(round(part.pulse_s * 1e6), {})[coil] = self._wiring.level(coil, True)
            elif part.level is not None:
                hold[part.level] = self._wiring.level(part.level, state == 1)
        holds = [Set(levels=hold)] if hold else []
        return [*holds, *(Pulse(levels=levels, width_us=width_us) for width_us, levels in pulses.items())]

    async def _arrive(self, targets: Mapping[int, int], settle_s: float, deadline_s: float) -> int:
        """Wait until the parts' times have passed and their contacts confirm the states; returns when."""
        left_s = deadline_s - asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, min(settle_s, left_s)))
        if settle_s > left_s:
            raise DeadlineError(
                f"{self.name}: moved, and {settle_s:.3g} s until light passes go beyond the deadline. Allow more time"
            )
        seen = await self._poll_contacts(targets, lambda place, state: state == targets[place], deadline_s)
        arrived_ns = self._context.clock.monotonic_ns()
        elsewhere = [
            self._context.capabilities.elements[place].name
            for place, state in targets.items()
            if self._parts[place].contacts is not None and self._state(place, seen) != state
        ]
        if elsewhere:
            raise DeadlineError(
                f"{self.name}: element {', '.join(elsewhere)}: moved, and its contacts do not confirm it in time. "
                "Check its supply, and options.parts"
            )
        return arrived_ns

    async def _poll_contacts(
        self, places: Collection[int], there: Callable[[int, int | None], bool], deadline_s: float
    ) -> Mapping[int, bool]:
        """Levels of these parts' contacts, once `there` holds for all, or the time of the others is over.

        Pauses double, so that polling takes no more time of a slow connection than the move.
        """
        loop = asyncio.get_running_loop()
        started_s, pause_s = loop.time(), LOOK_S
        lines = tuple(line for place in places for line in self._parts[place].shown_by)
        while True:
            seen = await self._bank.read(lines, deadline_s=deadline_s) if lines else {}
            waiting = [
                self._parts[place]
                for place in places
                if self._parts[place].shown_by and not there(place, self._state(place, seen))
            ]
            until_s = min(deadline_s, started_s + max((part.moves_within_s for part in waiting), default=0.0))
            if not waiting or loop.time() + pause_s >= until_s:
                return seen
            await asyncio.sleep(pause_s)
            pause_s *= 2

    def _state(self, place: int, seen: Mapping[int, bool]) -> int | None:
        """The state that its lines show; None for an undefined one."""
        part = self._parts[place]
        levels = [self._wiring.level(line, seen[line]) for line in part.shown_by]
        match levels:
            case [True, False]:
                return 0
            case [False, True]:
                return 1
            case [level]:
                return int(level)
            case _:
                return None

    def _readings(self, place: int, seen: Mapping[int, bool]) -> tuple[CrossconnectReading, ...]:
        state, says = self._state(place, seen), CrossconnectState.TUNED
        if self._parts[place].contacts is None:
            state, says = self._last_set.get(place) if state is None else state, CrossconnectState.UNSTATED
        elif state is None:
            state, says = self._last_set.get(place), CrossconnectState.FAILED
        if state is None:
            return ()
        pairs = self._context.capabilities.elements[place].states[state]
        return tuple(CrossconnectReading(crossconnect=pair, state=says) for pair in pairs)


def _use(parts: Sequence[Part], wiring: Wiring) -> Use:
    return Use(
        held=tuple(part.level for part in parts if part.level is not None),
        idle={coil: wiring.level(coil, False) for part in parts for coil in part.pulse or ()},
        inputs=tuple(line for part in parts for line in part.contacts or ()),
    )
