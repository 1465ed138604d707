"""Events and actions of planes by their names, `{"grant": {"ranks": [0, 1]}}`: how they are recorded and sent."""

from typing import Any

from msgspec import Struct

from hwd.model.plane import (
    Action,
    Applied,
    Demand,
    Done,
    Event,
    Failure,
    Fallback,
    Grant,
    Intent,
    NotReady,
    Prepare,
    Recovery,
    Refuse,
    Route,
    Switch,
    Tick,
)


class DemandJson(Struct, frozen=True, kw_only=True):
    """A Demand: who has how many bytes for whom."""

    bytes_between: list[tuple[str, str, float]]


class NamedEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event, in the field of its name; all others are None."""

    intent: Intent | None = None
    done: Done | None = None
    demand: DemandJson | None = None
    failure: Failure | None = None
    recovery: Recovery | None = None
    applied: Applied | None = None
    notready: NotReady | None = None
    tick: Tick | None = None

    @classmethod
    def of(cls, event: Event) -> "NamedEvent":
        match event:
            case Demand(bytes_between=sizes):
                return cls(demand=DemandJson(bytes_between=[(*pair, size) for pair, size in sizes.items()]))
            case _:
                fields: dict[str, Any] = {type(event).__name__.lower(): event}
                return cls(**fields)

    @property
    def event(self) -> Event:
        """Raises ValueError where it has no name, or several."""
        if self.demand is not None:
            sizes = self.demand.bytes_between
            return Demand(bytes_between={(one, other): size for one, other, size in sizes})
        events = (self.intent, self.done, self.failure, self.recovery, self.applied, self.notready, self.tick)
        (event,) = (one for one in events if one is not None)
        return event


class NamedAction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An action, in the field of its name; all others are None."""

    prepare: Prepare | None = None
    switch: Switch | None = None
    grant: Grant | None = None
    refuse: Refuse | None = None
    route: Route | None = None
    fallback: Fallback | None = None

    @classmethod
    def of(cls, action: Action) -> "NamedAction":
        fields: dict[str, Any] = {type(action).__name__.lower(): action}
        return cls(**fields)

    @property
    def action(self) -> Action:
        """Raises ValueError where it has no name, or several."""
        actions = (self.prepare, self.switch, self.grant, self.refuse, self.route, self.fallback)
        (action,) = (one for one in actions if one is not None)
        return action
