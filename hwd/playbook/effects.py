"""The effects of a run other than on switches, as its runner asks for them: jobs, faults of twins and NIC settings.

Faults and settings are undone at the end of the run, however it ends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hwd.model.action import Action
from hwd.model.fault import Fault
from hwd.playbook.light_of_jobs import LightOfJobs
from hwd_drivers.core.documents import Json


class Faults(Protocol):
    """Faults of the rack's twins. Both methods raise HwdError: LinkError where the rack cannot be reached."""

    async def set(self, fault: Fault) -> None:
        """Returns when the fault is set.

        Raises RefusedError for a subject without twin, ConfigError for an unknown one.
        """
        ...

    async def clear(self) -> None:
        """Clear all faults of the run, also of a `set` in progress. Raises where one stays; that is tried again."""
        ...


class HostActions(Protocol):
    """Settings of NIC ports, each with its earlier value, until the end of the run. Both methods raise HwdError."""

    async def do(self, run: str, action: Action) -> Mapping[str, Json]:
        """Set one; returns {before, after}, as the host read them."""
        ...

    async def put_back(self, run: str) -> None:
        """Restore all earlier values. Raises where a host cannot be reached; that is tried again when it connects."""
        ...


class RunJobs(Protocol):
    """Jobs of the testbed file, each under a lease of its own."""

    async def start_of(self, run: str, name: str, arguments: Sequence[str]) -> str:
        """Start one; returns its id before anything of it moves. Raises RefusedError where it may not be started."""
        ...

    async def wait_for_end(self, job: str, arguments: Sequence[str], *, run: str, sweep: Mapping[str, Json]) -> None:
        """Wait for the end of one. Cancelled, it stops the job and waits for its end. `arguments` and `sweep`: values
        in force, for the record. Raises FailedError where it did not succeed.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The effects that one run may have."""

    jobs: RunJobs
    light: LightOfJobs
    faults: Faults
    host_settings: HostActions
