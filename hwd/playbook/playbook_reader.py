"""The reader of playbook texts, outside of the event loop."""

import asyncio
from collections.abc import Mapping

from hwd.config.playbook.playbook import Playbook, load_playbook_text
from hwd.fabric.fabric import Fabric
from hwd.model.testbed import Testbed
from hwd_drivers.core.offload import Offload


class PlaybookReader:
    """Reads one playbook at a time in a thread: a long one takes seconds, and several must not take all threads."""

    def __init__(self, testbed: Testbed, offload: Offload) -> None:
        self._testbed = testbed
        self._offload = offload
        self._reading = asyncio.Lock()

    def use_testbed(self, fabric: Fabric) -> None:
        """Go on with the testbed of this fabric."""
        self._testbed = fabric.testbed

    async def read(self, text: str, *, file: str, parameters: Mapping[str, str]) -> Playbook:
        """Raises ConfigError with every problem."""

        def load(testbed: Testbed) -> Playbook:
            return load_playbook_text(text, file=file, overrides=parameters, testbed=testbed)

        async with self._reading:
            while True:
                playbook = await self._offload(load, testbed := self._testbed)
                if testbed is self._testbed:  # else it was reloaded meanwhile
                    return playbook
