"""TargetRules: what the targets and actions of a plane may be; and Breach, PlaneError: what none may do."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Fallback, Grant, Job, Plane, Prepare, Refuse, Route, StaticRoute, Switch, Target, View
from hwd_drivers.core.errors import FailedError, HwdError

FALLBACK: Final = "fallback"
"""The id of the target that a Fallback switches to; no plane may name one of its own so."""
MOST_TARGETS: Final = 4096


class Breach(StrEnum):
    """A breach of the rules by a plane."""

    UNDECLARED = "undeclared target"
    """The plane switches to a target that it has not declared, or that has gone."""
    OVERLAP = "overlapping ports"
    """A NIC port, or a fibre end, is in two links, or crossconnects, of one target."""
    FOREIGN = "foreign port"
    """A target, or a route, uses a port that is not the job's."""
    EARLY_GRANT = "grant before applied"
    """The plane lets a rank send over ports that are moving, or where no light that was seen ready joins its group."""
    UNDER_TRANSFER = "switch under a transfer"
    """The plane moves ports over which a rank sends."""
    NO_ANSWER = "never answers"
    """Ranks wait, and nothing is left that could let them go."""
    RAISED = "raises"
    """An exception came out of it."""
    NOT_DETERMINISTIC = "not deterministic"
    """The plane answered the same job, view and events with other actions."""
    NOT_WAITING = "answer to nobody"
    """The plane answers a rank that does not wait."""
    MOVING = "switch while moving"
    """The plane switches ports that are on the way to another target already: that was neither applied nor not ready
    yet.
    """
    NOT_ALLOWED = "fallback that is not allowed"
    """The policy of the job has none."""
    NO_ACTION = "no action"
    """The plane answers with what is no action, or with targets that are none."""


class PlaneError(FailedError):
    """A plane broke a rule."""

    title = "a control plane broke a rule"

    def __init__(self, breach: Breach, what: str) -> None:
        super().__init__(f"{breach}: {what}")
        self.breach = breach
        self.what = what


class TargetRules:
    """The rules for the targets of one plane. Each raises PlaneError."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._has_regions = self._has_crossconnects = False

    def declared(self, plane: Plane, job: Job) -> dict[str, Target]:
        """The targets that a plane lists."""
        try:
            declared: Mapping[Any, Any] = dict(plane.targets(job, self._view))
        except HwdError:
            raise  # the hosts cannot have a topology that it asked for
        except Exception as error:
            raise PlaneError(Breach.RAISED, f"{error!r} at its targets") from error
        for id, target in declared.items():
            if not isinstance(id, str) or not id or not _is_target(target):
                raise PlaneError(Breach.NO_ACTION, f"the target {id!r}: {target!r}")
        if FALLBACK in declared:
            raise PlaneError(Breach.NO_ACTION, f"a target of its own that is named {FALLBACK}")
        if len(declared) > MOST_TARGETS:
            raise PlaneError(Breach.NO_ACTION, f"{len(declared)} targets, over the {MOST_TARGETS} that there may be")
        return dict(declared)

    def check(self, id: str, target: Target) -> None:
        taken: set[object] = set()
        for link in target.links:
            for end in link.ends:
                if end not in self._view.ports:
                    raise PlaneError(Breach.FOREIGN, f"{end} in {link} of target {id}")
                if end in taken:
                    raise PlaneError(Breach.OVERLAP, f"{end} in two links of target {id}")
                if target.ports and end not in target.ports:
                    raise PlaneError(Breach.OVERLAP, f"{end} in {link} is not among the ports of target {id}")
                taken.add(end)
        if strange := {*target.ports} - self._view.ports.keys():
            raise PlaneError(Breach.FOREIGN, f"{words(strange)} among the ports of target {id}")
        if target.ports and (target.crossconnects or target.routes):
            raise PlaneError(Breach.NO_ACTION, f"target {id} is one of a region, and has more than links")
        if len({*target.ports}) < len(target.ports):
            raise PlaneError(Breach.OVERLAP, f"a port twice among the ports of target {id}")
        self._has_regions |= bool(target.ports)
        self._has_crossconnects |= bool(target.crossconnects)
        if self._has_regions and self._has_crossconnects:  # which ports a crossconnect lights is not known here
            raise PlaneError(Breach.NO_ACTION, f"target {id}: a plane has regions or crossconnects, not both")
        for one in target.crossconnects:
            for side in one.crossconnect.ends:
                if f"{one.switch}.{side.port}" not in self._view.ends:
                    raise PlaneError(Breach.FOREIGN, f"{one.switch}.{side.port} in {one} of target {id}")
                if (one.switch, side) in taken:
                    raise PlaneError(Breach.OVERLAP, f"{one.switch}:{side} in two crossconnects of target {id}")
                taken.add((one.switch, side))
        self.check_routes(f"target {id}", target.routes)

    def check_routes(self, where: str, routes: Iterable[StaticRoute]) -> None:
        known = {*self._view.ports, *self._view.electrical}
        for route in routes:
            for port in (route.to, route.port, *([route.via] if route.via is not None else [])):
                if port not in known:
                    raise PlaneError(Breach.FOREIGN, f"{port} in a route of {where}")
            if route.port.host != route.host:
                raise PlaneError(Breach.FOREIGN, f"{route.port} is no port of {route.host}, in a route of {where}")


def is_sound(action: Any) -> bool:
    """Whether its fields are what they are said to be: a plane is anybody's, and is typed by nobody."""
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


def words(ports: Iterable[NicPortId]) -> str:
    return ", ".join(map(str, sorted(ports, key=NicPortId.sort_key)))
