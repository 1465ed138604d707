"""Requests to the kernel's network configuration over a given socket, many in one call, each answered."""

import errno
import itertools
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hwd_agents.sources.kernel import netlink
from hwd_drivers.core.errors import HwdError, LinkError

BATCH: Final = 64
"""Requests in one call: their answers, of about 800 bytes of kernel memory each, must fit the socket's receive buffer (208 KiB)."""


class KernelError(HwdError):
    """The kernel refused a request; `number` is its errno."""

    title = "the kernel refused"

    def __init__(self, message: str, *, number: int) -> None:
        super().__init__(message)
        self.number = number


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One change. `says` is what it does, for errors; an errno in `accepted` is as good as done."""

    says: str
    type: int
    flags: int
    payload: bytes
    accepted: frozenset[int] = frozenset()


class RouteSocket:
    """Sends requests and takes their answers; returns when the kernel has done all.

    It blocks: the kernel works off a request inside the call that sends it, in 10 to 300 us, and the answer is there when it returns.
    """

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._sequences = itertools.count(1)
        opened.setsockopt(netlink.SOL_NETLINK, netlink.NETLINK_CAP_ACK, 1)
        opened.setsockopt(netlink.SOL_NETLINK, netlink.NETLINK_EXT_ACK, 1)

    def do(self, requests: Sequence[Request]) -> None:
        """Do all in order. Raises KernelError for the first that was refused; the others were tried all the same."""
        refused: KernelError | None = None
        for start in range(0, len(requests), BATCH):
            refused = refused or self._do_batch(requests[start : start + BATCH])
        if refused is not None:
            raise refused

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _do_batch(self, requests: Sequence[Request]) -> KernelError | None:
        waiting = {next(self._sequences): request for request in requests}
        flags = netlink.NLM_F_REQUEST | netlink.NLM_F_ACK
        data = b"".join(
            netlink.encode_message(request.type, request.flags | flags, sequence, request.payload)
            for sequence, request in waiting.items()
        )
        self._socket.send(data)
        refused: KernelError | None = None
        while waiting:
            try:
                answers = self._socket.recv(65536)
            except OSError as error:
                said = "no answer" if isinstance(error, BlockingIOError) else os.strerror(error.errno or errno.EIO)
                raise LinkError(f"kernel: cannot {next(iter(waiting.values())).says}: {said}") from error
            for answer in netlink.messages(answers):
                request = waiting.pop(answer.sequence, None)
                if request is None or answer.type != netlink.NLMSG_ERROR:
                    continue
                number, words = netlink.decode_error(answer.payload, answer.flags)
                if number and number not in request.accepted and refused is None:
                    refused = KernelError(f"kernel: cannot {request.says}: {words}", number=number)
        return refused
