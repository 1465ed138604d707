"""`hwd check`: what kind of file it is, and everything that is wrong in it."""

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from hwd.config.equipment import DriverSpecLike
from hwd.config.playbook import load_playbook
from hwd.config.problem import Problem, nearest
from hwd.config.scenario import load_scenario
from hwd.config.testbed import load_testbed
from hwd.config.topology import load_topology
from hwd.config.tree import read_tree
from hwd.model.fault import check_fault
from hwd.model.testbed import Testbed

KINDS = ("testbed", "playbook", "topology", "scenario")
"""The key at the top of a file that says what it is."""


def check_file(
    path: str | Path,
    specs: Mapping[str, DriverSpecLike],
    *,
    switch_timings: Collection[str] | None = None,
    host_timings: Collection[str] | None = None,
    broken: Mapping[str, str] = MappingProxyType({}),
    testbed: Testbed | None = None,
) -> tuple[Problem, ...]:
    """All problems of a testbed, playbook, topology or scenario file; the latter three against a testbed where one is given.

    Without one the faults of a scenario may leave out their switch, as for a twin that is served alone.
    """
    reading = read_tree(path)
    kinds = [key for key in (reading.root.mapping() if reading.root else {}) if key in KINDS]
    match kinds[:1]:
        case ["testbed"]:
            timings = {"switch_timings": switch_timings, "host_timings": host_timings}
            return load_testbed(path, specs, broken=broken, **timings).problems
        case ["playbook"]:
            return load_playbook(path, testbed=testbed).problems
        case ["topology"]:
            return load_topology(path, testbed).problems
        case ["scenario"] if testbed is not None:
            return load_scenario(path, check=partial(check_fault, testbed=testbed)).problems
        case ["scenario"]:
            return load_scenario(path, switch="twin").problems
        case _ if reading.root is None:
            return reading.in_order()
        case _:
            first = next(iter(reading.root.mapping()), "")
            reading.add(
                (),
                f"is no testbed, playbook, topology or scenario: a file names its kind at its top ({nearest(first, KINDS)})",
            )
            return reading.in_order()
