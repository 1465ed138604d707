"""PendingReplies: the commands that agents have not answered yet."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hwd_agents.wire import Reply
from hwd_drivers.core.errors import LinkError


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingReply:
    host: str
    boot: str
    reply: asyncio.Future[Reply]


class PendingReplies:
    """Pairs replies with commands by id. A reply counts only from the host and the boot that was asked."""

    def __init__(self) -> None:
        self._waiting: dict[str, _PendingReply] = {}

    @contextmanager
    def wait(self, id: str, *, host: str, boot: str) -> Iterator[asyncio.Future[Reply]]:
        """Yield the future of the reply to command `id`."""
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[id] = _PendingReply(host=host, boot=boot, reply=reply)
        try:
            yield reply
        finally:
            del self._waiting[id]
            if not reply.cancel() and not reply.cancelled():
                reply.exception()  # mark it as retrieved, even where nobody waits for it

    def answer(self, host: str, reply: Reply) -> bool:
        """Pass a reply to the caller that waits for it; return whether there is one."""
        waiting = self._waiting.get(reply.id)
        if waiting is None or (waiting.host, waiting.boot) != (host, reply.boot):
            return False
        if not waiting.reply.done():
            waiting.reply.set_result(reply)
        return True

    def fail(self, host: str, cause: str) -> None:
        """The host's agent is down: fail all its commands."""
        for waiting in self._waiting.values():
            if waiting.host == host and not waiting.reply.done():
                waiting.reply.set_exception(LinkError(f"{host}: its agent was lost before it answered: {cause}"))
