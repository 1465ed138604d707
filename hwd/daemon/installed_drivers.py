"""Testbed files with the drivers and twin timings that are installed here."""

import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hwd.config.check import check_files
from hwd.config.testbed.testbed import Loaded, load_read
from hwd.config.yaml.file_problem import Problem
from hwd.config.yaml.tree import Reading, parse_tree, read_tree
from hwd_drivers.devices import registry


def load(path: str | Path) -> Loaded:
    """The testbed of a file and everything that is wrong in it."""
    return load_reading(read_tree(path))


def load_reading(reading: Reading) -> Loaded:
    """The same of a file that was read already."""
    return load_read(reading, **_known())


def load_text(text: str, *, file: str) -> Loaded:
    """As `load`, of a text; `file` is its name in problems."""
    return load_reading(parse_tree(text.encode(), file=file))


def check(paths: Sequence[str | Path], environment: Mapping[str, str] = os.environ) -> tuple[Problem, ...]:
    """Everything that is wrong in files of any kind; secrets that are not in the environment are warned of."""
    return check_files(paths, partial(load_read, environment=environment, **_known()))


def _known() -> dict[str, Any]:
    drivers = registry.installed()
    return {
        "specs": drivers.specs,
        "broken": drivers.broken,
        "switch_timings": _switch_timings,
        "host_timings": _host_timings,
    }


def _switch_timings() -> Collection[str]:
    """Called for twins only: a daemon of real switches does not load the simulator."""
    from hwd_drivers.twins.timing import SWITCH_TIMINGS

    return SWITCH_TIMINGS


def _host_timings() -> Collection[str]:
    """As `_switch_timings`."""
    from hwd.twin.nic_timing import NIC_TIMINGS

    return NIC_TIMINGS
