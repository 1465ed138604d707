"""DaemonAsks: what this agent asks of the daemon, over MQTT; each ask has an answer or an error, in bounded time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

import msgspec

from hwd_agents.wire import Answer, Arguments, Ask, encode
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import DeadlineError, FailedError, LinkError, RefusedError
from hwd_drivers.core.structs import to_plain

GRACE_S: Final = 0.5
"""How long after its expiry an answer is waited for: it may be on its way."""
PENDING_MOST: Final = 256
"""Asks without an answer; the daemon takes no more of one host."""
AGAIN_S: Final = 1.0
"""Between two sendings of an ask that is sent again."""

A = TypeVar("A", bound=msgspec.Struct)


class DaemonAsks:
    """The asks of one boot. `publish` sends on the topic `ask`; `is_up`: whether the broker is connected and knows this
    boot.
    """

    def __init__(
        self,
        *,
        host: str,
        boot: str,
        clock: Clock,
        is_up: Callable[[], bool],
        publish: Callable[[bytes], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None], str], None],
    ) -> None:
        self._host = host
        self._boot = boot
        self._clock = clock
        self._is_up = is_up
        self._publish = publish
        self._spawn = spawn
        self._asked = 0
        self._pending: dict[str, asyncio.Future[Answer]] = {}

    async def ask(self, arguments: Arguments[A], *, within_s: float, again: bool = False) -> A:
        """Ask, and return the daemon's answer. `again`: send it until it is answered, so that a daemon which is started
        anew answers it: for what may be done twice.

        Raises RefusedError where the daemon refuses; LinkError where the broker is away or goes away meanwhile,
        DeadlineError where no answer came or the daemon got it too late, FailedError where it could not: then the
        daemon may have done it or not.
        """
        verb = arguments.VERB
        if not self._is_up():
            raise LinkError(f"{self._host}: cannot ask the daemon to {verb}: the broker is not connected. Try again")
        if len(self._pending) >= PENDING_MOST:
            raise RefusedError(f"{self._host}: {PENDING_MOST} asks have no answer yet. Try again")
        self._asked += 1
        id = str(self._asked)
        expires_ns = self._clock.monotonic_ns() + round(within_s * 1e9)
        ask = Ask(
            boot=self._boot,
            seq=self._asked,
            id=id,
            expires_at_ns=expires_ns,
            verb=verb,
            arguments=to_plain(arguments),
        )
        answered = self._pending[id] = asyncio.get_running_loop().create_future()
        self._spawn(self._send(answered, encode(ask), again=again), f"ask-{verb}")
        try:
            async with asyncio.timeout(within_s + GRACE_S):
                answer = await answered
        except TimeoutError as error:
            raise DeadlineError(
                f"{self._host}: {verb}: the daemon did not answer within {within_s:g} s. Is `hwd serve` running? Try "
                "again"
            ) from error
        finally:
            del self._pending[id]
        match answer.outcome:
            case "done":
                return arguments.answer(answer.data)
            case "refused":
                raise RefusedError(answer.why)
            case "expired":
                raise DeadlineError(f"{verb}: the daemon did not do it: {answer.why}")
            case _:
                raise FailedError(f"{verb}: {answer.why}")

    def take(self, answer: Answer) -> None:
        """Hand an answer to who waits for it: nobody waits for one that came twice, or too late."""
        waiting = self._pending.get(answer.id)
        if answer.boot == self._boot and waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def lost(self, cause: str) -> None:
        """The broker went away: what is on its way is lost, both ways."""
        for waiting in self._pending.values():
            _fail(waiting, f"{self._host}: the broker went away before the daemon answered: {cause}. Try again")

    async def _send(self, answered: asyncio.Future[Answer], payload: bytes, *, again: bool) -> None:
        """The daemon does what it has got once, however often it gets it."""
        try:
            await self._publish(payload)
            while again and not answered.done():
                await asyncio.wait((answered,), timeout=AGAIN_S)
                if not answered.done():
                    await self._publish(payload)
        except LinkError as error:
            _fail(answered, f"{error}. Try again")


def _fail(waiting: asyncio.Future[Answer], why: str) -> None:
    if not waiting.done():
        waiting.set_exception(LinkError(why))
        waiting.exception()  # marks it as retrieved, even where nobody waits for it any more
