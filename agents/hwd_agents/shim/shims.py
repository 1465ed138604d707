"""Shims: what is to be done before and after an operation of a rank, decided on its host.

    class EveryOther:
        def before(self, operation):
            return Ask() if operation.index % 2 else Go()

        def after(self, operation):
            return Go()

    EVERY_OTHER = ShimKind(make=lambda arguments, rank, job: EveryOther())

A package declares it in the entry point group `hwd.shims`, by its name. It decides without a socket, a clock or a
thread: `Rank` does what it says.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Final, Protocol

from hwd_agents.wire import JobJoined, Operation
from hwd_drivers.core.errors import ConfigError

GROUP: Final = "hwd.shims"
"""The entry points that declare shims."""


@dataclass(frozen=True, slots=True)
class Go:
    """Send: nobody is asked, and no socket is touched."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the control plane of the job, and wait for its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """Set switches of this host, `{"sel0": "in-2"}`, and wait until their links are up, for `within_s` at most."""

    positions: Mapping[str, str]
    within_s: float = 1.0


@dataclass(frozen=True, slots=True)
class SendOver:
    """Send over this NIC port of the host; nobody is asked."""

    port: str


Before = Go | Ask | Select | SendOver


class Shim(Protocol):
    """The shim of one rank. All ranks of a group must decide alike, or those that go wait for those that ask."""

    def before(self, operation: Operation) -> Before:
        """The rank is about to send."""
        ...

    def after(self, operation: Operation) -> Go | Select:
        """The operation has completed, on the wire and not only in the call that began it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimKind:
    """A kind of shim, as a package declares it. `make` gets the arguments, the number of the rank, and the job."""

    make: Callable[[Mapping[str, str], int, JobJoined], Shim]
    arguments: tuple[str, ...] = field(default=())


class _Always:
    def __init__(self, before: Go | Ask) -> None:
        self._before = before

    def before(self, operation: Operation) -> Before:
        return self._before

    def after(self, operation: Operation) -> Go:
        return Go()


ASK = ShimKind(make=lambda arguments, rank, job: _Always(Ask()))
"""Every operation is asked for."""
GO = ShimKind(make=lambda arguments, rank, job: _Always(Go()))
"""None is: the light stays as it is."""


def find(text: str, rank: int, job: JobJoined) -> Shim:
    """The shim that `text` names, `every-other from=3`. Raises ConfigError where it cannot be had here."""
    name, *words = text.split() or ["ask"]
    points = entry_points(group=GROUP, name=name)
    if not points:
        known = ", ".join(sorted({point.name for point in entry_points(group=GROUP)}))
        raise ConfigError(f"shim {name!r}: not installed on this host; there are {known or 'none'}")
    try:
        kind = next(iter(points)).load()
    except Exception as error:  # the package's own code
        raise ConfigError(f"shim {name!r}: its entry point cannot be loaded: {error!r}") from error
    if not isinstance(kind, ShimKind):
        raise ConfigError(f"shim {name!r}: its entry point is no ShimKind")
    arguments = {key: value for key, _, value in (word.partition("=") for word in words)}
    if strange := [argument for argument in arguments if argument not in kind.arguments]:
        raise ConfigError(f"shim {name}: takes no {', '.join(strange)}; it takes {', '.join(kind.arguments) or 'none'}")
    return kind.make(arguments, rank, job)
