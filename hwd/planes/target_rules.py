"""TargetRules: what the targets of a plane may be."""

from collections.abc import Iterable, Mapping
from typing import Final

from hwd.model.nic_port import NicPortId
from hwd.model.plane import StaticRoute, Target, View
from hwd.planes.breach import Breach, PlaneError

FALLBACK: Final = "fallback"
"""The id of the target that a Fallback switches to; no plane may name one of its own so."""
MOST_TARGETS: Final = 4096


class TargetRules:
    """The rules for the targets of one plane. Each raises PlaneError."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._has_regions = self._has_crossconnects = False

    def declared(self, targets: Mapping[str, Target]) -> dict[str, Target]:
        """The targets that a plane lists."""
        if FALLBACK in targets:
            raise PlaneError(Breach.NO_ACTION, f"a target of its own that is named {FALLBACK}")
        if len(targets) > MOST_TARGETS:
            raise PlaneError(Breach.NO_ACTION, f"{len(targets)} targets, over the {MOST_TARGETS} that there may be")
        return dict(targets)

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


def words(ports: Iterable[NicPortId]) -> str:
    return ", ".join(map(str, sorted(ports, key=NicPortId.sort_key)))
