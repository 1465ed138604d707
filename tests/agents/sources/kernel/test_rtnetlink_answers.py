"""Answers of a kernel that is played by hand, in bytes as linux/rtnetlink.h has them, over a socket pair."""

import asyncio
import errno
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest
from pyroute2.netlink import NLM_F_DUMP
from pyroute2.netlink.rtnl.rtmsg import rtmsg
from typing_extensions import override

from hwd_agents.sources.kernel.netlink_requests import TRIES, KernelRefusal, NetlinkRequests
from hwd_agents.sources.kernel.rtnetlink import RtnetlinkLinks
from hwd_agents.sources.link_source import LinkReading
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import LinkError

from ..played_ethtool import attribute

ERROR, DONE, NEWLINK, GETROUTE = 2, 3, 16, 26
MULTI, INTERRUPTED = 0x2, 0x10
MANY = 400


def message(kind: int, body: bytes, *, sequence: int = 0, flags: int = 0) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, 0) + body


def link(index: int, name: bytes, *, sequence: int = 0, flags: int = 0, operstate: int = 6) -> bytes:
    """An interface with as many attributes as real ones have."""
    filler = b"".join(attribute(kind, bytes(4)) for kind in range(60, 100))
    body = struct.pack("=BxHiII", 0, 1, index, 0x10043, 0)
    body += attribute(3, name + b"\0") + attribute(16, bytes([operstate])) + attribute(35, struct.pack("=I", 4))
    return message(NEWLINK, body + filler, sequence=sequence, flags=flags)


class PlayedKernel(socket.socket):
    """The agent's end of a socket pair. `answer(sequence)` makes the datagrams that answer a request."""

    def __init__(self, answer: Callable[[int], list[bytes]]) -> None:
        ours, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        super().__init__(fileno=ours.detach())
        self.setblocking(False)
        self.far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
        self.answer = answer
        self.requests: list[bytes] = []

    @property
    def asked(self) -> int:
        return len(self.requests)

    def open(self, family: int, kind: int, proto: int = 0) -> socket.socket:
        return self

    @override
    def bind(self, address: Any) -> None:
        pass

    @override
    def setsockopt(self, level: int, name: int, value: Any, *length: int) -> None:
        pass

    @override
    def send(self, data: Any, flags: int = 0) -> int:
        self.requests.append(bytes(data))
        (sequence,) = struct.unpack_from("=I", data, 8)
        for datagram in self.answer(sequence):
            self.far.send(datagram)
        return len(data)

    @override
    def close(self) -> None:
        self.far.close()
        super().close()


def done(sequence: int, *, error: int = 0, flags: int = 0) -> bytes:
    return message(DONE, struct.pack("=i", -error), sequence=sequence, flags=MULTI | flags)


def acknowledged(sequence: int, *, error: int = 0) -> bytes:
    return message(ERROR, struct.pack("=i", -error) + bytes(16), sequence=sequence)


async def read_links(answer: Callable[[int], list[bytes]], *interfaces: str) -> list[str]:
    """The interfaces of all readings, of the first dump and of a refresh."""
    seen: list[str] = []
    links = RtnetlinkLinks(PlayedKernel(answer), SystemClock())
    await links.open(lambda reading: seen.append(reading.interface))
    try:
        await links.refresh(interfaces)
    finally:
        await links.close()
    return seen


async def test_an_interface_that_went_before_it_was_read_again_is_no_error_and_a_refusal_to_read_one_is() -> None:
    error = errno.ENODEV

    def answer(sequence: int) -> list[bytes]:
        match sequence:
            case 1:
                return [link(1, b"eth0", sequence=1, flags=MULTI) + link(2, b"eth1", sequence=1, flags=MULTI), done(1)]
            case 2:
                return [acknowledged(2, error=error)]
            case _:
                return [link(2, b"eth1", sequence=sequence), acknowledged(sequence)]

    assert await read_links(answer, "eth0", "eth1") == ["eth0", "eth1", "eth1"]
    error = errno.EPERM
    with pytest.raises(LinkError, match="Operation not permitted"):
        await read_links(answer, "eth0", "eth1")


