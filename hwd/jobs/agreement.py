"""Agreement: whether what a rank asks for is an operation that its group can make. No I/O."""

from collections.abc import Mapping
from typing import Final

from hwd.model.plane import CommunicationGroup
from hwd.model.plural import plural
from hwd_agents.wire import Operation, OperationKind
from hwd_drivers.core.errors import FailedError

KEPT: Final = 256
"""Operations of each group of which it is remembered what they are."""


class DisagreeError(FailedError):
    """The job cannot go on: its ranks would wait for each other for ever."""


class Agreement:
    """The agreement of the ranks of one job on their operations. After a restart of the daemon the first rank that asks
    says what an operation is.
    """

    def __init__(self, groups: Mapping[str, CommunicationGroup]) -> None:
        self._groups = groups
        self._first: dict[tuple[str, int], Operation] = {}

    def check(self, rank: int, operation: Operation) -> None:
        """Raises DisagreeError where the rank is not in the group, its peer is none, or others make something else."""
        group = self._groups.get(operation.group)
        if group is None or rank not in group.ranks:
            raise DisagreeError(f"{operation}: it is not in this group")
        if operation.peer is not None:
            if operation.peer not in group.ranks or operation.peer == rank:
                raise DisagreeError(f"{operation}: rank {operation.peer} is no peer of it there")
            return  # one of the two sends, the other one receives
        if operation.parts and (why := _wrong_parts(operation, len(group.ranks))):
            raise DisagreeError(f"{operation}: {why}")
        first = self._first.setdefault((operation.group, operation.index), operation)
        if first.kind is not operation.kind:
            raise DisagreeError(f"it comes with {operation}, and others with {first}")
        if bool(first.parts) is not bool(operation.parts):
            raise DisagreeError(f"{operation}: some of its ranks say their parts, and others do not")
        while len(self._first) > KEPT * len(self._groups):
            del self._first[next(iter(self._first))]


def _wrong_parts(operation: Operation, ranks: int) -> str:
    """Empty where they are what they have to be."""
    if operation.kind is not OperationKind.ALL_TO_ALL:
        return "only an all-to-all has parts"
    if len(operation.parts) != ranks:
        return f"it has {plural(len(operation.parts), 'part')}, and its group {plural(ranks, 'rank')}"
    if sum(operation.parts) != operation.size_bytes:
        return f"its parts are {sum(operation.parts)} bytes, and it says {operation.size_bytes}"
    return ""
