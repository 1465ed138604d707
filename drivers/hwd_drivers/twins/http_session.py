"""HttpSession: one client of an HTTP/1.1 twin."""

import logging
from collections.abc import Callable
from typing import Final

from typing_extensions import override

from hwd_drivers.codecs.http import HttpRequest, HttpResponse, ServerWire
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.twins.server import TwinServer, TwinSession

AFTER_S: Final = 1e-6
"""Delay of the next request of a session after an answer: timers of the same time have no order."""

log = logging.getLogger(__name__)


class HttpSession(TwinSession):
    """One client of an HTTP/1.1 twin.

    `handle` is called with each request after the answer to the one before, and returns its answer.
    """

    def __init__(self, server: TwinServer, handle: Callable[[HttpRequest], HttpResponse]) -> None:
        super().__init__(server)
        self._handle = handle
        self._wire = ServerWire()
        self._busy = False

    @override
    def data_received(self, data: bytes) -> None:
        self._take(data)

    @override
    def eof_received(self) -> bool:
        """Requests before the end are still answered."""
        self._take(b"")
        return self._busy

    def _take(self, data: bytes) -> None:
        try:
            self._wire.feed(data)
        except ProtocolError as error:
            self._refuse(error)
            return
        if not self._busy:
            self._go_on(b"")

    def _go_on(self, _: bytes) -> None:
        self._busy = False
        try:
            while not self._busy and (request := self._wire.next_request()) is not None:
                self._do(request)
        except ProtocolError as error:
            self._refuse(error)
            return
        if self._wire.wants_go_ahead:
            self.send(self._wire.go_ahead())
        if self._wire.over and not self._busy:
            self.hang_up()

    def _do(self, request: HttpRequest) -> None:
        self._busy = True
        response = self._handle(request)
        faults = self.server.faults
        data = self._wire.encode(response, wall_ns=self.server.clock.wall_ns() + round(response.delay_s * 1e9))
        self.reply(data, delay_s=response.delay_s)
        if (wait_s := response.delay_s + faults.slow_s) > 0:
            self.later(wait_s + AFTER_S, self._go_on, b"")
        else:
            self._busy = False

    def _refuse(self, error: ProtocolError) -> None:
        log.warning("twin %s: %s; ending the session", self.server.mirror.name, error)
        if self._busy:  # no other answer may follow the running one
            self.abort()
            return
        if not self._wire.over:
            text = f"{error}\n".encode()
            response = HttpResponse(
                status=400, headers=(("content-type", "text/plain"), ("connection", "close")), body=text
            )
            self.reply(self._wire.encode(response, wall_ns=self.server.clock.wall_ns()))
        self.hang_up()
