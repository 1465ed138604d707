"""The reader of playbook texts, outside of the event loop."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from hwd.config.playbook.playbook import Playbook, load_playbook_text
from hwd.config.playbook.stored_demands import StoredDemands
from hwd.fabric.in_use import InUse
from hwd.model.demand import DemandKey, DemandMatrix
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.offload import Offload


class PlaybookReader:
    """Reads one playbook at a time in a thread: a long one takes seconds, and several must not take all threads.

    `find_demand` looks a stored demand up. It raises ConfigError where there is none.
    """

    def __init__(
        self,
        in_use: InUse,
        offload: Offload,
        find_demand: Callable[[DemandKey], Coroutine[Any, Any, DemandMatrix]],
    ) -> None:
        self._in_use = in_use
        self._offload = offload
        self._find_demand = find_demand
        self._reading = asyncio.Lock()

    async def read(self, text: str, *, file: str, parameters: Mapping[str, str]) -> Playbook:
        """Raises ConfigError with every problem; those of the stored demands that it names come after the others."""
        demands = StoredDemands()

        def load(testbed: Testbed) -> Playbook:
            return load_playbook_text(text, file=file, overrides=parameters, testbed=testbed, demands=demands)

        async with self._reading:
            while True:
                playbook = await self._offload(load, testbed := self._in_use.testbed)
                if demands.missing:
                    await self._look_up(demands)
                elif testbed is self._in_use.testbed:  # else it was reloaded meanwhile
                    return playbook

    async def _look_up(self, demands: StoredDemands) -> None:
        for key in demands.missing:
            try:
                demands.known[key] = await self._find_demand(key)
            except ConfigError as error:
                demands.known[key] = str(error)
        demands.missing.clear()
