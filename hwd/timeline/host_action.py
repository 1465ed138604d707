"""What was done to NIC ports on purpose while links were watched: a fall that comes of it is no broken order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from hwd.model.link import Link

TAKES_DOWN_WITHIN_NS: Final = 1_000_000_000
"""After a setting is there, everything that it takes down has gone: sources look every 100 ms or oftener, and stamps are milliseconds off. What falls later
has another reason."""
_NS_IN_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAction:
    """A setting of one NIC port that a run changed, or that was put back. From the daemon's asking for it to the answer that it is there."""

    port: str
    words: str
    from_ns: int
    to_ns: int

    @classmethod
    def of(cls, run_host: Mapping[str, Any], *, at_ns: int) -> Self:
        """From the data of a `run.host` document that was told at `at_ns`."""
        setting = run_host.get("setting") or ""
        return cls(
            port=run_host["port"],
            words=f"{setting} {run_host['action']}".strip(),
            from_ns=at_ns - round(float(run_host.get("seconds") or 0.0) * _NS_IN_S),
            to_ns=at_ns,
        )


def taken_down_by(actions: Iterable[HostAction], link: Link, *, earliest_ns: int, latest_ns: int) -> HostAction | None:
    """The last action on either end of the link that explains why something of it fell between these times; None where none does."""
    ends = {str(end) for end in link.ends}
    found = [
        action
        for action in actions
        if action.port in ends and latest_ns >= action.from_ns and earliest_ns <= action.to_ns + TAKES_DOWN_WITHIN_NS
    ]
    return max(found, key=lambda action: action.to_ns, default=None)
