"""Gathering: the ranks of each communication group that wait, until all of a group have come."""

from collections.abc import Mapping

from hwd.model.plane import CommunicationGroup, Intent


class Gathering:
    """A collective operation ends when all its ranks take part: to let some go while others are held is a deadlock.

    gathering = Gathering(job.groups)
    ranks = gathering.come(intent)  # all ranks of the group, when this was the last one; else none
    """

    def __init__(self, groups: Mapping[str, CommunicationGroup]) -> None:
        self._groups = groups
        self._there: dict[tuple[str | int, ...], set[int]] = {}

    def come(self, intent: Intent) -> tuple[int, ...]:
        """A rank waits. Of a pair, `peer` is the other rank."""
        operation = intent.operation
        needed = operation.ranks(intent.rank, self._groups[operation.group].ranks)
        key = operation.shared(intent.rank)
        there = self._there.setdefault(key, set())
        there.add(intent.rank)
        if not there.issuperset(needed):
            return ()
        del self._there[key]
        return needed
