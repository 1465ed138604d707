"""The comparison of a mapping with the one that was seen before it."""

from collections.abc import Iterable, Mapping
from itertools import compress
from operator import is_not
from typing import Generic, TypeVar

V = TypeVar("V")


class LastSeen(Generic[V]):
    """Holds the entries that it was asked about last. Values do not change, so that the same object says the same; of
    10,000 entries that all are the same it takes a third of a millisecond.
    """

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._values: tuple[V, ...] = ()

    def differing(self, now: Mapping[str, V]) -> tuple[Iterable[str], Iterable[str]]:
        """The names that have another value than before, or are new; and those that are gone."""
        names, values = (*now,), (*now.values(),)
        before_names, before_values = self._names, self._values
        self._names, self._values = names, values
        if names == before_names:
            return [*compress(names, map(is_not, values, before_values))], ()
        before = dict(zip(before_names, before_values, strict=True))
        return [name for name in now if name not in before or before[name] is not now[name]], before.keys() - now.keys()
