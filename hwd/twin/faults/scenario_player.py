"""Plays a scenario: injects faults at their times."""

import asyncio
import logging
from typing import Protocol

from hwd.config.scenario import Scenario
from hwd.model.fault import Fault
from hwd_drivers.core.errors import HwdError

log = logging.getLogger(__name__)


class SetsFaults(Protocol):
    """A target of faults: a rack, or a single twin."""

    def set(self, fault: Fault) -> None:
        """Inject a fault. Raises ConfigError for an unknown subject, RefusedError where it is impossible."""

    def present(self) -> tuple[Fault, ...]:
        """The active faults."""


async def play(scenario: Scenario, faults: SetsFaults) -> None:
    """Inject its faults, with times from now, until the last; forever where it repeats. A fault that is refused is
    logged, and the rest continues.
    """
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while True:
        for timed in scenario.faults:
            await asyncio.sleep(began_s + timed.at_s - loop.time())
            try:
                faults.set(timed.fault)
            except HwdError as error:
                log.warning("%s: %s: cannot be set now: %s", timed.source, timed.fault, error)
        if scenario.every_s is None:
            log.info("scenario %s: over", scenario.name)
            return
        began_s += scenario.every_s
