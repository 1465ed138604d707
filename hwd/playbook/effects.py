"""What a run does beside driving switches: faults of twins, settings of NIC ports. Both are undone at its end, whatever the end."""

from collections.abc import Mapping
from typing import Protocol

from hwd.model.action import Action
from hwd.model.fault import Fault
from hwd_drivers.core.documents import Json


class Faults(Protocol):
    """The twins of the rack, as far as they can be told to misbehave. Both raise HwdError: LinkError where the rack is away."""

    async def set(self, fault: Fault) -> None:
        """From its return on the twin misbehaves. Raises RefusedError where the subject is no twin, ConfigError where it is not there."""
        ...

    async def clear(self) -> None:
        """All twins that it set behave again, also where a `set` is still under way. What does not is named, and is tried again when the run is over."""
        ...


class HostActions(Protocol):
    """Settings of NIC ports, each kept with what was there before for as long as its run goes on. Both raise HwdError."""

    async def do(self, run: str, action: Action) -> Mapping[str, Json]:
        """Set it; returns {before, after}, as the host read them."""
        ...

    async def put_back(self, run: str) -> None:
        """Everything that this run set is again as it was before. What cannot be reached now is put back when its host is there; then it raises too."""
        ...
