"""Active faults of twins, in the order in which they were injected."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from hwd.model.fault import Clear, Drift, Fault

FaultT = TypeVar("FaultT", bound=Fault)


class ActiveFaults:
    """A subject has each kind of fault once, except drifts, which it has once for each set of ends."""

    def __init__(self) -> None:
        self._set: dict[tuple[str, type[object], tuple[str, ...]], Fault] = {}

    def __iter__(self) -> Iterator[Fault]:
        return iter(tuple(self._set.values()))

    def get(self, subject: str, kind: type[FaultT]) -> FaultT | None:
        """The active fault of this kind, if there is one."""
        fault = self._set.get((subject, kind, ()))
        return fault if isinstance(fault, kind) else None

    def add(self, fault: Fault, *, on: bool = True) -> None:
        """Add a fault in place of one of its kind; where not `on`, only remove that one."""
        self._set.pop(_key(fault), None)
        if on:
            self._set[_key(fault)] = fault

    def drop(self, subject: str, kind: type[Fault]) -> None:
        """Remove the fault of this kind, if there is one."""
        self._set.pop((subject, kind, ()), None)

    def drop_all(self, is_over: Callable[[Fault], bool]) -> None:
        """Remove the faults that are over."""
        for key, fault in list(self._set.items()):
            if is_over(fault):
                del self._set[key]

    def of(self, clear: Clear) -> tuple[Fault, ...]:
        """The faults that it clears: of a host those of its ports, too."""
        match clear:
            case Clear(host=str(host)):
                return tuple(fault for fault in self if fault.subject.partition(".")[0] == host)
            case Clear(switch=None, port=None):
                return tuple(self)
            case _:
                return tuple(fault for fault in self if fault.subject == clear.subject)


def _key(fault: Fault) -> tuple[str, type[object], tuple[str, ...]]:
    return fault.subject, type(fault), fault.ends if isinstance(fault, Drift) else ()
