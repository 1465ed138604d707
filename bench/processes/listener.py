"""The floors of a carrier event: `python -m bench.processes.listener KEEPER NAMESPACE FILE`; a line in, a line out.

A netlink socket, blocked in recv. `rest`: it joins no group, and leaves the processors to the other side. `receive`:
it stamps each notice that it receives. `write`: it also appends to FILE what an agent would write of the notice, and
stamps the end of that. `all`: prints all its notes as JSON, each [stamp of the receipt in ns of CLOCK_MONOTONIC_RAW,
stamp of the end, ifindex, flags of the interface].
"""

import contextlib
import json
import os
import socket
import struct
import sys
import threading
import time

from hwd_agents.process.priority import LOWEST
from hwd_agents.sources.kernel.sockets import NamespaceSockets

SOL_NETLINK, ADD_MEMBERSHIP, DROP_MEMBERSHIP, RTNLGRP_LINK = 270, 1, 2, 1
RTM_NEWLINK = 16
IFF_LOWER_UP = 1 << 16
HEADER = struct.Struct("=IHHII")
INTERFACE = struct.Struct("=BxHiII")
BOOT = "00000000-0000-4000-8000-000000000000"
RECORD = (
    b'12345678{"type":"events","boot":"%s","events":[{"seq":%%d,"at_ns":%%d,"earliest_ns":%%d,"kind":"carrier","port":"eth0","source":"link",'
    b'"origin":"measured","sampling_ns":0,"data":{"carrier":%%s,"carrier_changes":%%d,"unseen":0}}],"marks":{"link:eth0":{"life":"%s",'
    b'"ifindex":%%d,"changes":%%d,"carrier":%%s,"at_ns":%%d}}}'
) % (BOOT.encode(), BOOT.encode())


class Floor:
    """Blocks in recv, in a thread of its own."""

    def __init__(self, keeper: str, namespace: str, file: str) -> None:
        self._links = NamespaceSockets(keeper, namespace).open(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._links.setblocking(True)
        self._links.bind((0, 0))
        self._fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._received: list[tuple[int, int, bytes]] = []
        self._listens = self._writes = False
        threading.Thread(target=self._run, daemon=True).start()

    def turn(self, mode: str) -> None:
        self._writes = mode == "write"
        if self._listens != (mode != "rest"):
            self._listens = not self._listens
            change = ADD_MEMBERSHIP if self._listens else DROP_MEMBERSHIP
            self._links.setsockopt(SOL_NETLINK, change, RTNLGRP_LINK)

    def notes(self) -> list[tuple[int, int, int, int]]:
        return [
            (at_ns, end_ns, ifindex, flags)
            for at_ns, end_ns, data in self._received
            for ifindex, flags in _interfaces(data)
        ]

    def _run(self) -> None:
        size = 0
        while True:
            data = self._links.recv(65536)
            at_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            if self._writes and (told := next(iter(_interfaces(data)), None)):
                number, (ifindex, flags) = len(self._received), told
                carrier = b"true" if flags & IFF_LOWER_UP else b"false"
                record = RECORD % (number, at_ns, at_ns, carrier, number, ifindex, number, carrier, at_ns)
                size += os.pwrite(self._fd, record, size)
            self._received.append((at_ns, time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), data))


def main(keeper: str, namespace: str, file: str) -> None:
    with contextlib.suppress(PermissionError):  # above the priority of the agent: the floor waits for no other process
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(LOWEST + 1))
    floor = Floor(keeper, namespace, file)
    print("ready", flush=True)
    for line in sys.stdin:
        mode = line.strip()
        if mode == "all":
            print(json.dumps(floor.notes()), flush=True)
        else:
            floor.turn(mode)
            print(mode, flush=True)


def _interfaces(data: bytes) -> list[tuple[int, int]]:
    found, offset = [], 0
    while offset + HEADER.size <= len(data):
        length, kind, *_ = HEADER.unpack_from(data, offset)
        if kind == RTM_NEWLINK:
            _, _, ifindex, flags, _ = INTERFACE.unpack_from(data, offset + HEADER.size)
            found.append((ifindex, flags))
        offset += (length + 3) & ~3
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
