"""The effects of a run other than on switches, as its runner asks for them: faults of twins and NIC settings.

Both are undone at the end of the run, however it ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from hwd.model.action import Action
from hwd.model.fault import Fault
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The effects that one run may have."""

    faults: Faults
    host_settings: HostActions
