"""The papers' figures that reports compare ours with: the only constants of a report, each with its source.

opus: "photonic rails", the Opus paper; mfabric: mFabric / MixNet; acos: arrays of cheap optical switches. `drawn_by`
names the twins' timings that were fitted to a figure: the measurements of such a twin show that it plays its model, and
are never a reproduction.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from hwd.model.instant import Origin
from hwd.report.conditions import Conditions
from hwd.timeline import StageName


class Statistic(StrEnum):
    """The statistic of a figure, by the paper."""

    TYPICAL = "about"
    """Read from a text or a timeline; the paper has no statistics."""
    UP_TO = "up to"
    """The largest that the paper saw."""
    MEAN = "mean"
    P99 = "p99"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFigure:
    """One figure of a paper, in seconds; `low_s` and `high_s` are equal where the paper has one value. `pairs`:
    crossconnects of one command.

    `autoneg`: whether the NICs of the figure negotiated; None where it does not matter, or is not said.
    """

    paper: str
    where: str
    stage: StageName
    statistic: Statistic
    low_s: float
    high_s: float
    condition: str = ""
    remark: str = ""
    pairs: int | None = None
    autoneg: bool | None = None
    drawn_by: tuple[str, ...] = ()


_OPUS, _MFABRIC = "opus", "mfabric"
_OPUS_NICS = ("opus-cx6dx-autoneg", "opus-cx6dx")

FIGURES: tuple[PaperFigure, ...] = (
    PaperFigure(
        paper=_OPUS, where="5.1", stage=StageName.CONTROL, statistic=Statistic.TYPICAL, low_s=0.2, high_s=0.2,
        drawn_by=("polatis-opus",),
    ),
    PaperFigure(
        paper=_OPUS, where="5.1", stage=StageName.OPTICAL, statistic=Statistic.TYPICAL, low_s=0.1, high_s=0.1,
        remark="sampled each 100 ms: not resolved", drawn_by=("polatis-opus",),
    ),
    PaperFigure(
        paper=_OPUS, where="5.1", stage=StageName.FIRMWARE, statistic=Statistic.TYPICAL, low_s=6.0, high_s=6.0,
        condition="auto-negotiation", autoneg=True, drawn_by=("opus-cx6dx-autoneg",),
    ),
    PaperFigure(
        paper=_OPUS, where="5.1", stage=StageName.FIRMWARE, statistic=Statistic.TYPICAL, low_s=3.0, high_s=3.0,
        condition="no auto-negotiation", autoneg=False, drawn_by=("opus-cx6dx",),
    ),
    PaperFigure(
        paper=_OPUS, where="5.1", stage=StageName.FIRMWARE, statistic=Statistic.UP_TO, low_s=10.0, high_s=10.0,
        condition="rapid repeats", drawn_by=_OPUS_NICS,
    ),
    PaperFigure(
        paper=_OPUS, where="5.1", stage=StageName.CARRIER, statistic=Statistic.TYPICAL, low_s=70e-6, high_s=80e-6,
        drawn_by=(*_OPUS_NICS, "mfabric-cx6"),
    ),
    PaperFigure(
        paper=_OPUS, where="5.1", stage=StageName.RDMA, statistic=Statistic.TYPICAL, low_s=0.1, high_s=0.2,
        remark="to the first RDMA transmit", drawn_by=(*_OPUS_NICS, "mfabric-cx6"),
    ),
    PaperFigure(
        paper=_MFABRIC, where="fig. 10", stage=StageName.CONTROL, statistic=Statistic.MEAN,
        low_s=0.04144, high_s=0.04144,
        condition="1 pair", pairs=1, drawn_by=("polatis-mfabric",),
    ),
    PaperFigure(
        paper=_MFABRIC, where="fig. 10", stage=StageName.CONTROL, statistic=Statistic.MEAN,
        low_s=0.04244, high_s=0.04244,
        condition="4 pairs", pairs=4, drawn_by=("polatis-mfabric",),
    ),
    PaperFigure(
        paper=_MFABRIC, where="fig. 10", stage=StageName.CONTROL, statistic=Statistic.MEAN,
        low_s=0.04675, high_s=0.04675,
        condition="16 pairs", pairs=16, drawn_by=("polatis-mfabric",),
    ),
    PaperFigure(
        paper=_MFABRIC, where="fig. 10", stage=StageName.CONTROL, statistic=Statistic.P99, low_s=0.060, high_s=0.060,
        condition="1 pair", remark="read off the curve", pairs=1, drawn_by=("polatis-mfabric",),
    ),
    PaperFigure(
        paper=_MFABRIC, where="fig. 10", stage=StageName.CONTROL, statistic=Statistic.P99, low_s=0.062, high_s=0.062,
        condition="4 pairs", remark="read off the curve", pairs=4, drawn_by=("polatis-mfabric",),
    ),
    PaperFigure(
        paper=_MFABRIC, where="fig. 10", stage=StageName.CONTROL, statistic=Statistic.P99, low_s=0.068, high_s=0.068,
        condition="16 pairs", remark="read off the curve", pairs=16, drawn_by=("polatis-mfabric",),
    ),
    PaperFigure(
        paper=_MFABRIC, where="fig. 12", stage=StageName.ACTIVATION, statistic=Statistic.MEAN, low_s=5.67, high_s=5.67,
        drawn_by=("mfabric-cx6",),
    ),
    PaperFigure(
        paper=_MFABRIC, where="fig. 12", stage=StageName.ACTIVATION, statistic=Statistic.P99, low_s=6.33, high_s=6.33,
        drawn_by=("mfabric-cx6",),
    ),
    PaperFigure(
        paper="acos", where="4.4", stage=StageName.CONTROL, statistic=Statistic.TYPICAL, low_s=0.008, high_s=0.008,
        remark="quoted parts", drawn_by=("lowradix-8ms",),
    ),
    PaperFigure(
        paper="acos", where="4.4", stage=StageName.OPTICAL, statistic=Statistic.TYPICAL, low_s=0.008, high_s=0.008,
        remark="quoted parts", drawn_by=("lowradix-8ms",),
    ),
)  # fmt: skip


def figures(under: Conditions, *, compare_with: str | None = None) -> tuple[PaperFigure, ...]:
    """The figures to compare with measurements under these conditions.

    They are of the paper that `compare_with` starts with (`opus-testbed`), else of the papers whose timings the twins
    draw from, else, on hardware, of all. Figures for NICs that negotiate, or do not, only appear where ours did the
    same; of several conditions of one stage with separate timings, only those of the twin's timing.
    """
    if compare_with is not None:
        papers = {figure.paper for figure in FIGURES if compare_with.startswith(figure.paper)}
    else:
        papers = {figure.paper for figure in FIGURES if not under.timings.isdisjoint(figure.drawn_by)}
    chosen = [
        figure
        for figure in FIGURES
        if (figure.paper in papers or (compare_with is None and not papers))
        and (figure.autoneg is None or not under.autoneg or figure.autoneg in under.autoneg)
    ]
    drawn = {(figure.paper, figure.stage) for figure in chosen if not under.timings.isdisjoint(figure.drawn_by)}
    return tuple(
        figure
        for figure in chosen
        if (figure.paper, figure.stage) not in drawn or not under.timings.isdisjoint(figure.drawn_by)
    )


def origin_of(origin: Origin | None, stage: StageName, timings: frozenset[str]) -> Origin | None:
    """Fitted where a twin's timing among `timings` was made from a paper's figure of this stage, else the same."""
    made = any(one.stage is stage and not timings.isdisjoint(one.drawn_by) for one in FIGURES)
    return Origin.FITTED if made and origin not in (None, Origin.MEASURED) else origin


def of_stage(chosen: Iterable[PaperFigure], stage: StageName) -> tuple[PaperFigure, ...]:
    return tuple(figure for figure in chosen if figure.stage is stage)
