"""The windows between our read of a switch and our write, and the crossconnects of other clients that were
lost in them.
"""

import statistics
from dataclasses import dataclass, field

from hwd.model.plural import plural


@dataclass(slots=True, kw_only=True)
class WriteWindows:
    """The windows between our reads of switches and our writes. `windows_s`: for each command, from the end of our last
    read of its switch to its first byte. `overruns`: one text each.
    """

    windows_s: list[float] = field(default_factory=list)
    overruns: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if not self.windows_s:
            return "not recorded"
        middle_ms, longest_ms = statistics.median(self.windows_s) * 1e3, max(self.windows_s) * 1e3
        lost, commands = len(self.overruns), plural(len(self.windows_s), "command")
        return (
            f"{middle_ms:.3g} ms in the middle, {longest_ms:.3g} ms at most, of {commands}; "
            f"{lost or 'none'} known to have removed what another client made meanwhile"
        )
