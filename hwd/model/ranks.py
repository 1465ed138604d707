"""The ranks of jobs, and the groups in which they communicate. Values only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One process of a job; `gpu` None: its host has one rank, or no GPUs are stated."""

    number: int
    host: str
    gpu: int | None = None

    def __str__(self) -> str:
        return f"rank {self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationGroup:
    """Ranks that communicate, in their order. `dimension`: of parallelism: `dp`, `tp`, `pp`, `ep`, ..."""

    name: str
    ranks: tuple[int, ...]
    dimension: str = ""
