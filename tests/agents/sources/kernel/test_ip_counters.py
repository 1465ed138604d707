"""IP counters of the kernel, judged by what was sent; those of a namespace are its own, at each reading."""

import contextlib
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.twin.kernel import Crossbar, Keeper
from hwd.twin.kernel.hosts import HostNetwork
from hwd_agents.sources.kernel.ip_counters import KernelIpCounters, parse_ip, parse_ip6
from hwd_agents.sources.kernel.sockets import HostSockets
from hwd_drivers.core.errors import LinkError, ProtocolError

SNMP = """Ip: Forwarding DefaultTTL InReceives ForwDatagrams InDelivers
Ip: 1 64 1000 17 983
Icmp: InMsgs
Icmp: 4
"""
SENT = 20


class Files:
    """A folder in the place of /proc/net."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open_file(self, name: str) -> int:
        return os.open(self.folder / name, os.O_RDONLY)


@pytest.mark.kernel
def test_datagrams_of_a_namespace_are_counted_there_and_nowhere_else(keeper: Keeper, crossbar: Crossbar) -> None:
    for host in ("h0", "h1"):
        network = HostNetwork(keeper, host)
        network.prepare()
        network.close()
    counters = {host: KernelIpCounters(keeper.sockets(host)) for host in ("h0", "h1")}
    before = {host: one.read_ip() for host, one in counters.items()}
    with (
        keeper.socket("h0", socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        keeper.socket("h0", socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        for _ in range(SENT):
            sender.sendto(bytes(100), receiver.getsockname())
    after = {host: one.read_ip() for host, one in counters.items()}
    assert SENT <= after["h0"][0] - before["h0"][0] < 2 * SENT
    assert after["h1"][0] - before["h1"][0] < SENT
    assert (after["h0"][1], after["h1"][1]) == (0, 0)
    for one in counters.values():
        one.close()


def test_those_of_this_host_are_read_and_both_versions_of_ip_together(tmp_path: Path) -> None:
    own = KernelIpCounters(HostSockets())
    received, forwarded = own.read_ip()
    assert received >= forwarded >= 0
    own.close()
    (tmp_path / "snmp").write_text(SNMP)
    played = KernelIpCounters(Files(tmp_path))
    assert played.read_ip() == (1000, 17)
    (tmp_path / "snmp6").write_text("Ip6InReceives  \t5\nIp6OutForwDatagrams  \t2\n")
    assert played.read_ip() == (1005, 19)
    played.close()
    (tmp_path / "snmp").unlink()
    with pytest.raises(LinkError, match=r"the IP counters cannot be read: .*No such file"):
        played.read_ip()


@pytest.mark.parametrize("text", ["", "Ip: InReceives\n", "Ip: InReceives ForwDatagrams\nIp: x 1\n", "Ip: A\nIp: 1\n"])
def test_a_file_without_them_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        parse_ip(text)
    with pytest.raises(ProtocolError, match="no Ip6InReceives"):
        parse_ip6(text)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_ip, parse_ip6):
        with contextlib.suppress(ProtocolError):
            assert min(parse(text)) >= 0
