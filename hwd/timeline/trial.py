"""Whether two treatments differ, judged after each pair of runs, as often as one likes.

    judgement = judge([Pair(a=0.0512, b=0.0431), Pair(a=0.0498, b=0.0440), ...])
    judgement.ratio, judgement.within, judgement.is_decided

Treatments run in pairs, in an order that is drawn for each pair. What is judged is d = ln(b / a) of each pair: drift of
the rack is in both of its runs. Where a and b do not differ, the draw makes d symmetric around 0, whatever the
distribution is: its sign is a fair coin, given its size. So the wealth of a gambler who stakes the part tanh(x |d|) on
one side, which is the product of 1 + tanh(x d), is a martingale for each x, and so is its mean E over several x. By
Ville's inequality E ever exceeds 1 / alpha with a probability of at most alpha: however often one looks. (It is never
below the bound exp(x S - x^2 V / 2) of de la Pena, Annals of Probability 27, 1999, lemma 6.1, since cosh y is at most
exp(y^2 / 2).) All differences for which E is not above that make the interval, a confidence sequence: it holds at all
times together, where d is symmetric around the difference. No normal distribution is assumed, and no standard
deviation.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

Differences = NDArray[np.float64]

ALPHA: Final = 0.05
STAKES: Final = np.array([sign * 2.0**power for sign in (1, -1) for power in range(12)])
"""The x: for differences that are clear in a few pairs, and for those that need hundreds."""
WARM_UP_MOST: Final = 10
"""Pairs that may be left out at the beginning."""
FAR: Final = 10.0
"""A difference of ln(b / a) that no trial has: a factor of 22,000."""
LOG_MOST: Final = 700.0
"""The largest logarithm of E: a larger one has no floating-point number."""
_STEPS: Final = 30
"""Halvings of an interval: to within 1e-8, a millionth of a percent."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of two runs, both above 0, in any unit."""

    a: float
    b: float

    @property
    def difference(self) -> float:
        """ln(b / a)."""
        return math.log(self.b / self.a)

    @property
    def level(self) -> float:
        """ln of their geometric mean: the same when a and b change places."""
        return math.log(self.a * self.b) / 2


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of a trial of a and b. `ratio`: b to a, the geometric mean of the pairs, None without any;
    `within`: its bounds, None where there are too few pairs for any. `warm_up`: pairs left out at the beginning;
    `pairs`: those that count. `evidence`: E, in favour of a difference. `verdict`: `b is longer`, `b is shorter`, `no
    difference` (within the margin that was asked for), or empty: not decided.
    """

    pairs: int
    warm_up: int
    ratio: float | None
    within: tuple[float, float] | None
    evidence: float
    verdict: str

    @property
    def is_decided(self) -> bool:
        return bool(self.verdict)


def judge(pairs: Sequence[Pair], *, margin: float | None = None) -> Judgement:
    """Judge the pairs of a trial, in their order. `margin`: a relative difference that does not matter; where the whole
    interval is within it, there is no difference.

    Raises ValueError for a measurement that is not above 0.
    """
    if any(value <= 0 or not math.isfinite(value) for pair in pairs for value in (pair.a, pair.b)):
        raise ValueError("a trial needs measurements above 0")
    warm_up = warm_up_of(pairs)
    differences = np.array([pair.difference for pair in pairs[warm_up:]])
    within = _within(differences)
    evidence = _evidence(differences, 0.0)
    verdict = ""
    if within is not None:
        low, high = within
        if low > 0:
            verdict = "b is longer"
        elif high < 0:
            verdict = "b is shorter"
        elif margin is not None and -math.log1p(margin) < low and high < math.log1p(margin):
            verdict = "no difference"
    return Judgement(
        pairs=len(differences),
        warm_up=warm_up,
        ratio=math.exp(differences.mean()) if len(differences) else None,
        within=None if within is None else (math.exp(within[0]), math.exp(within[1])),
        evidence=evidence,
        verdict=verdict,
    )


def warm_up_of(pairs: Sequence[Pair]) -> int:
    """Pairs at the beginning in which the rack still goes one way: up to the first whose level does not go on in the
    direction of the first two.

    Only levels are looked at, which do not say which of a and b was longer: so what is left out favours neither.
    """
    levels = [pair.level for pair in pairs[: WARM_UP_MOST + 1]]
    if len(levels) < 2:
        return 0
    rises = levels[1] > levels[0]
    turns = next((at for at in range(2, len(levels)) if (levels[at] > levels[at - 1]) is not rises), len(levels) - 1)
    return turns - 1


def _evidence(differences: Differences, shift: float) -> float:
    """E, against a difference of `shift`."""
    bets = np.outer(STAKES, differences - shift)
    wealth = np.minimum((bets - np.logaddexp(bets, -bets) + math.log(2)).sum(axis=1), LOG_MOST)
    return float(np.exp(wealth).mean())


def _within(differences: Differences) -> tuple[float, float] | None:
    """The differences for which E is not above 1 / `ALPHA`; None where there are too few pairs for any bound."""
    if not len(differences):
        return None
    middle = float(differences.mean())

    def is_out(shift: float) -> bool:
        return _evidence(differences, shift) > 1 / ALPHA

    reach = float(np.abs(differences - middle).max()) + FAR
    if is_out(middle) or not (is_out(middle - reach) and is_out(middle + reach)):
        return None
    return _edge(is_out, middle, middle - reach), _edge(is_out, middle, middle + reach)


def _edge(is_out: Callable[[float], bool], inside: float, outside: float) -> float:
    for _ in range(_STEPS):
        between = (inside + outside) / 2
        if is_out(between):
            outside = between
        else:
            inside = between
    return outside
