"""A job that sets its host's switches, and a bare loop that does the same, in one process.

    python -m bench.processes.selector KEEPER HOST SOCKET ECHO SWITCH=ADDRESS...

Each line `ours 2` or `floor 2` sets all switches to that output. The answer is the nanoseconds until the link was up
and the switches were read back, and those until the first byte to a switch. `echo 2` sends a request of that length to
the Unix socket ECHO and waits until it is back.
"""

import json
import select
import socket
import struct
import sys
import time
from collections.abc import Sequence

from hwd_agents.sources.kernel.sockets import NamespaceSockets
from hwd_agents.switches.select_client import Selector
from hwd_drivers.core.clock import SystemClock

RTMGRP_LINK, RTM_NEWLINK, IFF_LOWER_UP, LOOPBACK = 1, 16, 1 << 16, 1
HEADER_AND_INTERFACE = struct.Struct("=IH10x4xiI")
WITHIN_S = 5.0
QUESTION, DONE = b"<OSW_OUT_?>", b"<OSW_OUT_OK>"


class Floor:
    """Sockets, and nothing else: the same bytes to the switches, and raw notices of the kernel."""

    def __init__(self, links: socket.socket, addresses: Sequence[str]) -> None:
        self._links = links
        self._switches = [socket.create_connection(_place(address)) for address in addresses]
        for switch in self._switches:
            switch.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def select(self, output: int) -> None:
        """Return when each switch has answered and is read back, and the one port of the host has carrier again."""
        while select.select([self._links], [], [], 0)[0]:
            self._links.recv(65536)
        wanted = b"<OSW_OUT_%02d>" % output
        heard = dict.fromkeys(self._switches, b"")
        for switch in self._switches:
            switch.sendall(QUESTION + wanted)
        waiting = {self._links, *self._switches}
        while waiting:
            ready, _, _ = select.select([*waiting], [], [], WITHIN_S)
            if not ready:
                raise TimeoutError(f"no answer within {WITHIN_S:g} s")
            for sock in ready:
                data = sock.recv(65536)
                if sock is self._links:
                    done = _is_up(data)
                else:
                    heard[sock] += data
                    if heard[sock].endswith(DONE):
                        sock.sendall(QUESTION)
                    done = heard[sock].endswith(DONE + wanted)
                if done:
                    waiting.discard(sock)


class Echo:
    """A bare socket round trip: a request goes to a Unix socket and comes back."""

    def __init__(self, path: str, names: Sequence[str]) -> None:
        self._names = names
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)

    def ask(self, output: int) -> None:
        wanted = dict.fromkeys(self._names, f"in-{output}")
        by_s = time.monotonic() + WITHIN_S
        request = {"set": wanted, "within_s": WITHIN_S, "by_s": by_s, "epoch": None, "id": 1000}
        line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
        self._socket.sendall(line)
        back = b""
        while len(back) < len(line):
            back += self._socket.recv(65536)


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _is_up(data: bytes) -> bool:
    """Whether an interface other than the loopback has its carrier now."""
    while len(data) >= HEADER_AND_INTERFACE.size:
        length, kind, ifindex, flags = HEADER_AND_INTERFACE.unpack_from(data)
        if kind == RTM_NEWLINK and ifindex != LOOPBACK and flags & IFF_LOWER_UP:
            return True
        data = data[(length + 3) & ~3 :]
    return False


def main() -> None:
    keeper, host, path, echo_path, *addresses = sys.argv[1:]
    with NamespaceSockets(keeper, host).open(socket.AF_NETLINK, socket.SOCK_RAW) as links:
        links.bind((0, RTMGRP_LINK))
        floor = Floor(links, [address.partition("=")[2] for address in addresses])
        names = [address.partition("=")[0] for address in addresses]
        selector, echo, clock = Selector(path), Echo(echo_path, names), SystemClock()
        print("ready", flush=True)
        for line in sys.stdin:
            who, output = line.split()
            first_ns = start_ns = clock.monotonic_ns()
            if who == "ours":
                answer = selector.select(dict.fromkeys(names, f"in-{output}"), within_s=WITHIN_S)
                first_ns = min(one.commanded_ns for one in answer.switches.values() if one.commanded_ns is not None)
            elif who == "floor":
                floor.select(int(output))
            else:
                echo.ask(int(output))
            print(clock.monotonic_ns() - start_ns, first_ns - start_ns, flush=True)


if __name__ == "__main__":
    main()
