"""AcceptLoop: accepts connections from a listening socket, and pauses while no file descriptor is free.

asyncio's own servers (Python 3.11) try a whole backlog at once where `accept` fails for lack of descriptors, log each
failure with its traceback, and set a timer for each: with 100 waiting connections this uses all of a processor.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Final, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")

REST_S: Final = 0.5
OUT_OF: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
GONE: Final = frozenset(
    {errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.ENETDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH}
)
"""Errors of the connection itself that accept(2) of Linux passes on."""


class AcceptLoop:
    """The loop that accepts connections of a listening socket; `take` gets each of them, non-blocking. `starved` gets
    the reason before each pause and may free descriptors.

    loop = AcceptLoop(socket.create_server(("127.0.0.1", 0)), take=take, starved=log_it)
    task = asyncio.create_task(loop.run())      # cancel it, then close the socket
    """

    def __init__(
        self, sock: socket.socket, *, take: Callable[[socket.socket], None], starved: Callable[[OSError], None]
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._take = take
        self._starved = starved

    async def run(self) -> None:
        """Accept until cancelled; raises OSError where the listening socket itself fails."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._sock)
            except OSError as error:
                if error.errno in OUT_OF:
                    self._safely(self._starved, error)
                    await asyncio.sleep(REST_S)
                elif error.errno not in GONE:
                    raise
                continue
            if not self._safely(self._take, connection):
                connection.close()

    @staticmethod
    def _safely(call: Callable[[T], None], argument: T) -> bool:
        """Handle one connection: a failure here must not prevent others from being accepted."""
        try:
            call(argument)
        except Exception:
            log.exception("accepting: a connection could not be handled, which is a bug of hwd; others still are")
            return False
        return True
