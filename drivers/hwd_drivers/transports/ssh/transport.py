"""SshTransport: paramiko's side of one SSH connection, without its timers and logs."""

import logging
import socket
import threading
from collections.abc import Callable
from typing import Final

import paramiko
from paramiko.packet import Packetizer
from typing_extensions import override

PATIENCE_S: Final = 60.0
"""Longer than any deadline: the caller sets those."""
CHANNEL_MESSAGES: Final = 80
"""The first type of a message of the connection protocol (RFC 4250, 4.1.2); lower types carry keys and logins."""
LOG: Final = f"{__name__}.paramiko"
"""Logger of paramiko, disabled: its errors are reported as ours."""


class SshTransport(paramiko.Transport):
    """A thread that ends when its socket is closed.

    `after_reply` is called in that thread when the reply to a client's request was sent: the started command must not
    write earlier.
    """

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.packetizer = _Packetizer(sock, sent=self._after_message)
        self.set_log_channel(LOG)
        self.logger.setLevel(logging.CRITICAL)
        self.banner_timeout = self.handshake_timeout = self.auth_timeout = PATIENCE_S
        self.after_reply: Callable[[], None] | None = None

    def _after_message(self, kind: int) -> None:
        if self.after_reply is not None and kind >= CHANNEL_MESSAGES and threading.current_thread() is self:
            after_reply, self.after_reply = self.after_reply, None
            after_reply()


class _Packetizer(Packetizer):
    """A packetizer; `sent` is called with the type of each message that went out, in the thread that sent it."""

    def __init__(self, sock: socket.socket, *, sent: Callable[[int], None]) -> None:
        super().__init__(sock)
        self._tell_sent = sent

    @override
    def send_message(self, data: paramiko.Message) -> None:
        kind = data.asbytes()[0]
        super().send_message(data)
        self._tell_sent(kind)

    @override
    def start_handshake(self, timeout: float) -> None:
        """Do nothing: paramiko would start a thread here that outlives a connection which breaks in its handshake."""
