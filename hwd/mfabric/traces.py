"""Traces: synthetic loads of experts by iteration and layer. They are our making, not the paper's measurements, which
are not published.

The first layer's shares drift: a random walk of their logarithms. Each later layer's are those of the layer before it
times a transition that stays the same over iterations (planted). Loads are tokens drawn by these shares (multinomial),
so that a layer follows the tokens that were drawn in the layer before it, and not its shares.
"""

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from hwd_drivers.core.errors import ConfigError


class Trace(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A synthetic trace of the load of experts. `loads`: tokens, iterations x layers x experts. `transitions`: what was
    planted, layers - 1 x experts x experts, columns sum to 1.
    """

    loads: NDArray[np.float64]
    transitions: NDArray[np.float64]


def synthetic_trace(
    seed: int | np.random.Generator,
    *,
    iterations: int,
    layers: int,
    experts: int,
    tokens: int = 32768,
    concentration: float = 0.1,
    drift: float = 0.1,
) -> Trace:
    """The trace of a seed, always the same; a generator goes on from where it is.

    `tokens`: of each layer in an iteration; by default 8 sequences of 4096. `concentration`: of the Dirichlet
    distribution of each column of a transition; with less, an expert's tokens go to fewer experts. `drift`: standard
    deviation of what an iteration adds to the logarithm of a share. Raises ConfigError.
    """
    for count, name in ((iterations, "iterations"), (layers, "layers"), (experts, "experts"), (tokens, "tokens")):
        if count < 1:
            raise ConfigError(f"{name}: is {count}, and has to be at least 1")
    if not 0 < concentration < math.inf:
        raise ConfigError(f"concentration: is {concentration:g}, and has to be finite and above 0")
    if not 0 <= drift < math.inf:
        raise ConfigError(f"drift: is {drift:g}, and has to be finite and at least 0")
    generator = np.random.default_rng(seed)
    columns = generator.dirichlet(np.full(experts, concentration), size=(layers - 1, experts))
    transitions = columns.transpose(0, 2, 1)
    loads = np.empty((iterations, layers, experts))
    logarithms = generator.normal(size=experts)
    for iteration in range(iterations):
        shares = np.exp(logarithms - logarithms.max())
        loads[iteration, 0] = generator.multinomial(tokens, shares / shares.sum())
        for layer, transition in enumerate(transitions, 1):
            shares = transition @ loads[iteration, layer - 1]
            loads[iteration, layer] = generator.multinomial(tokens, shares / shares.sum())
        logarithms = logarithms + generator.normal(scale=drift, size=experts)
    return Trace(loads=loads, transitions=transitions)
