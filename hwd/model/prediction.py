"""The predicted time of a plan, and how it compares with what was measured."""

import math
from typing import Final

import msgspec
from typing_extensions import override

from hwd.model.plural import plural

P50_NEEDS: Final = 1
P99_NEEDS: Final = 99
"""The fewest observations: after n of them the next one is above the largest with probability 1/(n+1), and no fewer
bound a quantile of 0.99.
"""


class PredictedTime(msgspec.Struct, frozen=True, kw_only=True):
    """Quantiles of one time of a plan. None: unknown, for `why`.

    `observations`: the fewest of a device of the plan, that is of `of`. `measured_s`: what it was, once it is over;
    None where that was not seen.
    """

    p50_s: float | None
    p99_s: float | None
    observations: int
    of: str
    why: str = ""
    measured_s: float | None = None

    @override
    def __str__(self) -> str:
        """`p50 1.2 s, p99 unknown: 12 observations of h0.eth0, 99 needed`."""
        if self.p50_s is None:
            return f"unknown: {self.why}"
        p99 = f"unknown: {self.why}" if self.p99_s is None else f"{_s(self.p99_s)}, by {self.basis}"
        return f"p50 {_s(self.p50_s)}, p99 {p99}"

    @property
    def basis(self) -> str:
        """`120 observations of ocs1`."""
        return f"{plural(self.observations, 'observation')} of {self.of}"

    def covers(self, quantile: float) -> bool | None:
        """Whether the measured time is at most the predicted `quantile`, 0.5 or 0.99; None where one is unknown."""
        predicted_s = self._of(quantile)
        return None if predicted_s is None or self.measured_s is None else self.measured_s <= predicted_s

    def loss_s(self, quantile: float) -> float | None:
        """The pinball loss of a quantile; None as for `covers`. Koenker and Bassett, "Regression quantiles", 1978."""
        predicted_s = self._of(quantile)
        if predicted_s is None or self.measured_s is None:
            return None
        over_s = self.measured_s - predicted_s
        return max(quantile * over_s, (quantile - 1) * over_s)

    def _of(self, quantile: float) -> float | None:
        return self.p99_s if quantile > 0.5 else self.p50_s


class PlanPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted times of a plan: from the first command until all switches have acknowledged, and until all links
    that move are ready. `ready` is None where no link moves.
    """

    acknowledged: PredictedTime
    ready: PredictedTime | None

    @override
    def __str__(self) -> str:
        ready = "" if self.ready is None else f"; ready {self.ready}"
        return f"acknowledged {self.acknowledged}{ready}"


def _s(seconds: float) -> str:
    digits = 1 if seconds == 0 else max(0, 2 - math.floor(math.log10(abs(seconds))))
    return f"{seconds:.{digits}f} s"
