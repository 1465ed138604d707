"""Cumulative distributions with a band that contains the true one, whatever its form."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hwd.timeline.resampling import CLUSTERS_NEEDED, CONFIDENCE, numbered
from hwd.timeline.statistics import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The distribution of times in sorted values: `best_s`, the most likely, `least_s` and `most_s`, their bounds.

    Each value is only known to lie within its bounds. So the distribution of the sample is not above that of `least_s`
    and not below that of `most_s`, and the true one is, with 95 %, nowhere further than `half_width` from it: the
    inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's constant (Annals of Probability, 1990). It holds for
    the whole curve at once. It counts whole `reconfigurations`, since links of one are not independent: the curve is
    the mean of theirs, which deviates no further than one link drawn from each would. Where some have more links than
    others, they count as the smaller number that Kish's effective sample size says. With fewer than six of them
    `half_width` is None, and there is no band.
    """

    best_s: tuple[float, ...]
    least_s: tuple[float, ...]
    most_s: tuple[float, ...]
    reconfigurations: int
    half_width: float | None

    @property
    def low(self) -> tuple[tuple[float, float], ...]:
        """The lower edge of the band: from each of these times on, at least that share. Empty where
        there is no band.
        """
        return () if self.half_width is None else _edge(self.most_s, -self.half_width)

    @property
    def high(self) -> tuple[tuple[float, float], ...]:
        """The upper edge: from each of these times on, at most that share; before the first, `half_width`. Empty where
        there is no band.
        """
        return () if self.half_width is None else _edge(self.least_s, self.half_width)


def distribution(taken: Sequence[Sample]) -> Distribution | None:
    """The distribution of the samples that have a value; None where none has."""
    seen = [sample for sample in taken if sample.stage.seconds is not None]
    if not seen:
        return None
    best_s = [sample.stage.seconds or 0.0 for sample in seen]
    within_s = [sample.within_s or (value, value) for sample, value in zip(seen, best_s, strict=True)]
    links = Counter(numbered(sample.reconfiguration for sample in seen)).values()
    effective = len(seen) ** 2 / sum(count**2 for count in links)
    return Distribution(
        best_s=tuple(sorted(best_s)),
        least_s=tuple(sorted(least_s for least_s, _ in within_s)),
        most_s=tuple(sorted(most_s for _, most_s in within_s)),
        reconfigurations=len(links),
        half_width=math.sqrt(math.log(2 / (1 - CONFIDENCE)) / (2 * effective))
        if len(links) >= CLUSTERS_NEEDED
        else None,
    )


def _edge(seconds: Sequence[float], moved: float) -> tuple[tuple[float, float], ...]:
    n = len(seconds)
    return tuple((at_s, min(1.0, max(0.0, (index + 1) / n + moved))) for index, at_s in enumerate(seconds))
