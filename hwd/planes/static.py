"""The plane that does the least: one topology for the whole job, and each group may go as soon as all have come."""

from collections.abc import Iterator, Mapping

from hwd.model.plane import (
    Action,
    Applied,
    Event,
    Grant,
    Intent,
    Job,
    NotReady,
    PlaneKind,
    Refuse,
    Switch,
    Target,
    View,
)
from hwd.planes.gathering import Gathering

ONLY = "static"
"""Its one target."""


class Static:
    """A control plane with one target, the text of a `topology`: `ring rail=0`."""

    def __init__(self, topology: str) -> None:
        self._topology = topology
        self._is_lit = False
        self._is_moving = False
        self._ready: list[int] = []

    def targets(self, job: Job, view: View) -> Mapping[str, Target]:
        self._gathering = Gathering(job.groups)
        return {ONLY: Target(links=view.topology(self._topology))}

    def on(self, event: Event) -> Iterator[Action]:
        match event:
            case Intent():
                ranks = self._gathering.come(event)
                if self._is_lit and ranks:
                    yield Grant(ranks=ranks)
                    return
                self._ready += ranks
                if not self._is_lit and not self._is_moving:
                    self._is_moving = True
                    yield Switch(target=ONLY)
            case Applied():
                self._is_lit, self._is_moving = True, False
                ready, self._ready = self._ready, []
                if ready:
                    yield Grant(ranks=tuple(ready))
            case NotReady(why=why):
                self._is_moving = False
                ready, self._ready = self._ready, []
                if ready:
                    yield Refuse(ranks=tuple(ready), why=why)
            case _:
                return


STATIC = PlaneKind(make=lambda arguments: Static(arguments.get("topology", "ring")), arguments=("topology",))
