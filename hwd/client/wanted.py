"""The arguments of the calls `plan` and `apply`, and the body that is sent for them."""

from collections.abc import Iterable
from typing import Any, TypedDict, TypeVar

from hwd.model.bodies import File, PlanBody

BodyT = TypeVar("BodyT", bound=PlanBody)


class Waits(TypedDict, total=False):
    """The waits of an apply that a plan may leave open."""

    drain_within_s: float | None
    """How long to wait for the end of transfers on ports that it moves; None: they refuse it."""


class Wanted(TypedDict, total=False):
    """The fields of `PlanBody`, with the defaults that it has."""

    what: str
    """As on the command line: `ring hosts=h0,h1`."""
    file: tuple[str, str] | None
    """Name and text of a topology file, in place of `what`."""
    restore: list[str] | None
    """In place of `what`: the desired state of these switches and ports, of all where it is empty."""
    before: str | None
    """In place of `what`: the state before this reconfiguration."""
    mode: str
    """safe, update or overwrite, as a text or as `ApplyMode`."""
    lease: str | None
    epoch: int | None
    """The epoch of the lease; the request is refused where another one is in force."""
    ready_within_s: float | None
    """None: do not wait until the links are ready."""
    confirm_within_s: float | None
    """None: it is confirmed as soon as it is ready."""
    steps: bool
    """True: in the order in which the fewest links are dark at once, one step after the other."""
    drain_within_s: float | None
    """See `Waits`."""
    overrides: dict[str, str]
    """Interlocks that shall not refuse it, each with the reason: `{"loss-budget": "measured by hand"}`."""


def waits_of(wanted: Wanted) -> Waits:
    """The waits among the fields of a request that a plan may leave open."""
    return {"drain_within_s": wanted.get("drain_within_s")}


def body_of(kind: type[BodyT], wanted: Waits, *, names: Iterable[str] = Wanted.__annotations__, **more: Any) -> BodyT:
    """The body of a call. Only the daemon checks its values. Raises TypeError for a name that is not in `names`."""
    if unknown := sorted(wanted.keys() - names):
        raise TypeError(f"unexpected keyword argument: {', '.join(unknown)}. There are {', '.join(names)}")
    fields: dict[str, Any] = {**wanted, **more}
    if (file := fields.get("file")) is not None:
        name, text = file
        fields["file"] = File(name=name, text=text)
    return kind(**fields)
