"""Stored demand: what hosts send each other, by name, layer and micro-batch; its limits."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from hwd.model.api_value import ApiValue
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError

FILE_BYTES_MAX: Final = 32 * 1024 * 1024
"""The most bytes of a file of demand: 90 layers of 128 experts in 16 bits are 3 MB, in 64 bits 12 MB."""
CSV_BYTES_MAX: Final = 8 * 1024 * 1024
"""The most bytes of a file that is CSV, which takes a second or more to read. NPZ has the same in less."""
CELLS_MAX: Final = 1 << 24
"""Numbers in all matrices of a file, before experts become hosts: 128 MiB as floats."""
UNPACKED_BYTES_MAX: Final = 8 * CELLS_MAX + (1 << 20)
"""The most bytes of all arrays of an NPZ file with their headers."""
EXPERTS_MAX: Final = 4096
"""Also the most names in a CSV file: one matrix of so many has `CELLS_MAX` numbers."""
HOSTS_MAX: Final = 512
"""One matrix is 2 MiB then, and some 4 MB as JSON."""
NUMBER_MAX: Final = 1023
"""The highest number of a layer, and of a micro-batch."""
MATRICES_MAX: Final = 4096
"""Layers times micro-batches of one demand."""
AMOUNT_MAX: Final = float(1 << 63)
"""Bytes from one host or expert to another; more is a wrong unit, and sums stay finite."""
STORED_BYTES_MAX: Final = 16 * 1024 * 1024
"""The most bytes of the matrices of one demand in the records, which one transaction writes: 128 matrices of 128 hosts.
"""
ALL_BYTES_MAX: Final = 256 * 1024 * 1024
"""The most bytes of the matrices of all demands."""
DEMANDS_MAX: Final = 256

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class DemandSummary(ApiValue, frozen=True, kw_only=True):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandKey:
    """One matrix of a stored demand. Raises ConfigError for a number that none has."""

    name: str
    layer: int = 0
    microbatch: int = 0

    def __post_init__(self) -> None:
        if not 0 <= min(self.layer, self.microbatch) <= max(self.layer, self.microbatch) <= NUMBER_MAX:
            raise ConfigError(f"{self}: layers and micro-batches are numbered from 0 to {NUMBER_MAX}")

    def __str__(self) -> str:
        return f"demand {self.name}, layer {self.layer}, micro-batch {self.microbatch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDemand:
    """A demand that is to be stored. `experts`: how many the file was of; None where it was of hosts.

    `matrices`: by layer and micro-batch, hosts x hosts in bytes from row to column, as 64-bit floats in row order, the
    least significant byte first.
    """

    name: str
    by: str
    added_wall_ns: int
    hosts: tuple[str, ...]
    experts: int | None
    matrices: Mapping[tuple[int, int], bytes]
    total_bytes: float

    @property
    def summary(self) -> DemandSummary:
        """What is listed of it."""
        return DemandSummary(
            name=self.name,
            by=self.by,
            added_wall_ns=self.added_wall_ns,
            hosts=[*self.hosts],
            experts=self.experts,
            layers=sorted({layer for layer, _ in self.matrices}),
            microbatches=sorted({microbatch for _, microbatch in self.matrices}),
            matrices=len(self.matrices),
            total_bytes=self.total_bytes,
            stored_bytes=sum(map(len, self.matrices.values())),
        )


def check_name(name: str) -> None:
    """Raises ConfigError where a demand cannot have this name."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"demand {name[:80]!r}: is no name of a demand; write a letter, then letters, digits, - _ and ., at most 64"
        )


class DemandMatrix(ApiValue, frozen=True, kw_only=True):
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


class HostLinks(ApiValue, frozen=True, kw_only=True):
    """How many links two hosts have."""

    one: str
    other: str
    count: int


class DemandLinks(ApiValue, frozen=True, kw_only=True):
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
