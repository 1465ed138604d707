"""`hwd check`: what kind of file it is, and everything that is wrong in it."""

from collections.abc import Collection, Mapping
from pathlib import Path

from hwd.config.equipment import DriverSpecLike
from hwd.config.playbook import load_playbook
from hwd.config.problem import Problem, nearest
from hwd.config.testbed import load_testbed
from hwd.config.topology import load_topology
from hwd.config.tree import read_tree
from hwd.model.testbed import Testbed

KINDS = ("testbed", "playbook", "topology")
"""The key at the top of a file that says what it is."""


def check_file(
    path: str | Path,
    specs: Mapping[str, DriverSpecLike],
    *,
    switch_timings: Collection[str] | None = None,
    host_timings: Collection[str] | None = None,
    testbed: Testbed | None = None,
) -> tuple[Problem, ...]:
    """All problems of a testbed, playbook or topology file; the latter two against a testbed where one is given."""
    reading = read_tree(path)
    kinds = [key for key in (reading.root.mapping() if reading.root else {}) if key in KINDS]
    match kinds[:1]:
        case ["testbed"]:
            return load_testbed(path, specs, switch_timings=switch_timings, host_timings=host_timings).problems
        case ["playbook"]:
            return load_playbook(path, testbed=testbed).problems
        case ["topology"]:
            return load_topology(path, testbed).problems
        case _ if reading.root is None:
            return reading.in_order()
        case _:
            first = next(iter(reading.root.mapping()), "")
            reading.add(
                (), f"is no testbed, playbook or topology: a file names its kind at its top ({nearest(first, KINDS)})"
            )
            return reading.in_order()
