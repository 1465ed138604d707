"""Paths of a mirror: its crossconnects by the index of their ends, and when tuning ones have settled."""

import heapq
from collections.abc import Iterable, Iterator, Sequence

from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.values import Capabilities, Crossconnect, PortSide, Side


class Path:
    """A crossconnect with the index of its ends, and its constant loss."""

    __slots__ = ("a", "b", "crossconnect", "loss_db", "tuned")

    def __init__(self, crossconnect: Crossconnect, a: int, b: int) -> None:
        self.crossconnect = crossconnect
        self.a = a
        self.b = b
        self.loss_db = 0.0
        self.tuned = False


class Paths:
    """An end is always in at most one path. `at` is the path of each end, by its index in `Capabilities.ends`.

    `touched` are the ends whose path came or went; its reader empties it.
    """

    def __init__(self, switch: str, capabilities: Capabilities) -> None:
        self.at: list[Path | None] = [None] * len(capabilities.ends)
        self.tuning: list[tuple[int, int, Path]] = []
        """A heap by time and then in the order of making; it also holds paths that were dropped meanwhile."""
        self.touched: list[int] = []
        self._switch = switch
        self._ends = capabilities.ends
        self._near = {end.port: place for place, end in enumerate(capabilities.ends) if end.side is not Side.B}
        self._far = {end.port: place for place, end in enumerate(capabilities.ends) if end.side is Side.B}
        self._by_a: dict[int, Path] = {}
        self._made = 0

    def __iter__(self) -> Iterator[Path]:
        """Yield the paths in the order of their ports."""
        return iter([path for _, path in sorted(self._by_a.items())])

    def place(self, end: PortSide) -> int:
        """Index of an end in `Capabilities.ends`; raises ConfigError for an unknown end."""
        place = (self._far if end.side is Side.B else self._near).get(end.port)
        if place is None or self._ends[place].side is not end.side:
            raise ConfigError(f"{self._switch}: there is no port {end}")
        return place

    def find(self, pair: Crossconnect) -> Path | None:
        """The path of this crossconnect, if it exists."""
        path = self.at[self.place(pair.a)]
        return path if path is not None and path is self.at[self.place(pair.b)] else None

    def new(self, pair: Crossconnect) -> Path:
        """A path that does not exist yet."""
        return Path(pair, self.place(pair.a), self.place(pair.b))

    def missing(self, pairs: Sequence[Crossconnect]) -> list[Path]:
        """New paths for the missing ones of `pairs`. Raises ConfigError for an end that is in two of `pairs`."""
        seen: set[int] = set()
        paths = []
        for pair in pairs:
            path = self.new(pair)
            for place in (path.a, path.b):
                if place in seen:
                    end = self._ends[place]
                    raise ConfigError(f"{self._switch}: {end} is in two of the crossconnects to make; an end has one")
                seen.add(place)
            there = self.at[path.a]
            if there is None or there is not self.at[path.b]:
                paths.append(path)
        return paths

    def refuse_used(self, wanted: Iterable[Path]) -> None:
        """Raises RefusedError for a path with an end that is in another."""
        for path in wanted:
            for place in (path.a, path.b):
                if (holder := self.at[place]) is not None:
                    raise RefusedError(
                        f"{self._switch}: cannot connect {path.crossconnect}: {self._ends[place]} already carries "
                        f"{holder.crossconnect}"
                    )

    def put(self, path: Path, settles_at_ns: int | None) -> None:
        """Add the path in place of those at its ends; it is tuned at that time, or at once for None."""
        a, b, at = path.a, path.b, self.at
        self.drop(at[a])
        self.drop(at[b])
        path.tuned = settles_at_ns is None
        if settles_at_ns is not None:
            self._made += 1
            heapq.heappush(self.tuning, (settles_at_ns, self._made, path))
        self._by_a[a] = at[a] = at[b] = path
        self.touched += (a, b)

    def drop(self, path: Path | None) -> None:
        """Remove the path, if any."""
        if path is not None:
            del self._by_a[path.a]
            self.at[path.a] = self.at[path.b] = None
            self.touched += (path.a, path.b)

    def next_ns(self) -> int | None:
        """The time when the next path is tuned."""
        while self.tuning and self.at[self.tuning[0][2].a] is not self.tuning[0][2]:
            heapq.heappop(self.tuning)
        return self.tuning[0][0] if self.tuning else None

    def settle(self, now_ns: int) -> list[tuple[int, Path]]:
        """The paths that became tuned until now, with their times."""
        settled = []
        while self.tuning and self.tuning[0][0] <= now_ns:
            at_ns, _, path = heapq.heappop(self.tuning)
            if self.at[path.a] is path:
                path.tuned = True
                settled.append((at_ns, path))
        return settled

    def ends_of_paths_at(self, places: Iterable[int]) -> list[int]:
        """Both ends of each path that ends at one of these places."""
        paths = [path for place in places if (path := self.at[place]) is not None]
        return [place for path in paths for place in (path.a, path.b)]
