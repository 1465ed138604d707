"""JobFailures: what of a job's part of the rack fails and recovers, as its plane is told of it."""

from collections.abc import Collection, Iterable
from typing import Final

from hwd.model.nic_port import NicPortId
from hwd.model.plane import Failure, Job, Recovery, View
from hwd.rack.health import RackHealth

DARK_S: Final = 0.5
"""A carrier has to be away, or back, for so long: a flap is none, and the last events of a move may come after it."""
AWAY_S: Final = 10.0
"""So long an agent or a switch has to be away: each may be started anew, and so may the daemon, and agents pause for up
to 5 s before they connect again.
"""

LOST: Final = "it has no carrier, though the target of its plane lights it"

Part = NicPortId | str
"""A NIC port, or a host."""


class JobFailures:
    """The failures of a job; `failed`: parts that its plane knows to have failed, also from an earlier daemon process.

    A port that lost its carrier has recovered when it has one again, which takes a target that lights it: without light
    on it nobody knows. One that was set aside, or whose switch was away, has when that is over.
    """

    def __init__(self, job: Job, view: View, health: RackHealth, failed: Collection[Part] = ()) -> None:
        self._parts: tuple[Part, ...] = (*job.hosts, *sorted(view.ports, key=NicPortId.sort_key))
        self._health = health
        self._failed = set(failed)
        self._dark = set(self._failed)
        """Failed ports that only a carrier can clear; after a restart all, as it is not recorded which."""
        self._since: dict[tuple[Part, bool, float], float] = {}
        """When each finding that its plane does not know began. Its words may change: each attempt may fail anew."""

    @property
    def failed_parts(self) -> list[str]:
        """What its plane knows to have failed: hosts, then NIC ports."""
        return [str(part) for part in self._parts if part in self._failed]

    def look(self, lit: Collection[NicPortId], now_s: float) -> list[Failure | Recovery]:
        """What has failed and recovered since the last look. `lit`: the ports that have light by the plane's target,
        none while that moves. `now_s`: of a clock that does not go back.
        """
        failed: dict[str, list[Part]] = {}
        recovered: list[Part] = []
        since: dict[tuple[Part, bool, float], float] = {}
        for part in self._parts:
            if (finding := self._found(part, lit)) is None:
                continue
            why, hold_s = finding
            if bool(why) is (part in self._failed):
                continue
            key = part, bool(why), hold_s
            since[key] = self._since.get(key, now_s)
            if now_s - since[key] < hold_s:
                continue
            if why:
                failed.setdefault(why, []).append(part)
                self._failed.add(part)
            else:
                recovered.append(part)
                self._failed.discard(part)
                self._dark.discard(part)
        self._since = since
        events: list[Failure | Recovery] = [
            Failure(why=why, ports=_ports(parts), hosts=_hosts(parts)) for why, parts in failed.items()
        ]
        if recovered:
            events.append(Recovery(ports=_ports(recovered), hosts=_hosts(recovered)))
        return events

    def _found(self, part: Part, lit: Collection[NicPortId]) -> tuple[str, float] | None:
        """Why a part is out of order (empty: it is not), and how long that has to last. None where nothing is known
        that would change what was.
        """
        health = self._health
        if not isinstance(part, NicPortId):
            return health.why_away(part), AWAY_S
        if why := health.why_set_aside(part):
            return why, 0.0
        if why := health.why_unsteerable(part):
            return why, AWAY_S
        carrier = health.carrier(part)
        if carrier and part not in self._failed:
            self._dark.discard(part)
        if carrier is False and part in lit:
            self._dark.add(part)
            return LOST, DARK_S
        return None if part in self._dark and not carrier else ("", DARK_S)


def _ports(parts: Iterable[Part]) -> tuple[NicPortId, ...]:
    return tuple(part for part in parts if isinstance(part, NicPortId))


def _hosts(parts: Iterable[Part]) -> tuple[str, ...]:
    return tuple(part for part in parts if not isinstance(part, NicPortId))
