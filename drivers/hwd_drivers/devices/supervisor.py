"""Supervisor: keeps one session with one switch and reports its state.

It never writes or repeats a command by itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, NoReturn

from msgspec import UNSET

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import (
    BugError,
    ConfigError,
    DeadlineError,
    DeviceError,
    HwdError,
    LinkError,
    LoginError,
    ProtocolError,
    RefusedError,
    StartingError,
)
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import (
    Capabilities,
    Crossconnect,
    CrossconnectReading,
    Exchange,
    Identity,
    PortOverride,
    PortSide,
)
from hwd_drivers.devices.abilities import CrossConnects, Device, PortOverrides, PowerReadings
from hwd_drivers.devices.facts import SwitchCommand, SwitchDown, SwitchOverride, SwitchRestarted, SwitchUp
from hwd_drivers.devices.overrides import Overrides
from hwd_drivers.devices.readings import Readings
from hwd_drivers.devices.restarts import Restart, Restarts

FIRST_RETRY_S: Final = 0.5
"""The first pause is drawn from 0 to this; the bound doubles with each failure."""
LONGEST_RETRY_S: Final = 30.0
"""The longest pause; used at once where an early retry cannot help."""

NOT_CONNECTED_YET = "not connected yet"
"""The cause until the first attempt to connect has ended."""

log = logging.getLogger(__name__)


class Supervisor:
    """Keeps a switch connected, reports its identity, state and power, and passes changes through.

        supervisor = Supervisor(name="ocs1", open=open_ocs1, clock=clock, sink=sink, draws=draws)
        async with asyncio.TaskGroup() as group:
            group.create_task(supervisor.run(), name="hwd:ocs1/supervisor")
            await supervisor.wait_up()
            readings = await supervisor.read()

    `device` is None while the switch is down, and `cause` is the reason. `poll_s`: pause between readings; `answer_s`:
    limit for each answer; `longest_retry_s`: longest pause between attempts to connect. Emits `switch.up`, `.down`,
    `.restarted`, `.read`, `.power`, `.command`, `.override`.
    """

    def __init__(
        self,
        *,
        name: str,
        open: Callable[[], Awaitable[Device]],
        clock: Clock,
        sink: Sink,
        draws: Draws,
        poll_s: float = 5.0,
        answer_s: float = 2.0,
        longest_retry_s: float = LONGEST_RETRY_S,
    ) -> None:
        self.name = name
        self.poll_s = poll_s
        self.answer_s = answer_s
        self.longest_retry_s = longest_retry_s
        self.device: Device | None = None
        self.identity: Identity | None = None
        self.capabilities: Capabilities | None = None
        self.cause: str | None = NOT_CONNECTED_YET
        self._open = open
        self._clock = clock
        self._emit = Emitter(clock, sink)
        self._jitter = draws.stream(f"supervise/{name}/retry")
        self._switch: CrossConnects | None = None
        self._up = asyncio.Event()
        self._down_since_s: float | None = None
        self._starting = False  # its last failure was a StartingError
        self._failures = 0
        self._readings = Readings(name, clock=clock, sink=sink)
        self._changes = 0  # starts and ends of changes
        self._changing = 0
        self._overrides = Overrides(name, self._report_override)
        self._restarts = Restarts()
        self._last_reading_s: float | None = None

    async def run(self) -> None:
        """Connect, read, poll, and reconnect when the switch is lost; ends only by cancellation."""
        while True:
            try:
                await self._serve()
            except (HwdError, OSError) as error:
                cause: Exception = error
            except Exception as error:
                log.exception("%s: bug in its driver", self.name)
                cause = error
            self._note_down(cause)
            pause_s = self._pause_s(cause)
            self._failures += 1
            log.debug("%s: next try in %.3g s: %s", self.name, pause_s, cause)
            await asyncio.sleep(pause_s)

    @property
    def latest(self) -> tuple[CrossconnectReading, ...] | None:
        """The last reading, however old; None before the first."""
        return self._readings.last

    @property
    def powers_asked_wall_ns(self) -> int | None:
        """When the switch was asked for the powers that it answered last; None before the first answer."""
        return self._readings.powers_asked_wall_ns

    @property
    def blocked(self) -> frozenset[PortSide]:
        """Ends that an override made dark at the last reading."""
        return self._overrides.blocked

    async def wait_up(self) -> None:
        """Wait until the switch is connected and read."""
        await self._up.wait()

    async def read(self, *, deadline_s: float | None = None) -> tuple[CrossconnectReading, ...]:
        """Read all crossconnects now. Raises LinkError where the switch is down."""
        switch = self._connected()
        changes = self._changes
        if deadline_s is None:
            deadline_s = self._deadline_s()
        readings = self._overrides.with_blocked(await switch.read_crossconnects(deadline_s=deadline_s))
        self._last_reading_s = asyncio.get_running_loop().time()
        self._note_readings_unless_changed_since(changes, readings)
        return readings

    async def change(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """Pass a change to the switch.

        Errors as in `CrossConnects.change_crossconnects`; LinkError where the switch is down.
        """
        switch = self._connected()
        verb = "change" if remove and add else "connect" if add else "disconnect"
        self._readings.ask(remove, add)
        sent: list[str] = []

        def commanded(at_ns: int) -> None:
            if not sent and self.capabilities is not None:
                sent.extend(self.capabilities.moved_by((*remove, *add)))
            if on_commanded is not None:
                on_commanded(at_ns)

        with self._changing_by(verb, sent):
            exchange = await switch.change_crossconnects(
                remove=remove, add=add, deadline_s=deadline_s, on_commanded=commanded
            )
        self._emit_command(verb, "done", (exchange.acknowledged_ns - exchange.commanded_ns) / 1e9, moved=sent)
        return exchange

    async def override(self, ends: Sequence[PortSide], to: PortOverride, *, by: str, deadline_s: float) -> None:
        """Make ends dark, or release them, and read that back. `by`: who asks.

        Raises RefusedError for ends that cannot be dark, FailedError where the read-back differs, otherwise as
        `change`.
        """
        switch = self._connected()
        able = self.capabilities.blockable if self.capabilities is not None else ()
        if not isinstance(switch, PortOverrides) or not able:
            raise RefusedError(f"{self.name}: cannot make a port dark: it has no shutters, or not in its driver")
        self._overrides.check_able(ends, able)
        verb = "block" if to is PortOverride.FORCE_BLOCKED else "unblock"
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        self._overrides.ask(ends, to, by=by)
        with self._changing_by(verb):
            await switch.override(ends, to, deadline_s=deadline_s)
            answered_s = loop.time()
            found = await switch.read_overrides(ends, deadline_s=deadline_s)
            self._overrides.note(found, by=by)
            self._overrides.check(ends, to, found)
        self._emit_command(verb, "done", answered_s - started_s)

    async def _serve(self) -> NoReturn:
        """Run one session; always raises the cause of its end."""
        device = await self._open()
        try:
            await self._bring_up(device)
            await self._attend(device)
        except Exception as error:
            self._note_down(error)
            raise
        finally:
            self.device = self._switch = None
            self._up.clear()
            await device.close()

    async def _bring_up(self, device: Device) -> None:
        if not isinstance(device, CrossConnects):
            raise BugError(f"{self.name}: its driver has no crossconnects, so it is not a switch")
        self.identity = await device.identify(deadline_s=self._deadline_s())
        self.capabilities = await device.capabilities(deadline_s=self._deadline_s())
        overrides = await self._read_overrides(device)
        readings = await device.read_crossconnects(deadline_s=self._deadline_s())
        self._note_up(self.identity)
        restart = self._find_restart(self.identity, self.capabilities, readings)
        self._overrides.begin(overrides)
        explained = () if restart is None else (*restart.lost, *restart.came)
        self._readings.note(self._overrides.with_blocked(readings), connected=True, explained=explained)
        self.device, self._switch = device, device
        self._up.set()

    async def _attend(self, device: Device) -> NoReturn:
        """Read the switch every `poll_s` until it is lost; raises the cause. A failed reading ends the session.

        During a change a failed reading is only logged: the change may use its whole time limit, and a unit that
        answers in order answers the reading after it.
        """
        monitored = self.capabilities.monitored if self.capabilities is not None else ()
        powers = device if monitored and isinstance(device, PowerReadings) else None
        lost = asyncio.create_task(device.lost(), name=f"hwd:{self.name}/lost")
        try:
            while True:
                if powers is not None:
                    await self._poll(partial(self._read_power, powers, monitored))
                await asyncio.wait((lost,), timeout=self.poll_s)
                if lost.done():
                    raise lost.result()
                await self._poll(partial(self._poll_overrides, device))
                await self._poll(self.read)
        finally:
            lost.cancel()
            await asyncio.wait((lost,))

    async def _poll(self, look: Callable[[], Awaitable[object]]) -> None:
        if self._changing:
            return
        changes = self._changes
        try:
            await look()
        except (DeadlineError, DeviceError) as error:
            if changes == self._changes:
                raise
            log.debug("%s: a reading failed during a change: %s", self.name, error)

    async def _read_overrides(self, device: Device) -> Mapping[PortSide, PortOverride]:
        able = self.capabilities.blockable if self.capabilities is not None else ()
        if not able or not isinstance(device, PortOverrides):
            return {}
        return await device.read_overrides(able, deadline_s=self._deadline_s())

    async def _poll_overrides(self, device: Device) -> None:
        changes = self._changes
        found = await self._read_overrides(device)
        if changes == self._changes and not self._changing:
            self._overrides.note(found, by="somebody else")

    async def _read_power(self, powers: PowerReadings, ends: Sequence[PortSide]) -> None:
        asked_wall_ns = self._clock.wall_ns()
        readings = await powers.read_power(ends, deadline_s=self._deadline_s())
        self._readings.note_power(readings, asked_wall_ns=asked_wall_ns)

    @contextmanager
    def _changing_by(self, verb: str, sent: Sequence[str] = ()) -> Iterator[None]:
        """Count a change while it runs, and report its failure. `sent`: what it moves, once it was sent."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        self._changes += 1
        self._changing += 1
        try:
            yield
        except HwdError as error:
            self._emit_failure(verb, error, loop.time() - started_s, moved=sent)
            raise
        except asyncio.CancelledError:
            self._emit_command(verb, "lost", loop.time() - started_s, text="its caller was cancelled", moved=sent)
            raise
        finally:
            self._changes += 1
            self._changing -= 1

    def _connected(self) -> CrossConnects:
        if self._switch is None:
            raise LinkError(f"{self.name}: the switch is down: {self.cause}")
        return self._switch

    def _deadline_s(self) -> float:
        return asyncio.get_running_loop().time() + self.answer_s

    def _pause_s(self, cause: Exception) -> float:
        if isinstance(cause, LoginError | ConfigError | BugError) or not isinstance(cause, HwdError | OSError):
            return self.longest_retry_s
        if isinstance(cause, StartingError):
            return FIRST_RETRY_S
        doublings = min(self._failures, 16)
        return self._jitter.uniform(0, min(self.longest_retry_s, FIRST_RETRY_S * 2**doublings))

    def _note_up(self, identity: Identity) -> None:
        now_s = asyncio.get_running_loop().time()
        down_s = 0.0 if self._down_since_s is None else now_s - self._down_since_s
        if self._down_since_s is None:
            log.info("%s: up: %s", self.name, identity)
        else:
            log.info("%s: up again after %.3g s: %s", self.name, down_s, identity)
        self._down_since_s = None
        self._failures = 0
        self.cause = None
        self._emit(
            SwitchUp(
                switch=self.name,
                vendor=identity.vendor,
                model=identity.model,
                serial=identity.serial,
                firmware=identity.firmware,
                down_s=down_s,
            )
        )

    def _find_restart(
        self, identity: Identity, capabilities: Capabilities, readings: Sequence[CrossconnectReading]
    ) -> Restart | None:
        """The restart of the switch since its last reading, if there was one; it is reported."""
        now_s, last_reading_s, last = asyncio.get_running_loop().time(), self._last_reading_s, self._readings.last
        self._last_reading_s = now_s
        restart = self._restarts.find(
            at_s=now_s,
            last_reading_s=last_reading_s,
            uptime_s=identity.uptime_s,
            capabilities=capabilities,
            before=None if last is None else tuple(one.crossconnect for one in last),
            now=frozenset(one.crossconnect for one in readings),
        )
        if restart is not None:
            log.warning("%s: %s", self.name, restart)
            self._emit(
                SwitchRestarted(
                    switch=self.name,
                    sign=restart.sign,
                    lost=[*restart.lost],
                    uptime_s=restart.uptime_s,
                    unheard_s=now_s - (last_reading_s or now_s),
                )
            )
        return restart

    def _note_down(self, cause: Exception) -> None:
        """Report the first failure, and the first after a StartingError; later ones are logged at level DEBUG."""
        self.cause = str(cause).removeprefix(f"{self.name}: ") or type(cause).__name__
        starting, was_starting = isinstance(cause, StartingError), self._starting
        self._starting = starting
        if self._down_since_s is not None and (starting or not was_starting):
            return
        if self._down_since_s is None:
            self._down_since_s = asyncio.get_running_loop().time()
        if starting:
            log.info("%s: %s", self.name, self.cause)
        else:
            log.warning("%s: down: %s", self.name, self.cause)
        self._emit(SwitchDown(switch=self.name, cause=self.cause))

    def _note_readings_unless_changed_since(self, changes: int, readings: tuple[CrossconnectReading, ...]) -> None:
        """Use a reading only if no change overlapped it, as it would show neither the old nor the new state."""
        if changes == self._changes and not self._changing:
            self._readings.note(readings)

    def _report_override(self, ends: Sequence[PortSide], to: PortOverride, by: str) -> None:
        log.info("%s: %s %s: %s", self.name, ", ".join(ends), to, by)
        self._emit(SwitchOverride(switch=self.name, ends=[*ends], to=to, by=by))

    def _emit_failure(self, verb: str, error: HwdError, seconds: float, *, moved: Sequence[str]) -> None:
        match error:
            case DeviceError(code=code, text=text):
                whole = self.capabilities is not None and self.capabilities.atomic_batches
                self._emit_command(verb, "denied", seconds, code=code, text=text, moved=() if whole else moved)
            case DeadlineError():
                self._emit_command(verb, "timeout", seconds, text=str(error), moved=moved)
            case LinkError():
                self._emit_command(verb, "lost", seconds, text=str(error), moved=moved)
            case ProtocolError():
                self._emit_command(verb, "garbled", seconds, text=str(error), moved=moved)

    def _emit_command(
        self, verb: str, outcome: str, seconds: float, *, code: str = "", text: str = "", moved: Sequence[str] = ()
    ) -> None:
        self._emit(
            SwitchCommand(
                switch=self.name,
                verb=verb,
                outcome=outcome,
                seconds=seconds,
                code=code,
                text=text,
                moved=[*moved] or UNSET,
            )
        )
