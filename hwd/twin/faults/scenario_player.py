"""A scenario while it goes on: faults set at their times."""

import asyncio
import logging
from typing import Protocol

from hwd.config.scenario import Scenario
from hwd.model.fault import Fault
from hwd_drivers.core.errors import HwdError

log = logging.getLogger(__name__)


class SetsFaults(Protocol):
    """What faults can be told to: those of a rack, or of a twin alone."""

    def set(self, fault: Fault) -> None:
        """Let it go wrong from now on. Raises ConfigError for a subject that is not there, RefusedError where it cannot be."""

    def present(self) -> tuple[Fault, ...]:
        """What is wrong now."""


async def play(scenario: Scenario, faults: SetsFaults) -> None:
    """Set its faults, counted from now, until the last is set; for ever where it begins anew. What cannot be set then is said, and the rest goes on."""
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
