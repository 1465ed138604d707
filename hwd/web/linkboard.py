"""Light and carrier of links and hosts, from documents, for the status screen."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from hwd.fabric.fabric import Fabric
from hwd.model.link import Link
from hwd.model.testbed import NicPortId
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, natural_key

Switches = Callable[[], list[dict[str, Json]]]


class Linkboard:
    """A `Sink`. A carrier is None until the agent of its host reports it, and again while that agent is away."""

    TAKES: ClassVar = ("host.birth", "host.down", "host.event")

    def __init__(self, fabric: Fabric, switches: Switches) -> None:
        self._fabric = fabric
        self._switches = switches
        self._ports: dict[str, dict[str, dict[str, Json]]] = {}
        self._boots: dict[str, str] = {}

    def __call__(self, document: Document) -> None:
        data = document.data
        match document.kind:
            case "host.birth":
                ports = data["ports"]
                assert isinstance(ports, Mapping)
                self._boots[str(data["host"])] = str(data["boot"])
                self._ports[str(data["host"])] = {
                    name: dict(port) for name, port in ports.items() if isinstance(port, Mapping)
                }
            case "host.down":
                for away in self._ports.get(str(data["host"]), {}).values():
                    away |= {"carrier": None, "carrier_changes": None, "rdma": None}
            case "host.event" if data.get("past") or data["boot"] != self._boots.get(str(data["host"])):
                return  # of an earlier boot, whose spool is read to its end: its carriers are over
            case "host.event" if data["type"] == "rdma" and isinstance(data["data"], Mapping):
                port = self._ports.get(str(data["host"]), {}).get(str(data["port"]))
                if port is not None:
                    port["rdma"] = data["data"].get("active")
            case "host.event" if data["type"] in ("carrier", "interface") and isinstance(data["data"], Mapping):
                port = self._ports.get(str(data["host"]), {}).get(str(data["port"]))
                if port is not None:
                    port.update({key: data["data"][key] for key in ("carrier", "present") if key in data["data"]})
                    if port.get("present") is False:
                        port["carrier"] = False

    def ports(self, host: str) -> dict[str, Json]:
        """Ports of a host by name, from the birth and the events of its agent."""
        return {name: dict(port) for name, port in self._ports.get(host, {}).items()}

    def links(self) -> list[dict[str, Json]]:
        """[{link, carrier, away}] of all links that crossconnects make now; `carrier`: both ends have it.

        `away`: switches on a link's way that are down. Nobody knows then whether there is light, and `carrier` is None.
        """
        switches = [switch for switch in self._switches() if switch["up"] is not None]
        down = {str(switch["switch"]) for switch in switches if not switch["up"]}
        state = {str(switch["switch"]): frozenset(_crossconnects(switch["crossconnects"])) for switch in switches}
        told: list[dict[str, Json]] = []
        for routed in self._fabric.routed_of(state):
            away = sorted(down.intersection(one.switch for one in routed.crossconnects), key=natural_key)
            carrier = None if away else self._carrier(routed.link)
            told.append({"link": str(routed), "carrier": carrier, "away": list[Json](away)})
        return told

    def composites(self) -> list[dict[str, Json]]:
        """[{composite, switches, away, crossconnects: [{id, state}]}]; `away`: switches that are down."""
        if not self._fabric.composites:
            return []
        switches = {str(switch["switch"]): switch for switch in self._switches()}
        state = {name: _readings(switch["crossconnects"]) for name, switch in switches.items()}
        return [
            {
                "composite": name,
                "switches": [*composite.inside.switches],
                "away": [one for one in composite.inside.switches if not switches[one]["up"]],
                "crossconnects": [{"id": str(one.demand), "state": one.state} for one in composite.standing(state)],
            }
            for name, composite in self._fabric.composites.items()
        ]

    def _carrier(self, link: Link) -> bool | None:
        ends = [self._end(end) for end in link.ends]
        return None if None in ends else all(ends)

    def _end(self, end: NicPortId) -> bool | None:
        carrier = self._ports.get(end.host, {}).get(end.port, {}).get("carrier")
        return carrier if isinstance(carrier, bool) else None


def _crossconnects(told: Json) -> list[Crossconnect]:
    assert isinstance(told, list | tuple)
    return [Crossconnect.parse(str(one["id"])) for one in told if isinstance(one, Mapping)]


def _readings(told: Json) -> list[CrossconnectReading]:
    assert isinstance(told, list | tuple)
    return [
        CrossconnectReading(crossconnect=Crossconnect.parse(str(one["id"])), state=CrossconnectState(str(one["state"])))
        for one in told
        if isinstance(one, Mapping)
    ]
