"""Stored demands, in the answers of the API."""

from collections.abc import Mapping

from typing_extensions import override

from hwd.model.answers.answer import Answer
from hwd.model.plural import plural


class DemandSummary(Answer, frozen=True, kw_only=True):
    """A stored demand. `by`: who added it. `experts`: how many its file was of; null where it was of hosts.

    It has `matrices` matrices, hosts x hosts, of these `layers` and `microbatches`; `total_bytes` is their sum, and
    `stored_bytes` their size in the records.
    """

    name: str
    by: str
    added_wall_ns: int
    hosts: list[str]
    experts: int | None
    layers: list[int]
    microbatches: list[int]
    matrices: int
    total_bytes: float
    stored_bytes: int

    @override
    def __str__(self) -> str:
        count = len(self.hosts)
        experts = "" if self.experts is None else f" of {plural(self.experts, 'expert')}"
        return (
            f"demand {self.name} of {self.by}: {plural(self.matrices, 'matrix', many='matrices')} of {count} x {count} "
            f"hosts{experts}, {self.total_bytes:.6g} bytes"
        )


class DemandMatrix(Answer, frozen=True, kw_only=True):
    """One matrix of a stored demand: `bytes[i][j]` go from `hosts[i]` to `hosts[j]`."""

    name: str
    layer: int
    microbatch: int
    hosts: list[str]
    bytes: list[list[float]]

    @property
    def between(self) -> Mapping[tuple[str, str], float]:
        """Both ways of two hosts together, by their names in order."""
        return {
            (min(one, other), max(one, other)): self.bytes[i][j] + self.bytes[j][i]
            for i, one in enumerate(self.hosts)
            for j, other in enumerate(self.hosts[:i])
        }

    @property
    def total_bytes(self) -> float:
        return sum(map(sum, self.bytes))

    @override
    def __str__(self) -> str:
        return (
            f"demand {self.name}, layer {self.layer}, micro-batch {self.microbatch}: "
            f"{plural(len(self.hosts), 'host')}, {self.total_bytes:.6g} bytes"
        )


class HostLinks(Answer, frozen=True, kw_only=True):
    """How many links two hosts have."""

    one: str
    other: str
    count: int


class DemandLinks(Answer, frozen=True, kw_only=True):
    """The links that mFabric's ReconfigureOCS gives to a demand, and how long an all-to-all of it takes over them and
    the packet switches: `completion_s`.

    `best_s`: the least that any links could do, null where there are too many hosts to find it; `circuits_s`: over
    links alone, null where a host has more peers than ports; `bound_s`: nothing is below it.
    """

    links: list[HostLinks]
    completion_s: float
    best_s: float | None
    circuits_s: float | None
    bound_s: float

    @override
    def __str__(self) -> str:
        best = "" if self.best_s is None else f"; the best links take {self.best_s * 1e3:.4g} ms"
        count = sum(one.count for one in self.links)
        return (
            f"{plural(count, 'link')}: an all-to-all takes {self.completion_s * 1e3:.4g} ms{best}; "
            f"nothing takes less than {self.bound_s * 1e3:.4g} ms"
        )
