"""The last reports of the switches, from documents, for the status screen."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from hwd.model.testbed import Switch
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.core.values import Crossconnect, PortOverride, PortSide, natural_key

OVERRUNS_KEPT = 8
"""Of each switch; older ones are in the records."""


class Switchboard:
    """A `Sink` with the last report of each switch; `up` false says that it may be old.

    `up` is None for a switch of a host whose state is unknown. `missing` of a restart: crossconnects that it took,
    until they or others are made at their ends.
    """

    TAKES: ClassVar = (
        "switch.up",
        "switch.down",
        "switch.unknown",
        "switch.restarted",
        "switch.read",
        "switch.power",
        "switch.override",
        "switch.overrun",
    )

    def __init__(self, switches: Mapping[str, Switch]) -> None:
        self._switches: dict[str, dict[str, Json]] = {
            name: {
                "switch": name,
                "owner": switch.owner,
                "up": False if switch.owner is None else None,
                "cause": "no session yet"
                if switch.owner is None
                else f"nothing was heard of it from host {switch.owner}",
                "vendor": None,
                "model": None,
                "serial": None,
                "firmware": None,
                "crossconnects": [],
                "power_dbm": {},
                "blocked": [],
                "overruns": [],
                "restart": None,
            }
            for name, switch in switches.items()
        }

    def __call__(self, document: Document) -> None:
        name = document.data.get("switch")
        switch = self._switches.get(name) if isinstance(name, str) else None
        if switch is None:
            return
        match document.kind:
            case "switch.up":
                switch |= {key: document.data[key] for key in ("vendor", "model", "serial", "firmware")}
                switch |= {"up": True, "cause": "", "blocked": []}
            case "switch.down":
                switch |= {"up": False, "cause": document.data["cause"]}
            case "switch.unknown":
                switch |= {
                    "up": None,
                    "cause": document.data["cause"],
                    "crossconnects": [],
                    "power_dbm": {},
                    "blocked": [],
                }
            case "switch.restarted":
                told = {key: document.data[key] for key in ("sign", "lost", "uptime_s", "unheard_s")}
                switch["restart"] = {"wall_ns": document.wall_ns, **told, "missing": told["lost"]}
            case "switch.read":
                switch["crossconnects"] = document.data["crossconnects"]
                if isinstance(restart := switch["restart"], dict):
                    taken = _ends(_texts(document.data["added"]))
                    missing = [one for one in _texts(restart["missing"]) if taken.isdisjoint(_ends([one]))]
                    switch["restart"] = {**restart, "missing": missing}
            case "switch.override":
                there, ends = _texts(switch["blocked"]), _texts(document.data["ends"])
                blocked = document.data["to"] == PortOverride.FORCE_BLOCKED
                held = {*there, *ends} if blocked else {*there}.difference(ends)
                switch["blocked"] = [*sorted(held, key=natural_key)]
            case "switch.overrun":
                told = {key: document.data[key] for key in ("reconfiguration", "lost", "window_s")}
                overruns = switch["overruns"] if isinstance(switch["overruns"], list) else []
                switch["overruns"] = [*overruns, {"wall_ns": document.wall_ns, **told}][-OVERRUNS_KEPT:]
            case "switch.power":
                before, now = switch["power_dbm"], document.data["power_dbm"]
                if isinstance(before, Mapping) and isinstance(now, Mapping):
                    switch["power_dbm"] = {**before, **now}

    def to_data(self) -> list[dict[str, Json]]:
        """In the order of the testbed file."""
        return [dict(switch) for switch in self._switches.values()]


def _ends(crossconnects: Iterable[str]) -> frozenset[PortSide]:
    return frozenset(end for one in crossconnects for end in Crossconnect.parse(one).ends)


def _texts(value: Json) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []
