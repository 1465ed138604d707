"""NetlinkRequests: requests to the kernel over netlink, in messages of pyroute2; one call sends and answers many."""

import contextlib
import itertools
import os
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyroute2.netlink import (
    NETLINK_EXT_ACK,
    NETLINK_ROUTE,
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    SOL_NETLINK,
    nlmsg,
)
from pyroute2.netlink.rtnl.iprsocket import IPRSocket

from hwd_drivers.core.errors import HwdError, LinkError
from hwd_drivers.core.reason import reason_of

from .sockets import Sockets

ANSWER_WITHIN_S: Final = 30.0
"""Longest wait for an answer: the kernel works inside the call, and a NIC's firmware may take seconds."""
BATCH: Final = 64
"""Requests of one call: their answers, about 800 bytes of kernel memory each, must fit the receive buffer (208 KiB)."""

TRIES: Final = 5
"""The most tries of a dump that the kernel says is incomplete, since what was read changed meanwhile (NLM_F_DUMP_INTR).
"""

_END: Final = struct.Struct("=16xi")  # struct nlmsghdr, then an int
_SEQUENCE_AT: Final = 8  # in struct nlmsghdr: after the length, the type and the flags


class KernelRefusal(HwdError):
    """The kernel, or a driver in it, refused; `number` is its errno."""

    title = "the kernel refused"

    def __init__(self, message: str, *, number: int) -> None:
        super().__init__(message)
        self.number = number


class _DumpInterrupted(Exception):
    """The objects of a dump changed while it was read: its answer may be incomplete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question or change, as bytes. `says` names it in errors; an errno in `accepted` is no refusal."""

    says: str
    data: bytes
    accepted: frozenset[int] = frozenset()


def error_of(end: Any) -> int:
    """The errno in the last message of an answer, NLMSG_ERROR or NLMSG_DONE; 0 where all went well.

    A dump that fails on its way says so in its NLMSG_DONE (linux/af_netlink.c), of which pyroute2 decodes the header.
    """
    if end["header"]["type"] == NLMSG_ERROR:
        return -int(end["error"])
    if end["header"]["length"] < _END.size:
        return 0
    (number,) = _END.unpack_from(end.data, end.offset)
    return abs(int(number))


def encode(message: nlmsg, kind: int, flags: int = 0) -> bytes:
    """The bytes of a message of type `kind`, with sequence number 0. All but dumps request an acknowledgement."""
    dump = flags & NLM_F_DUMP == NLM_F_DUMP
    message["header"].update(type=kind, flags=flags | NLM_F_REQUEST | (0 if dump else NLM_F_ACK), sequence_number=0)
    message.encode()
    return bytes(message.data)


class NetlinkRequests:
    """Sends requests over a socket of its own from `sockets`.

    It blocks: call it in a thread, unless the kernel answers at once. pyroute2's IPRSocket, unlike its IPRoute, runs no
    event loop, so that this also works in the thread of a running loop.

    with NetlinkRequests(HostSockets()) as kernel:
        (link,) = kernel.ask("read eth0", ifinfmsg(...), RTM_GETLINK)
    """

    def __init__(
        self,
        sockets: Sockets,
        protocol: int = NETLINK_ROUTE,
        *,
        answers: Mapping[int, type[nlmsg]] | None = None,
        answer_within_s: float = ANSWER_WITHIN_S,
        subject: str = "",
    ) -> None:
        """`answers`: by type, the message class to use instead of pyroute2's own. `subject` begins each error.

        Raises OSError where no socket can be opened.
        """
        self._socket = sockets.open(socket.AF_NETLINK, socket.SOCK_DGRAM, protocol)
        self._socket.settimeout(answer_within_s)
        self._netlink = IPRSocket(use_socket=self._socket)
        self._netlink.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)  # by pyroute2, which wants the socket in this thread
        self._sequences = itertools.count(1)
        self._begins = f"{subject}: cannot" if subject else "cannot"
        self.read_as(answers or {})

    def __enter__(self) -> "NetlinkRequests":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._netlink.close()
        self._socket.close()  # pyroute2 does not close a socket that it did not open

    def read_as(self, answers: Mapping[int, type[nlmsg]]) -> None:
        """Decode messages of these types by these classes from now on."""
        self._netlink.register_policy(dict(answers))

    def ask(self, says: str, message: nlmsg, kind: int, flags: int = 0) -> list[Any]:
        """The kernel's answer, without its acknowledgement: messages of pyroute2. Raises as `do`."""
        request = Request(says=says, data=encode(message, kind, flags))
        for _ in range(TRIES):
            with contextlib.suppress(_DumpInterrupted):
                return self.do([request])
        raise LinkError(f"{self._begins} {says}: netlink: it changed while it was read, {TRIES} times. Try again")

    def do(self, requests: Iterable[Request]) -> list[Any]:
        """Send all, in order, and return their answers.

        Raises KernelRefusal for the first that was refused, after all others were tried, and LinkError when no answer
        comes.
        """
        answers: list[Any] = []
        refusals: list[KernelRefusal] = []
        rest = iter(requests)
        while batch := list(itertools.islice(rest, BATCH)):
            self._do_batch(batch, answers, refusals)
        if refusals:
            raise refusals[0]
        return answers

    def _do_batch(self, batch: list[Request], answers: list[Any], refusals: list[KernelRefusal]) -> None:
        waiting = {next(self._sequences): request for request in batch}
        data = bytearray()
        for sequence, request in waiting.items():
            begin = len(data)
            data += request.data
            struct.pack_into("=I", data, begin + _SEQUENCE_AT, sequence)
        try:
            self._netlink.send(data)
            while waiting:
                for message in self._netlink.get():
                    header = message["header"]
                    if header["sequence_number"] not in waiting:
                        continue
                    if header["flags"] & NLM_F_DUMP_INTR:
                        raise _DumpInterrupted(waiting[header["sequence_number"]].says)
                    if header["type"] not in (NLMSG_DONE, NLMSG_ERROR):
                        answers.append(message)
                        continue
                    request = waiting.pop(header["sequence_number"])
                    if (number := error_of(message)) not in (0, *request.accepted):
                        refusals.append(self._refusal(request, number, message.get_attr("NLMSGERR_ATTR_MSG")))
        except OSError as error:
            says = next(iter(waiting.values())).says
            words = os.strerror(error.errno) if error.errno else reason_of(error)
            if isinstance(error, BlockingIOError):
                words = "no answer"
            raise LinkError(f"{self._begins} {says}: netlink: {words}") from error

    def _refusal(self, request: Request, number: int, more: str | None) -> KernelRefusal:
        words = f"{os.strerror(number)}: {more}" if more else os.strerror(number)
        return KernelRefusal(f"{self._begins} {request.says}: {words}", number=number)
