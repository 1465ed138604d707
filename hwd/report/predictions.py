"""How well the predicted times of a run's plans did: how often what was measured was at most what was predicted."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from hwd.model.prediction import PlanPrediction, PredictedTime
from hwd.report.quantity import MISSING, duration

_Z95 = 1.959964


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRow:
    """One quantile of one time, `acknowledged` or `ready`, of all plans of a run.

    `scored`: plans of which both the quantile and the time are known, `covered` of them took at most as long;
    `not_scored`: the others. `predicted_s`, `measured_s`: medians of those scored. `loss_s`: their mean pinball loss.
    """

    time: str
    quantile: float
    scored: int
    covered: int
    not_scored: int
    predicted_s: float | None
    measured_s: float | None
    loss_s: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the true coverage lies with 95 %, by Wilson's score interval (1927), where plans are independent."""
        if not self.scored:
            return None
        n, p, z = self.scored, self.covered / self.scored, _Z95
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)


def prediction_rows(predictions: Iterable[PlanPrediction]) -> tuple[PredictionRow, ...]:
    """Two for each time that was predicted; none where none was."""
    found = [*predictions]
    times = {
        "acknowledged": [one.acknowledged for one in found],
        "ready": [one.ready for one in found if one.ready is not None],
    }
    return tuple(
        _row(time, quantile, predicted) for time, predicted in times.items() if predicted for quantile in (0.5, 0.99)
    )


def prediction_figures(row: PredictionRow) -> dict[str, str]:
    """The figures of a row for people, by their headings."""
    return {
        "time": row.time,
        "quantile": f"p{row.quantile * 100:.0f}",
        "n": str(row.scored),
        "predicted": duration(row.predicted_s),
        "measured": duration(row.measured_s),
        "at most it": f"{row.covered / row.scored:.0%}" if row.scored else MISSING,
        "95 % interval": MISSING if row.interval is None else "{:.0%} to {:.0%}".format(*row.interval),
        "mean loss": duration(row.loss_s),
        "not scored": str(row.not_scored),
    }


def _row(time: str, quantile: float, predicted: Sequence[PredictedTime]) -> PredictionRow:
    scored = [one for one in predicted if one.covers(quantile) is not None]
    quantiles_s = [one.p50_s if quantile == 0.5 else one.p99_s for one in scored]
    return PredictionRow(
        time=time,
        quantile=quantile,
        scored=len(scored),
        covered=sum(one.covers(quantile) is True for one in scored),
        not_scored=len(predicted) - len(scored),
        predicted_s=_median(quantiles_s),
        measured_s=_median([one.measured_s for one in scored]),
        loss_s=fmean(loss for one in scored if (loss := one.loss_s(quantile)) is not None) if scored else None,
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return median(known) if known else None
