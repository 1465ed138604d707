"""Stored demand: what hosts send each other, by name, layer and micro-batch; its limits."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hwd.model.answers import DemandSummary
from hwd_drivers.core.errors import ConfigError

FILE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of a file of demand: 90 layers of 128 experts in 16 bits are 3 MB, in 64 bits 12 MB."""
CSV_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one that is CSV, which takes a second or more to read. NPZ has the same in less."""
CELLS_MAX: Final = 1 << 24
"""Numbers in all matrices of a file, before experts become hosts: 128 MiB as floats."""
UNPACKED_BYTES_MAX: Final = 8 * CELLS_MAX + (1 << 20)
"""Of all arrays of an NPZ file with their headers."""
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
"""Of the matrices of one demand in the records, which one transaction writes: 128 matrices of 128 hosts."""
ALL_BYTES_MAX: Final = 256 * 1024 * 1024
"""Of those of all demands."""
DEMANDS_MAX: Final = 256

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


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
