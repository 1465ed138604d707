"""Reads the texts of playbooks for the daemon."""

import asyncio
from collections.abc import Mapping

from hwd.config.playbook.playbook import Playbook, load_playbook_text
from hwd.model.testbed import Testbed
from hwd_drivers.core.offload import Offload


class PlaybookReader:
    """Outside of the loop and one at a time: a long one takes seconds, and whoever sends several takes no more than one thread."""

    def __init__(self, testbed: Testbed, offload: Offload) -> None:
        self._testbed = testbed
        self._offload = offload
        self._reading = asyncio.Lock()

    async def read(self, text: str, *, file: str, parameters: Mapping[str, str]) -> Playbook:
        """Raises ConfigError with every problem."""

        def load() -> Playbook:
            return load_playbook_text(text, file=file, overrides=parameters, testbed=self._testbed)

        async with self._reading:
            return await self._offload(load)
