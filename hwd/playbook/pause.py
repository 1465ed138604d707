"""The brake of a run: a request to pause, and the wait for its end."""

import asyncio


class Brake:
    """A pause may be requested at any time; it takes effect before the next step."""

    def __init__(self) -> None:
        self.by: str | None = None
        """Who requested the pause; None without one."""
        self._off = asyncio.Event()
        self._off.set()

    def pull(self, by: str) -> None:
        """Request a pause; the first request counts."""
        if self.by is None:
            self.by = by
            self._off.clear()

    def let_go(self) -> None:
        self.by = None
        self._off.set()

    async def off(self) -> None:
        """Wait until no pause is requested."""
        await self._off.wait()
