"""Testbed files with the drivers and twin timings that are installed here."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from hwd.config.check import check_files
from hwd.config.planes import installed as planes
from hwd.config.testbed.testbed import load_testbed
from hwd.config.yaml.file_problem import Loaded, Problem
from hwd.config.yaml.tree import Reading, parse_tree
from hwd.jobs.job_check import job_obstacle
from hwd.model.testbed import Switch, Testbed
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.devices import registry


def load(source: str | Path | Reading) -> Loaded[Testbed]:
    """The testbed of a file and everything that is wrong in it."""
    return load_testbed(source, **_known())


def load_text(text: str, *, file: str) -> Loaded[Testbed]:
    """Load a testbed from a text as `load` does from a file; `file` is its name in problems."""
    return load(parse_tree(text, file=file))


def check(paths: Sequence[str | Path], environment: Mapping[str, str] = os.environ) -> tuple[Problem, ...]:
    """Everything that is wrong in files of any kind, also what a driver or a plane would refuse only when it is used;
    secrets that are not in the environment are warned of.
    """
    known = _known()

    def load_checked(reading: Reading) -> Loaded[Testbed]:
        loaded = load_testbed(reading, environment=environment, **known)
        if loaded.value is None:
            return loaded
        for name, switch in loaded.value.switches.items():
            if (why := _switch_obstacle(switch, known["specs"][switch.driver])) is not None:
                reading.add(("switches", name), why)
        for name, entry in loaded.value.jobs.items():
            if entry.plane in planes.names() and (why := job_obstacle(entry, loaded.value)) is not None:
                reading.add(("jobs", name, "plane"), why)
        return Loaded(loaded.value, reading.in_order())

    return check_files(paths, load_checked)


def _switch_obstacle(switch: Switch, spec: registry.DriverSpec) -> str | None:
    """Why its driver could open no session with it, whatever there is at its address."""
    settings = registry.SwitchSettings(
        name=switch.name,
        capabilities=switch.capabilities,
        options=spec.options.model_validate(switch.options),
        user=switch.login_user,
        has_password=switch.login_password is not None,
        is_twin=switch.twin is not None,
    )
    try:
        spec.check(settings)
    except ConfigError as error:
        return f"driver {spec.name}: {str(error).removeprefix(f'{switch.name}: ')}"
    return None


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
    """The timings of hosts' twins, which are imported only here, as those of `_switch_timings`."""
    from hwd.twin.nic_timing import NIC_TIMINGS

    return NIC_TIMINGS
