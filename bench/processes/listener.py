"""A raw netlink listener: blocks in recv, stamps, notes. `python -m bench.processes.listener KEEPER NAMESPACE`; a line in, all notes out as JSON.

Each note is [stamp in ns of CLOCK_MONOTONIC_RAW, ifindex, flags of the interface].
"""

import contextlib
import json
import os
import socket
import struct
import sys
import threading
import time

from hwd_agents.priority import LOWEST
from hwd_agents.sources.sockets import NamespaceSockets

RTMGRP_LINK, RTM_NEWLINK = 1, 16
HEADER = struct.Struct("=IHHII")
INTERFACE = struct.Struct("=BxHiII")


def main(keeper: str, namespace: str) -> None:
    with contextlib.suppress(PermissionError):  # before the agent, which asks for less: the floor waits for nobody
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(LOWEST + 1))
    links = NamespaceSockets(keeper, namespace).open(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    links.setblocking(True)
    links.bind((0, RTMGRP_LINK))
    received: list[tuple[int, bytes]] = []

    def listen() -> None:
        while True:
            data = links.recv(65536)
            received.append((time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), data))

    threading.Thread(target=listen, daemon=True).start()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps([note for at_ns, data in received for note in _notes(at_ns, data)]), flush=True)


def _notes(at_ns: int, data: bytes) -> list[tuple[int, int, int]]:
    notes, offset = [], 0
    while offset + HEADER.size <= len(data):
        length, kind, *_ = HEADER.unpack_from(data, offset)
        if kind == RTM_NEWLINK:
            _, _, ifindex, flags, _ = INTERFACE.unpack_from(data, offset + HEADER.size)
            notes.append((at_ns, ifindex, flags))
        offset += (length + 3) & ~3
    return notes


if __name__ == "__main__":
    main(*sys.argv[1:])
