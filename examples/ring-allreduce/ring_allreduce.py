"""A ring all-reduce as the ranks of a job: each operation is asked for, then sent over the light of the rack.

Each rank has a vector; after a step every rank has the sum of all, in 2 (n - 1) rounds of one part each (Patarasuk and
Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009).
"""

import argparse
import socket
import threading
from array import array

from hwd_agents.shim import Rank

PORT = 29_500
"""Rank n listens on 29500 + n of its host."""


class Neighbours:
    """Connections to the next rank of a ring, and from the one before."""

    def __init__(self, rank, group):
        at = group.index(rank.number)
        self._next = group[(at + 1) % len(group)]
        self._address = next(iter(rank.places[self._next].optical.values()))
        self._listener = socket.create_server(("", PORT + rank.number))

    def __enter__(self):
        met = []
        waiting = threading.Thread(target=lambda: met.append(self._listener.accept()[0]), daemon=True)
        waiting.start()
        self._to = socket.create_connection((self._address, PORT + self._next), timeout=20)
        waiting.join(20)
        self._source = met[0]
        self._source.settimeout(20)
        return self

    def __exit__(self, *error):
        self._to.close()
        self._source.close()

    def exchange(self, part):
        """Send a part on, and return the one that comes."""
        sending = threading.Thread(target=self._to.sendall, args=(part.tobytes(),))
        sending.start()
        size = len(part) * part.itemsize
        found = b""
        while len(found) < size:
            found += self._source.recv(size - len(found)) or exit("the rank before this one has gone")
        sending.join()
        return array("q", found)


def all_reduce(ring, values, at, size):
    """Sum in place, over all `size` ranks of a ring; this one is the `at`th."""
    length = len(values) // size
    parts = [values[one * length : (one + 1) * length] for one in range(size)]
    for round in range(2 * (size - 1)):
        came = ring.exchange(parts[(at - round) % size])
        to = (at - round - 1) % size
        parts[to] = came if round >= size - 1 else array("q", map(int.__add__, parts[to], came))
    for one, part in enumerate(parts):
        values[one * length : (one + 1) * length] = part


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--numbers", type=int, default=4096, help="of 8 bytes each, a multiple of the ranks")
    parser.add_argument("--group", default="world")
    options = parser.parse_args()
    with Rank.from_environment() as rank:
        group = rank.groups[options.group]
        neighbours = Neighbours(rank, group)
        for step in range(options.steps):
            values = array("q", [rank.number + step] * options.numbers)
            asked = rank.operation(options.group, "all-reduce", size_bytes=8 * options.numbers, within_s=30)
            with asked, neighbours as ring:
                all_reduce(ring, values, group.index(rank.number), len(group))
            expected = sum(one + step for one in group)
            if {*values} != {expected}:
                exit(f"step {step}: {values[0]} is not {expected}")
            print(f"step {step}: each of {len(values)} sums is {expected}", flush=True)


if __name__ == "__main__":
    main()
