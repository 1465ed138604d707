"""Values from their texts, and with their usual fields, for tests that write many."""

from collections.abc import Mapping
from typing import Any, TypeVar

from hwd.model.host import HostEvent, HostPort
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.reconfiguration import ReconfigurationStarted
from hwd.model.timeline import Timeline
from hwd_agents.wire import Birth, Inventory
from hwd_drivers.core.values import Crossconnect, PortSide

T = TypeVar("T")


def pairs_of(*texts: str) -> list[Crossconnect]:
    return [*map(Crossconnect.parse, texts)]


def ends_of(*texts: str) -> list[PortSide]:
    return [*map(PortSide.parse, texts)]


def links_of(*texts: str) -> list[Link]:
    return [*map(Link.parse, texts)]


def switch_pairs_of(*texts: str, switch: str = "") -> list[SwitchCrossconnect]:
    """`switch`: that of all, where the texts do not name it."""
    return [SwitchCrossconnect.parse(f"{switch}:{text}" if switch else text) for text in texts]


def by_end(found: Mapping[str, T]) -> dict[PortSide, T]:
    return {PortSide.parse(end): one for end, one in found.items()}


def host_port(**changed: Any) -> HostPort:
    """A port with its carrier, of which no more is known."""
    usual: dict[str, Any] = {"interface": "eth0", "present": True, "carrier": True, "carrier_changes": 0, "sources": {}}
    return HostPort(**{**usual, "ip": None, "probe_port": None, "rdma": None, **changed})


def birth_message(**changed: Any) -> Birth:
    """That of an agent of h0 which has let nothing go."""
    who: dict[str, Any] = {"boot": "b", "seq": 1, "host": "h0", "testbed": "lab", "version": "0.1.0", "at_ns": 1}
    spool = {"spool_oldest_seq": 1, "spool_next_seq": 1, "spool_lost": 0}
    return Birth(**{**who, **spool, "ports": {}, "inventory": Inventory(), **changed})


def event_of(end: str, type: str, at_ns: int, error_ns: int, data: object, **changed: Any) -> HostEvent:
    """An event that was at a time, give or take an error."""
    host, _, port = end.partition(".")
    times: dict[str, Any] = {"earliest_ns": at_ns - error_ns, "latest_ns": at_ns + error_ns, "best_ns": at_ns}
    usual = {**times, "agent_ns": at_ns, "boot": "b", "seq": 1, "origin": "kernel", "source": "link"}
    return HostEvent(host=host, port=port, type=type, data=data, **{**usual, **changed})


def reconfiguration_started(id: str = "r1", **changed: Any) -> ReconfigurationStarted:
    usual: dict[str, Any] = {"run": None, "hash": "", "what": "pairs", "links": [], "moves": []}
    return ReconfigurationStarted(reconfiguration=id, **{**usual, **changed})


def timeline_of(id: str = "r1", **changed: Any) -> Timeline:
    """Nothing happened in it but what is stated."""
    usual: dict[str, Any] = {"run": None, "what": "", "commands": [], "ends": [], "links": [], "breaches": []}
    return Timeline(reconfiguration=id, **{**usual, **changed})