async def test_a_single_reading_that_nobody_can_take_ends_and_all_are_read_again() -> None:
    def answer(sequence: int) -> list[bytes]:
        if sequence == 2:
            return [link(1, b"eth0", sequence=2), acknowledged(2)]
        return [link(1, b"eth0", sequence=sequence, flags=MULTI), done(sequence)]

    reported: list[str] = []
    read_again = asyncio.Event()

    def take(reading: LinkReading) -> None:
        if kernel.asked == 2:
            raise RuntimeError("a callback failed")
        if kernel.asked == 3:
            read_again.set()

    kernel = PlayedKernel(answer)
    links = RtnetlinkLinks(kernel, SystemClock())
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
    await links.open(take)
    await asyncio.wait_for(links.refresh(["eth0"]), 10)
    await asyncio.wait_for(read_again.wait(), 10)
    await links.close()
    assert reported == ["a callback failed"]


async def test_other_callbacks_run_while_a_host_with_many_interfaces_is_read() -> None:
    def answer(sequence: int) -> list[bytes]:
        links = [link(index, b"veth%d" % index, sequence=sequence, flags=MULTI) for index in range(1, MANY + 1)]
        return [*(b"".join(links[at : at + 20]) for at in range(0, MANY, 20)), done(sequence)]

    seen: list[int] = []
    turns: set[int] = set()
    turn = 0

    def take(reading: LinkReading) -> None:
        seen.append(reading.ifindex)
        turns.add(turn)

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    links = RtnetlinkLinks(PlayedKernel(answer), SystemClock())
    await links.open(take)
    counting.cancel()
    await links.close()
    assert seen == list(range(1, MANY + 1))
    assert len(turns) > 4, "all of them kept the loop at once"


async def test_a_notice_that_nobody_can_take_or_decode_loses_no_other_and_all_are_read_again() -> None:
    seen: list[str] = []
    reported: list[str] = []
    read_again = asyncio.Event()

    def take(reading: LinkReading) -> None:
        seen.append(reading.interface)
        if reading.interface == "bad":
            raise RuntimeError("a callback failed")
        if kernel.asked == 2 and not reading.present:
            read_again.set()

    kernel = PlayedKernel(lambda sequence: [done(sequence)])
    links = RtnetlinkLinks(kernel, SystemClock())
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
    await links.open(take)
    for index, name in enumerate((b"bad", b"eth0", b"eth1"), start=1):
        kernel.far.send(link(index, name))
    kernel.far.send(link(4, b"odd", operstate=99))
    await asyncio.wait_for(read_again.wait(), 10)
    await links.refresh()
    await links.close()
    assert seen == ["bad", "eth0", "eth1", "bad", "eth0", "eth1"], "first the notices, then that they are gone"
    assert (reported.count("a callback failed"), len(reported)) == (2, 3)


async def test_dump_of_links_that_fails_on_its_way_is_an_error_and_nothing_is_gone() -> None:
    answers = iter([0, errno.ENOMEM])

    def answer(sequence: int) -> list[bytes]:
        error = next(answers)
        links = [] if error else [link(1, b"eth0", sequence=sequence, flags=MULTI)]
        return [*links, done(sequence, error=error)]

    seen: list[LinkReading] = []
    links = RtnetlinkLinks(PlayedKernel(answer), SystemClock())
    await links.open(seen.append)
    with pytest.raises(LinkError, match="Cannot allocate memory"):
        await links.refresh()
    await links.close()
    assert [reading.present for reading in seen] == [True]


def test_dump_that_fails_on_its_way_is_a_refusal_and_an_interrupted_one_is_read_again_so_many_times() -> None:
    def ask(*ends: int, error: int = 0) -> tuple[list[Any], int]:
        flags = iter(ends)
        kernel = PlayedKernel(lambda sequence: [done(sequence, error=error, flags=next(flags))])
        with NetlinkRequests(kernel) as requests:
            try:
                return requests.ask("read the routes", rtmsg(), GETROUTE, NLM_F_DUMP), kernel.asked
            finally:
                assert kernel.asked == len(ends)

    assert ask(INTERRUPTED, 0) == ([], 2)
    with pytest.raises(KernelRefusal, match="cannot read the routes: Message too long"):
        ask(0, error=errno.EMSGSIZE)
    with pytest.raises(LinkError, match="cannot read the routes: netlink: it changed while it was read, 5 times"):
        ask(*[INTERRUPTED] * TRIES)
