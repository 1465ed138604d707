"""Demand: what servers send each other in an expert all-to-all, from what experts do.

between = server_demand(sent, experts_per_gpu=1, gpus_per_server=8)    # bytes, servers x servers
folded(between)                                                        # each pair of servers once
"""

from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError


class Fold(StrEnum):
    """How the two directions of a pair of servers become one number. A link is duplex: it carries both at once."""

    SUM = "sum"
    """As mFabric does (section 5.2, step 1)."""
    MAX = "max"
    """The direction that takes longer: what duplex links are busy with."""


def checked(demand: ArrayLike, what: str = "demand") -> NDArray[np.float64]:
    """A square matrix of finite numbers that are not negative, as floats. Raises ConfigError, which names the entry."""
    try:
        found = np.asarray(demand, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what}: not a matrix of numbers: {error}") from error
    if found.ndim != 2 or found.shape[0] != found.shape[1]:
        raise ConfigError(f"{what}: has the shape {_shape(found.shape)}, and has to be square: who sends, who receives")
    if not (found.min(initial=0.0) >= 0 and found.max(initial=0.0) < np.inf):
        row, column = np.argwhere(~(np.isfinite(found) & (found >= 0)))[0]
        raise ConfigError(f"{what}: [{row}][{column}] is {found[row, column]:g}; bytes are finite, and at least 0")
    return found


def checked_fold(demand: ArrayLike, servers: int) -> NDArray[np.float64]:
    """Demand of pairs of servers, as `folded` makes it. Raises ConfigError where it is not so, or of other servers."""
    found = checked(demand)
    if found.shape[0] != servers:
        raise ConfigError(f"demand of {plural(found.shape[0], 'server')}, and ports of {servers}")
    if np.tril(found).any():
        row, column = np.argwhere(np.tril(found))[0]
        raise ConfigError(f"demand: [{row}][{column}] is not above the diagonal: fold it first, both directions in one")
    return found


def server_demand(sent: ArrayLike, *, experts_per_gpu: int, gpus_per_server: int) -> NDArray[np.float64]:
    """What servers send each other, in bytes: the sums over their experts (section 5.2, step 1).

    `sent`: experts x experts, from those that have the tokens to those that get them; experts are numbered GPU by GPU,
    and GPUs server by server. What stays in a server is left out. Raises ConfigError where the experts do not fill
    whole servers.
    """
    found = checked(sent, "demand of experts")
    for value, name in ((experts_per_gpu, "experts_per_gpu"), (gpus_per_server, "gpus_per_server")):
        if value < 1:
            raise ConfigError(f"{name}: is {value}, and has to be at least 1")
    each = experts_per_gpu * gpus_per_server
    servers, left = divmod(found.shape[0], each)
    if left or not servers:
        raise ConfigError(
            f"demand of experts: {plural(found.shape[0], 'expert')} cannot fill servers of {each} "
            f"({gpus_per_server} GPUs with {experts_per_gpu} each)"
        )
    by_sender = found.reshape(servers, each, servers * each).sum(axis=1)
    between: NDArray[np.float64] = (by_sender.reshape(-1, each) @ np.ones(each)).reshape(servers, servers)
    np.fill_diagonal(between, 0.0)
    return between


def folded(between: NDArray[np.float64], fold: Fold = Fold.SUM) -> NDArray[np.float64]:
    """Each pair of servers once, above the diagonal."""
    both = between + between.T if Fold(fold) is Fold.SUM else np.maximum(between, between.T)
    return np.triu(both, 1)


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "of a single number"
