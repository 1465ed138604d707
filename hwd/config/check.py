"""`hwd check` finds the kind of each file, and all problems in it."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from hwd.config.file_kind import KINDS, kind_of
from hwd.config.playbook.playbook import load_playbook
from hwd.config.scenario import load_scenario
from hwd.config.testbed.topology_file import load_topology
from hwd.config.yaml.file_problem import Loaded, Problem, nearest
from hwd.config.yaml.tree import Reading, read_tree
from hwd.model.fault_check import check_fault
from hwd.model.testbed import Testbed


def check_files(paths: Sequence[str | Path], load: Callable[[Reading], Loaded[Testbed]]) -> tuple[Problem, ...]:
    """All problems of files, each file read once; `load` reads testbeds. Where exactly one testbed is among the files,
    the others are checked against it.
    """
    readings = [read_tree(path) for path in paths]
    loaded = [load(reading) if kind_of(reading) == "testbed" else None for reading in readings]
    testbeds = [one.value for one in loaded if one is not None and one.value is not None]
    testbed = testbeds[0] if len(testbeds) == 1 else None
    return tuple(
        problem
        for reading, one in zip(readings, loaded, strict=True)
        for problem in (check_file(reading, testbed) if one is None else one.problems)
    )


def check_file(reading: Reading, testbed: Testbed | None = None) -> tuple[Problem, ...]:
    """All problems of a playbook, topology or scenario file, checked against a testbed where there is one.

    Without one the faults of a scenario may omit their switch, as for a twin that is served alone.
    """
    match kind_of(reading):
        case "playbook":
            return load_playbook(reading, testbed=testbed).problems
        case "topology":
            return load_topology(reading, testbed).problems
        case "scenario" if testbed is not None:
            return load_scenario(reading, check=partial(check_fault, testbed=testbed)).problems
        case "scenario":
            return load_scenario(reading, switch="twin").problems
        case _ if reading.root is None:
            return reading.in_order()
        case _:
            first = next(iter(reading.root.mapping()), "")
            reading.add(
                (),
                "is no testbed, playbook, topology or scenario: "
                f"the key at its top names the kind ({nearest(first, KINDS)})",
            )
            return reading.in_order()
