"""A plane as a guest: what it declares and answers, checked before anybody goes by it. A plane is typed by nobody."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.plane import (
    Action,
    Event,
    Fallback,
    Grant,
    Job,
    Plane,
    Prepare,
    Refuse,
    Route,
    StaticRoute,
    Switch,
    Target,
    View,
)
from hwd.planes.breach import Breach, PlaneError
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.printable import printable

ACTIONS_MOST: Final = 4096
"""Actions in one answer."""
GUEST_ERRORS: Final = (Exception, SystemExit, GeneratorExit)
"""What may come out of a plane: it ends nothing but itself. A KeyboardInterrupt is its user's."""
WHY_MOST: Final = 500
"""Characters of a value of a plane, or of an error that it raises, in a message."""


def targets_of(plane: Plane, job: Job, view: View) -> dict[str, Target]:
    """The targets that a plane declares. Raises PlaneError, and ConfigError where these hosts cannot have them."""
    try:
        declared: Mapping[Any, Any] = dict(plane.targets(job, view))
    except HwdError:
        raise
    except GUEST_ERRORS as error:
        raise _broken(error, "at its targets") from error
    for id, target in declared.items():
        if not isinstance(id, str) or not id or not _is_target(target):
            raise PlaneError(Breach.NO_ACTION, f"the target {_shown(id)}: {_shown(target)}")
    return dict(declared)


def answer_of(plane: Plane, event: Event) -> tuple[Action, ...]:
    """The answer of a plane to an event. Raises PlaneError."""
    try:
        actions: tuple[Any, ...] = tuple(islice(plane.on(event), ACTIONS_MOST + 1))
    except GUEST_ERRORS as error:
        raise _broken(error, f"at {event}") from error
    if len(actions) > ACTIONS_MOST:
        raise PlaneError(Breach.TOO_MUCH, f"over {ACTIONS_MOST} actions in one answer, at {event}")
    for action in actions:
        if not _is_sound(action):
            raise PlaneError(Breach.NO_ACTION, f"{_shown(action)} at {event}")
    return actions


def _broken(error: BaseException, where: str) -> PlaneError:
    if isinstance(error, MemoryError):
        return PlaneError(Breach.TOO_MUCH, f"it needs more memory than it may have, {where}")
    return PlaneError(Breach.RAISED, f"{_shown(error)} {where}")


def _shown(value: object) -> str:
    """Its repr, which is the plane's own code too."""
    try:
        return printable(repr(value), WHY_MOST)
    except GUEST_ERRORS as error:  # the name of its type is not the plane's code
        return f"a {type(value).__name__}, whose repr raises {type(error).__name__}"


def _is_sound(action: Any) -> bool:
    """Whether its fields are what they are said to be."""
    match action:
        case Grant(ranks=ranks) | Refuse(ranks=ranks):
            return _all(ranks, int) and isinstance(getattr(action, "why", ""), str)
        case Prepare(id=id, target=target):
            return _all((id,), str) and bool(id) and _is_target(target)
        case Switch(target=target):
            return isinstance(target, str)
        case Route(routes=routes):
            return _all(routes, StaticRoute)
        case Fallback(why=why):
            return isinstance(why, str)
    return False


def _is_target(target: Any) -> bool:
    return (
        isinstance(target, Target)
        and _all(target.links, Link)
        and _all(target.crossconnects, SwitchCrossconnect)
        and _all(target.routes, StaticRoute)
        and _all(target.ports, NicPortId)
    )


def _all(values: Any, kind: type) -> bool:
    """A tuple, which nobody changes any more, of such."""
    return isinstance(values, tuple) and all(isinstance(value, kind) for value in values)
