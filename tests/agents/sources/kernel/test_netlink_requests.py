"""Requests over netlink: of the kernel, and of a peer in user space where the kernel would never do so."""

import asyncio
import errno
import os
import socket
from collections.abc import Iterator

import pytest
from pyroute2.netlink import NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL
from pyroute2.netlink.rtnl import RTM_GETLINK, RTM_NEWLINK
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from hwd.twin.kernel import Keeper
from hwd_agents.sources.kernel.netlink_requests import BATCH, KernelRefusal, NetlinkRequests, Request, encode
from hwd_agents.sources.kernel.sockets import HostSockets
from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.offload import ThreadOffload

from ..played_ethtool import NETLINK_USERSOCK


class Mute:
    """Implements `Sockets`: its sockets are connected to a peer that never answers, and that counts datagrams."""

    def __init__(self) -> None:
        self.peer = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_USERSOCK)
        self.peer.bind((0, 0))
        self.peer.setblocking(False)

    def open(self, family: int, kind: int, proto: int = 0) -> socket.socket:
        opened = socket.socket(socket.AF_NETLINK, kind, NETLINK_USERSOCK)
        opened.connect(self.peer.getsockname())
        return opened

    def count(self) -> int:
        count = 0
        while True:
            try:
                self.peer.recv(1 << 20)
            except BlockingIOError:
                return count
            count += 1


@pytest.fixture
def mute() -> Iterator[Mute]:
    mute = Mute()
    yield mute
    mute.peer.close()


def named(name: str) -> ifinfmsg:
    message = ifinfmsg()
    message["attrs"].append(("IFLA_IFNAME", name))
    return message


def ask_for(name: str) -> Request:
    return Request(says=f"read {name}", data=encode(named(name), RTM_GETLINK))


def test_what_there_is_is_answered_and_what_there_is_not_is_refused_in_words() -> None:
    with NetlinkRequests(HostSockets()) as kernel:
        (link,) = kernel.ask("read lo", named("lo"), RTM_GETLINK)
        assert (link["index"], link.get_attr("IFLA_IFNAME")) == (socket.if_nametoindex("lo"), "lo")
        with pytest.raises(KernelRefusal, match=r"^cannot read hwd-none: No such device$") as caught:
            kernel.ask("read hwd-none", named("hwd-none"), RTM_GETLINK)
        assert caught.value.number == errno.ENODEV


@pytest.mark.kernel
def test_words_of_the_kernel_follow_those_of_the_errno(keeper: Keeper) -> None:
    with NetlinkRequests(keeper.sockets("h0"), subject="h0") as kernel:
        message = named("odd")
        message["attrs"].append(("IFLA_LINKINFO", {"attrs": [("IFLA_INFO_KIND", "no-such-kind")]}))
        with pytest.raises(KernelRefusal, match=r"^h0: cannot make odd: Operation not supported: Unknown device type$"):
            kernel.ask("make odd", message, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL)


def test_many_are_answered_in_order_and_the_first_refusal_is_told_when_all_were_tried() -> None:
    with NetlinkRequests(HostSockets()) as kernel:
        links = kernel.ask("read the interfaces", ifinfmsg(), RTM_GETLINK, NLM_F_DUMP)
        assert {link.get_attr("IFLA_IFNAME") for link in links} == {name for _, name in socket.if_nameindex()}
        answers = kernel.do([ask_for("lo")] * (2 * BATCH + 1))
        assert [link.get_attr("IFLA_IFNAME") for link in answers] == ["lo"] * (2 * BATCH + 1)
        several = [ask_for("hwd-a"), *[ask_for("lo")] * BATCH, ask_for("hwd-b")]
        with pytest.raises(KernelRefusal, match="cannot read hwd-a:"):
            kernel.do(several)
        assert len(kernel.do([ask_for("lo")])) == 1, "answers to the others are not left in the socket"
        either = frozenset({errno.EPERM, errno.ENODEV})
        accepted = Request(says="x", data=encode(named("hwd-none"), RTM_GETLINK), accepted=either)
        assert kernel.do([accepted]) == []


@pytest.mark.parametrize(("within_s", "words"), [(0, "no answer"), (0.05, "timed out")])
def test_kernel_that_does_not_answer_is_a_lost_link_and_many_requests_are_few_calls(
    mute: Mute, within_s: float, words: str
) -> None:
    says = f"^cannot read lo: netlink: {words}$"
    with NetlinkRequests(mute, answer_within_s=within_s) as kernel, pytest.raises(LinkError, match=says):
        kernel.do([ask_for("lo")] * BATCH)
    assert mute.count() == 1


async def test_it_works_in_the_thread_of_a_running_loop_and_in_others_and_leaves_nothing_open() -> None:
    def read() -> int:
        with NetlinkRequests(HostSockets()) as kernel:
            return len(kernel.ask("read lo", named("lo"), RTM_GETLINK))

    offload = ThreadOffload(2)
    try:
        await asyncio.gather(*(offload(read) for _ in range(4)))
        before = os.listdir("/proc/self/fd")
        assert read() == 1
        assert await asyncio.gather(*(offload(read) for _ in range(20))) == [1] * 20
        assert len(os.listdir("/proc/self/fd")) == len(before)
        with NetlinkRequests(HostSockets()) as kernel:
            assert len(await offload(kernel.ask, "read lo", named("lo"), RTM_GETLINK)) == 1
    finally:
        offload.close()
