"""Copilot: predicts the loads of a layer from those of the previous one (mFabric, appendix B).

The first all-to-all of a layer comes with no time for the switch after its gate. With a prediction, links can move
while the previous layer still computes.
"""

from collections import deque

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwd.mfabric.loads import load_shares
from hwd.mfabric.transition import Fit, Solver, fit_transition
from hwd_drivers.core.errors import ConfigError

WINDOW = 10
"""Iterations that a fit uses. The paper does not print its k."""
DECAY = 0.8
"""The weight of an iteration to that of the next one. The paper does not print its w; here the newest of 10 counts
seven times as much as the oldest."""


class Copilot:
    """The prediction for one layer. The fit depends only on the observations in the window.

        copilot = Copilot(8)
        copilot.observe(previous_loads, loads)        # each iteration, once both layers' gates are done
        expected = copilot.predict(previous_loads)    # in the next one, once the gate of the previous layer is done

    Loads: one number per expert, tokens or bytes. What is returned sums to 1.
    """

    def __init__(
        self,
        experts: int,
        *,
        window: int = WINDOW,
        decay: float = DECAY,
        solver: Solver = Solver.INTERIOR_POINT,
    ) -> None:
        """`window`: the most iterations that are used, at least 1. `decay`: above 0, and 1 where all count the same.

        Raises ConfigError.
        """
        for value, name in ((experts, "experts"), (window, "window")):
            if value < 1:
                raise ConfigError(f"{name}: is {value}, and has to be at least 1")
        if not 0 < decay <= 1:
            raise ConfigError(f"decay: is {decay:g}, and has to be above 0, and at most 1")
        self._experts = experts
        self._decay = decay
        self._solver = Solver(solver)
        self._observed: deque[tuple[NDArray[np.float64], NDArray[np.float64]]] = deque(maxlen=window)
        self._fit: Fit | None = None

    def observe(self, previous_loads: ArrayLike, loads: ArrayLike) -> None:
        """The loads of the previous layer and of this one in one iteration. Raises ConfigError, and changes nothing."""
        before = load_shares(previous_loads, self._experts, "previous loads")
        self._observed.append((before, load_shares(loads, self._experts)))
        self._fit = None

    @property
    def fit(self) -> Fit:
        """The fit to the window; before the first observation the identity. Raises as `fit_transition` does."""
        if self._fit is None:
            self._fit = self._fitted()
        return self._fit

    @property
    def transition(self) -> NDArray[np.float64]:
        """P, N x N: the share of each expert of the previous layer (column) that one of this layer gets (row)."""
        return self.fit.transition

    def predict(self, previous_loads: ArrayLike) -> NDArray[np.float64]:
        """The loads that this layer is expected to get, as shares. Raises as `fit_transition` does."""
        return self.transition @ load_shares(previous_loads, self._experts, "previous loads")

    def _fitted(self) -> Fit:
        if not self._observed:
            identity = np.eye(self._experts)
            identity.flags.writeable = False
            return Fit(transition=identity, objective=0.0, gap=0.0)
        before, after = zip(*self._observed, strict=True)
        weights = self._decay ** np.arange(len(before))[::-1]
        return fit_transition(np.array(before), np.array(after), weights=weights, solver=self._solver)
