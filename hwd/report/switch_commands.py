"""Control times of switch commands, by the number of pairs of a command."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from msgspec import UNSET

from hwd.model.instant import Knowledge, Origin
from hwd.report.reconfigurations import RecordedReconfiguration
from hwd.timeline.resampling import RESAMPLES, mean_interval
from hwd.timeline.statistics import P99_NEEDS

_NS_IN_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchCommands:
    """The commands of one switch in one reconfiguration. `pairs`: crossconnects that it made; `commands`: the number of
    commands. `control_s` None: no answer.
    """

    reconfiguration: str
    switch: str
    pairs: int
    removed: int
    commands: int
    control_s: float | None
    error_s: float | None
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsRow:
    """Commands that made so many pairs. `of`: its run and sweep value, empty where there is no other beside it.

    The interval of the mean is 95 % (bootstrap over whole reconfigurations; None below 20); p99 is None below 100
    commands.
    """

    of: str = ""
    virtual_time: bool
    pairs: int
    n: int
    mean_s: float
    mean_within_s: tuple[float, float] | None
    p99_s: float | None
    max_s: float
    error_s: float
    origin: Origin

    @property
    def group(self) -> str:
        """`k3v9, real time`: never mixed with another."""
        return f"{f'{self.of}, ' if self.of else ''}{'virtual' if self.virtual_time else 'real'} time"


def commanded(one: RecordedReconfiguration) -> tuple[SwitchCommands, ...]:
    found = []
    for command in one.timeline.commands:
        sent, answered = command.commanded, command.acknowledged
        seen = sent.knowledge is Knowledge.SEEN and answered.knowledge is Knowledge.SEEN
        found.append(
            SwitchCommands(
                reconfiguration=one.timeline.reconfiguration,
                switch=command.switch,
                pairs=one.made.get(command.switch, 0) if command.made is UNSET else command.made,
                removed=one.removed.get(command.switch, 0) if command.removed is UNSET else command.removed,
                commands=command.commands,
                control_s=(answered.at_ns - sent.at_ns) / _NS_IN_S if seen else None,
                error_s=(answered.error_ns + sent.error_ns) / _NS_IN_S if seen else None,
                origin=answered.origin,
            )
        )
    return tuple(found)


def pairs_table(
    taken: Iterable[tuple[SwitchCommands, bool]], *, resamples: int = RESAMPLES, of: str = ""
) -> tuple[PairsRow, ...]:
    """A row for each number of pairs in each kind of time; the bool of each command says whether its time was virtual.

    Only reconfigurations with a single command count: several commands take the time of several. A command that only
    removed made no pair, and does not count either.
    """
    cells: dict[tuple[bool, int], list[SwitchCommands]] = {}
    for command, virtual_time in taken:
        if command.control_s is not None and command.commands == 1 and command.pairs:
            cells.setdefault((virtual_time, command.pairs), []).append(command)
    return tuple(replace(_row(*key, cells[key], resamples), of=of) for key in sorted(cells))


def _row(virtual_time: bool, pairs: int, cell: Sequence[SwitchCommands], resamples: int) -> PairsRow:
    seconds = np.array([one.control_s for one in cell], dtype=float)
    origin = cell[0].origin
    for one in cell[1:]:
        origin = origin.weakest(one.origin)
    clusters = [one.reconfiguration for one in cell]
    return PairsRow(
        virtual_time=virtual_time,
        pairs=pairs,
        n=len(cell),
        mean_s=math.fsum(seconds) / len(cell),
        mean_within_s=mean_interval(seconds, clusters, resamples=resamples),
        p99_s=float(np.percentile(seconds, 99)) if len(cell) >= P99_NEEDS else None,
        max_s=float(seconds.max()),
        error_s=float(np.median([one.error_s or 0.0 for one in cell])),
        origin=origin,
    )
