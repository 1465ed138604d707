"""One question to the kernel over netlink, and its whole answer."""

import itertools
import os
import socket
from typing import Final

from hwd_drivers.core.errors import HwdError, LinkError
from hwd_drivers.core.reason import reason_of

from . import netlink

ANSWER_WITHIN_S: Final = 30.0
"""The kernel works inside the call that asks; a NIC whose firmware must be told may take seconds."""
_RECEIVE_BYTES: Final = 65536


class KernelRefusal(HwdError):
    """The kernel, or a driver in it, said no; `number` is its errno."""

    title = "the kernel refused"

    def __init__(self, message: str, *, number: int) -> None:
        super().__init__(message)
        self.number = number


class NetlinkAsk:
    """Asks over one socket, which it owns. It blocks: call it in a thread.

    with NetlinkAsk(sockets.open(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE)) as kernel:
        kernel.ask("read eth0", netlink.RTM_GETLINK, 0, payload)
    """

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._sequences = itertools.count(1)
        opened.settimeout(ANSWER_WITHIN_S)
        opened.setsockopt(netlink.SOL_NETLINK, netlink.NETLINK_CAP_ACK, 1)
        opened.setsockopt(netlink.SOL_NETLINK, netlink.NETLINK_EXT_ACK, 1)

    def __enter__(self) -> "NetlinkAsk":
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def ask(self, says: str, kind: int, flags: int, payload: bytes) -> list[netlink.Message]:
        """What the kernel answers, without its acknowledgement. Raises KernelRefusal with `says`, LinkError where no answer comes."""
        sequence = next(self._sequences)
        dump = flags & netlink.NLM_F_DUMP == netlink.NLM_F_DUMP
        flags |= netlink.NLM_F_REQUEST | (0 if dump else netlink.NLM_F_ACK)
        answers: list[netlink.Message] = []
        try:
            self._socket.send(netlink.encode_message(kind, flags, sequence, payload))
            while True:
                for message in netlink.messages(self._socket.recv(_RECEIVE_BYTES)):
                    if message.sequence != sequence:
                        continue
                    if message.type == netlink.NLMSG_DONE:
                        return answers
                    if message.type != netlink.NLMSG_ERROR:
                        answers.append(message)
                        continue
                    number, words = netlink.decode_error(message.payload, message.flags)
                    if number:
                        raise KernelRefusal(f"cannot {says}: {words}", number=number)
                    return answers
        except OSError as error:
            words = os.strerror(error.errno) if error.errno else reason_of(error)
            raise LinkError(f"cannot {says}: netlink: {words}") from error
