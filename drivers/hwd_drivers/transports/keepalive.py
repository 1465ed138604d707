"""KeepAlive: sends a request to a device at intervals, so that it does not end an idle session."""

import asyncio
from collections.abc import Awaitable, Callable

from hwd_drivers.core.errors import DeadlineError, LinkError, ProtocolError


class KeepAlive:
    """Calls `ping` with a deadline every `every_s` until it is stopped or the session ends."""

    def __init__(self, *, name: str, every_s: float, ping: Callable[[float], Awaitable[object]]) -> None:
        self._every_s = every_s
        self._ping = ping
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"hwd:{name}/keep-alive")

    async def stop(self) -> None:
        """Safe to call any number of times."""
        self._task.cancel()
        await asyncio.wait((self._task,))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self._ping(loop.time() + self._every_s)
            except DeadlineError:
                continue
            except (LinkError, ProtocolError):
                return
