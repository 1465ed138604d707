"""PollTimer: the wait of a watcher between two polls, which a call can cut short."""

import asyncio


class PollTimer:
    """One waiter at a time."""

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None
        self._hurry = False
        self._last_s: float | None = None

    def hurry(self) -> None:
        """End the present wait at once, or skip the next one."""
        self._hurry = True
        _release(self._waiter)

    @property
    def hurried(self) -> bool:
        """Whether the next wait will be skipped."""
        return self._hurry

    async def wait(self, every_s: float | None) -> None:
        """Return `every_s` after the previous return, or at once when that time is past or `hurry` is called.

        `every_s` None waits for `hurry` alone. Timers fire up to a millisecond late: if a return was late by less than
        `every_s`, the next one is so much earlier, so that 5 ms gives 200 polls a second.
        """
        loop = asyncio.get_running_loop()
        due_s = None
        if not self._hurry:
            waiter = self._waiter = loop.create_future()
            timer = None
            if every_s is not None:
                due_s = loop.time() if self._last_s is None else self._last_s + every_s
                timer = loop.call_at(due_s, _release, waiter)
            try:
                await waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        now_s = loop.time()
        in_turn = due_s is not None and every_s is not None and not self._hurry and 0 <= now_s - due_s < every_s
        self._last_s = due_s if in_turn else now_s
        self._hurry = False


def _release(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
