"""A twin alone on a port, for a driver, a terminal or another client: `hwd twin serve`.

    settings = TwinSettings.parse("polatis-6000", ["size=32x32"])
    await serve_single(settings, print, listen="127.0.0.1:3082")    # until cancelled

While it runs `hwd fault` finds it: it announces itself as a rack of one switch does.
"""

import asyncio
import itertools
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from hwd.config.run_files.announcement import Announcement
from hwd.config.run_files.places import RackPlace, run_dir
from hwd.config.scenario import load_scenario
from hwd.model.fault import Clear, Fault, Reboot, SwitchFault
from hwd.model.fault_check import check_ends
from hwd.twin.control import ControlSession
from hwd.twin.faults.active_faults import ActiveFaults
from hwd.twin.faults.scenario_player import play
from hwd.twin.faults.switch_faults import is_over, set_switch_fault
from hwd.twin.rack_sockets import check_path, control_socket
from hwd.twin.run_files import RunFiles
from hwd.twin.twin_settings import TwinSettings
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import BugError, ConfigError, RefusedError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.values import Capabilities, Side
from hwd_drivers.twins.registry import twin_of
from hwd_drivers.twins.server import Faults
from hwd_drivers.twins.terminal import TerminalDialer

NAMES_TRIED: Final = 1000
"""The most twins of one model that run at once with default names."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTwin:
    """A running twin. `address`: that of its own protocol. `addresses`: all of them, by protocol."""

    name: str
    address: str
    addresses: Mapping[str, str]

    @property
    def others(self) -> dict[str, str]:
        """The addresses of its other protocols."""
        return {protocol: place for protocol, place in self.addresses.items() if place != self.address}


class SingleFaults:
    """The faults of the only twin."""

    def __init__(self, name: str, capabilities: Capabilities, faults: Faults) -> None:
        self._name = name
        self._capabilities = capabilities
        self._faults = faults
        self._standing = ActiveFaults()

    def check(self, fault: Fault) -> None:
        """Raises ConfigError for a fault of another subject, and for unknown ends."""
        if not isinstance(fault, SwitchFault | Clear):
            raise ConfigError(f"fault: {fault}: there is only the switch {self._name} here")
        if fault.subject not in ("", self._name):
            raise ConfigError(f"fault: no {fault.subject} here; there is only the switch {self._name}")
        check_ends(fault, self._name, self._capabilities)

    def set(self, fault: Fault) -> None:
        self.check(fault)
        if isinstance(fault, SwitchFault):
            set_switch_fault(fault, self._faults, self._standing)
        else:
            self._faults.clear()
            self._standing.drop_all(lambda standing: not isinstance(standing, Reboot))
        log.info("fault: %s", fault)

    def present(self) -> tuple[Fault, ...]:
        self._standing.drop_all(lambda fault: is_over(fault, self._faults))
        return tuple(self._standing)


async def serve_single(
    settings: TwinSettings,
    say: Callable[[RunningTwin], None],
    *,
    listen: str,
    name: str | None = None,
    scenario: Path | None = None,
) -> None:
    """Run until cancelled; `say` is called when it listens. Raises ConfigError for an address that cannot be used, and
    for a scenario with mistakes.
    """
    async with AsyncExitStack() as stack:
        name, announcement = _hold_name(name or settings.model, stack, fixed=name is not None)
        dialer = TerminalDialer()
        twin = twin_of(settings.spec).make(
            name=name,
            capabilities=settings.capabilities,
            timing=settings.timing,
            draws=Draws(settings.seed),
            clock=SystemClock(),
            dialer=dialer,
            address=listen,
            options=settings.options,
        )
        for end in settings.capabilities.ends:
            if end.side is not Side.B:
                twin.mirror.set_input(end, settings.light_dbm)
        faults = SingleFaults(name, settings.capabilities, twin.faults)
        plan = load_scenario(scenario, switch=name, check=faults.check).require() if scenario else None
        stack.push_async_callback(twin.close)
        try:
            address = await twin.start()
        except (OSError, ValueError) as error:
            raise ConfigError(f"--listen {listen}: cannot listen: {reason_of(error)}") from error
        path = check_path(control_socket(run_dir(name)))
        control = await dialer.listen(partial(ControlSession, faults), f"unix:{path}")
        stack.push_async_callback(control.close)
        announcement.write(
            RackPlace(
                testbed=name,
                pid=os.getpid(),
                addresses={name: address},
                control=str(path),
                protocols={name: dict(twin.addresses)},
            )
        )
        say(RunningTwin(name=name, address=address, addresses=dict(twin.addresses)))
        async with asyncio.TaskGroup() as group:
            group.create_task(RunFiles(announcement, [control]).watch(), name="hwd:run-files")
            if plan is not None:
                await play(plan, faults)
            await asyncio.Event().wait()


def _hold_name(name: str, stack: AsyncExitStack, *, fixed: bool) -> tuple[str, Announcement]:
    """Reserve this name until `stack` ends, or the next free one: `polatis-6000`, `polatis-6000-2`. Raises RefusedError
    where a `fixed` one is in use.
    """
    for number in itertools.count(1):
        held = name if number == 1 else f"{name}-{number}"
        try:
            return held, stack.enter_context(Announcement(run_dir(held) / "rack.json"))
        except RefusedError:
            if fixed or number == NAMES_TRIED:
                raise
    raise BugError("numbers came to an end")
