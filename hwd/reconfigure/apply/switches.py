"""All switches that the daemon drives: reads, changes and ways back of several at once, with their faults by switch."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from hwd.model.circuit import Observed
from hwd.model.instant import Origin
from hwd.ports.ledger import ClaimedError
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import (
    DeadlineError,
    DeviceError,
    FailedError,
    HwdError,
    LinkError,
    NotReadyError,
    ProtocolError,
    RefusedError,
    StalePlanError,
)
from hwd_drivers.core.values import CrossconnectReading, PortOverride, PortSide
from hwd_drivers.switching import drive
from hwd_drivers.switching.moves import SwitchMoves
from hwd_drivers.switching.overrun import Overrun, OverrunWatch
from hwd_drivers.switching.turns import SwitchTurns
from hwd_drivers.switching.way_back import Way, bring_back

UNKNOWN: Final = (
    "no switch of this testbed file that the daemon drives. Put it back into the file, "
    "or bring its light in order by hand and `hwd give-up` what is open of it"
)


class SwitchDriver(drive.SwitchDriver, Protocol):
    """A switch as the daemon has it: it also tells what is known of it without a question, and takes overrides."""

    @property
    def latest(self) -> tuple[CrossconnectReading, ...] | None:
        """What the switch last reported; None before the first report."""
        ...

    @property
    def cause(self) -> str | None:
        """Why the switch cannot be reached; None while it can."""
        ...

    @property
    def blocked(self) -> frozenset[PortSide]:
        """Ends that an override held dark when it was last asked."""
        ...

    async def override(self, ends: Sequence[PortSide], to: PortOverride, *, by: str, deadline_s: float) -> None:
        """Hold ends dark, or let them go, and read that back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A reading of switches, and when each answer was complete, `Clock.monotonic_ns`."""

    observed: Observed
    ended_ns: Mapping[str, int]


class Switches:
    """The drivers by the names of their switches.

    `origins`: of every switch of the testbed, what its times are worth. `turns`: plans and drives take the turns of
    their switches, ways back do not wait for them.
    """

    def __init__(
        self, drivers: Mapping[str, SwitchDriver], clock: Clock, origins: Mapping[str, Origin] | None = None
    ) -> None:
        self.origins = origins or {}
        self.turns = SwitchTurns("reconfiguration")
        self._drivers = drivers
        self._clock = clock

    @property
    def names(self) -> tuple[str, ...]:
        """The switches that the daemon drives."""
        return tuple(self._drivers)

    @property
    def connected(self) -> frozenset[str]:
        """The switches that can be reached now."""
        return frozenset(name for name, driver in self._drivers.items() if driver.cause is None)

    def driver(self, name: str) -> SwitchDriver:
        """Raises FailedError for an unknown name."""
        if (driver := self._drivers.get(name)) is None:
            raise FailedError(f"{name}: {UNKNOWN}")
        return driver

    def cause(self, name: str) -> str | None:
        """Why a switch cannot be reached now; None where it can, or where the daemon does not drive it."""
        driver = self._drivers.get(name)
        return None if driver is None else driver.cause

    def away(self, names: Iterable[str]) -> list[str]:
        """Which of `names` cannot be reached now: `ocs1: the connection was lost`. Unknown ones are among them."""
        causes = {name: self.cause(name) if name in self._drivers else UNKNOWN for name in names}
        return [f"{name}: {cause}" for name, cause in causes.items() if cause is not None]

    def error_text(self, errors: Mapping[str, HwdError], *, said: str) -> str:
        """All errors in one line; an unreachable switch that `said` names already is named without its reason."""

        def text(name: str, error: HwdError) -> str:
            cause = self.cause(name)
            return name if cause is not None and f"{name}: {cause}" in said else str(error)

        return "; ".join(text(name, error) for name, error in errors.items())

    async def read(self, names: Iterable[str]) -> Look:
        """Read these switches; the others come with their last report."""
        wanted = list(names)
        ended_ns: dict[str, int] = {}

        async def read(name: str, driver: SwitchDriver) -> tuple[CrossconnectReading, ...]:
            readings = await driver.read()
            ended_ns[name] = self._clock.monotonic_ns()
            return readings

        reads = [read(name, self.driver(name)) for name in wanted]
        readings = [await reads[0]] if len(reads) == 1 else await asyncio.gather(*reads)
        return Look(observed=self.latest() | dict(zip(wanted, readings, strict=True)), ended_ns=ended_ns)

    async def read_unmoved(self, names: Iterable[str]) -> Look:
        """Read switches as `read` does, before the first command: the error says that nothing was moved, and where to
        look.
        """
        try:
            return await self.read(names)
        except (DeviceError, LinkError, ProtocolError) as error:
            raise same_fault(error, f"{error}. Nothing was moved; `hwd status` shows which switches answer") from error

    def blocked(self, names: Iterable[str]) -> dict[str, frozenset[PortSide]]:
        """Ends that overrides hold dark, as each switch reported last."""
        return {name: self.driver(name).blocked for name in names}

    def latest(self) -> dict[str, tuple[CrossconnectReading, ...]]:
        """What each switch reported last; one without a report is absent."""
        return {name: latest for name, driver in self._drivers.items() if (latest := driver.latest) is not None}

    async def bring(
        self, moves: Iterable[SwitchMoves], way: Way, *, within_s: float, on_overrun: Callable[[Overrun], None]
    ) -> dict[str, HwdError]:
        """Bring every switch where `way` leads, all at once; returns the errors by switch."""
        errors: dict[str, HwdError] = {}

        async def bring(move: SwitchMoves) -> None:
            watch = OverrunWatch(move.switch, on_overrun)
            try:
                async with asyncio.timeout(within_s):
                    driver = self.driver(move.switch)
                    await bring_back(driver, move, way, now_ns=self._clock.monotonic_ns, watch=watch)
            except TimeoutError:
                errors[move.switch] = DeadlineError(f"{move.switch}: not where it shall be within {within_s:g} s")
            except HwdError as error:
                errors[move.switch] = error
            finally:
                watch.close()

        moving = [move for move in moves if not move.is_empty]
        await drive.at_once(moving, bring)
        return {move.switch: errors[move.switch] for move in moving if move.switch in errors}


def raise_joined(errors: Sequence[HwdError]) -> None:
    """Raise the errors of several switches as one."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise same_fault(errors[0], "; ".join(map(str, errors)))


def same_fault(error: HwdError, message: str) -> HwdError:
    """Make an error of the same kind, with other words."""
    match error:
        case DeviceError():
            return type(error)(message, device=error.device, command=error.command, code=error.code, text=error.text)
        case ClaimedError():
            return ClaimedError(message, error.claim)
        case StalePlanError() | LinkError() | NotReadyError() | ProtocolError():
            return type(error)(message)
        case RefusedError():
            return RefusedError(message)
        case _:
            return FailedError(message)
