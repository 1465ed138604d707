"""The brake of a run: who asked it to pause, and the wait for going on."""

import asyncio


class Brake:
    """Asked for at any time; whoever does the steps looks at it before each."""

    def __init__(self) -> None:
        self.by: str | None = None
        """Who asked for the pause; None while none is asked for."""
        self._off = asyncio.Event()
        self._off.set()

    def pull(self, by: str) -> None:
        """The first who asks is remembered."""
        if self.by is None:
            self.by = by
            self._off.clear()

    def let_go(self) -> None:
        self.by = None
        self._off.set()

    async def off(self) -> None:
        """Until nobody asks for a pause."""
        await self._off.wait()
