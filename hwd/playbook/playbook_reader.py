"""The reader of playbook texts, outside of the event loop."""

import asyncio
from collections.abc import Mapping

from hwd.config.playbook.playbook import Playbook, load_playbook_text
from hwd.model.testbed import Testbed
from hwd_drivers.core.offload import Offload


class PlaybookReader:
    """Reads one playbook at a time in a thread: a long one takes seconds, and several must not take all threads."""

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
