"""Answers of the daemon: the JSON object as it was sent, with properties for the common fields.

Each has one line of text, and a table for notebooks.
"""

from html import escape
from typing import Any

from typing_extensions import override

from hwd.client.html_table import table


class Answer(dict[str, Any]):
    """A JSON object. It stays a dict, so that fields of a newer daemon are there and the command line
    prints what was sent.
    """

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    @override
    def __str__(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.items() if isinstance(value, str | int | float | bool))

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>"


class SwitchStatus(Answer):
    """A switch and the state that it reports."""

    @property
    def name(self) -> str:
        return str(self["switch"])

    @property
    def up(self) -> bool | None:
        """Whether the daemon is connected to it. None where a host drives the switch and its state is unknown."""
        return self["up"]  # type: ignore[no-any-return]

    @property
    def crossconnects(self) -> tuple[str, ...]:
        """Ids such as `1A-2B`, as the switch last reported them."""
        return tuple(str(one["id"]) for one in self["crossconnects"] or ())

    @property
    def blocked(self) -> tuple[str, ...]:
        """Ends that an override holds dark."""
        return tuple(self.get("blocked", ()))

    @override
    def __str__(self) -> str:
        state = f"down: {self['cause']}" if self.up is False else "up" if self.up else f"unknown: {self['cause']}"
        dark = f", {', '.join(self.blocked)} held dark" if self.blocked else ""
        return f"{self.name} {state}, {len(self.crossconnects)} crossconnects{dark}"


class CompositeStatus(Answer):
    """A composite switch: the crossconnects that its elements make together."""

    @property
    def name(self) -> str:
        return str(self["composite"])

    @property
    def away(self) -> tuple[str, ...]:
        """Switches of its elements that are down."""
        return tuple(self["away"])

    @property
    def crossconnects(self) -> tuple[str, ...]:
        return tuple(str(one["id"]) for one in self["crossconnects"])

    @override
    def __str__(self) -> str:
        state = f"{', '.join(self.away)} down" if self.away else "up"
        return f"{self.name} {state}, {len(self.crossconnects)} crossconnects"


class HostStatus(Answer):
    """A host, as its agent reports it."""

    @property
    def name(self) -> str:
        return str(self["host"])

    @property
    def up(self) -> bool:
        return bool(self["up"])

    @property
    def aligned(self) -> bool:
        """Whether its clock is aligned with the daemon's."""
        return self["clock"] is not None

    @property
    def ports(self) -> dict[str, Any]:
        return dict(self["ports"])

    @override
    def __str__(self) -> str:
        lit = sum(bool(port.get("carrier")) for port in self.ports.values())
        if not self.up:
            return f"{self.name} down: {self['cause']}"
        return f"{self.name} up, {lit} of {len(self.ports)} ports with carrier"


class HeldLease(Answer):
    """A lease in force."""

    @property
    def id(self) -> str:
        return str(self["lease"])

    @property
    def holder(self) -> str:
        return str(self["holder"])

    @property
    def ports(self) -> tuple[str, ...]:
        return tuple(self["ports"])

    @property
    def left_s(self) -> float:
        """Seconds until it expires. Infinite for the lease of a switch that belongs to a host: that one lasts until it
        is revoked.
        """
        return float("inf") if self["left_s"] is None else float(self["left_s"])

    @override
    def __str__(self) -> str:
        if self.get("kind") == "delegated":
            return f"lease {self.id} of {self.holder}, epoch {self['epoch']}, {self['state']}"
        return f"lease {self.id} of {self.holder} on {len(self.ports)} ports, {self.left_s:.0f} s left"


class HeldEnds(Answer):
    """Fibre ends that were blocked or unblocked, and all ends that the switch blocks since."""

    @property
    def ends(self) -> tuple[str, ...]:
        return tuple(self["ends"])

    @property
    def blocked(self) -> tuple[str, ...]:
        return tuple(self.get("blocked", ()))

    @override
    def __str__(self) -> str:
        return f"{self['switch']}: {', '.join(self.ends)} {self['to']}, {len(self.blocked)} ends held dark"


class MadePlan(Answer):
    """A plan: which crossconnects would move."""

    @property
    def hash(self) -> str:
        """What `apply_hash` takes."""
        return str(self["hash"])

    @property
    def empty(self) -> bool:
        """True where nothing moves."""
        return bool(self["empty"])

    @property
    def expected_s(self) -> float:
        return float(self["expected_s"])

    @override
    def __str__(self) -> str:
        moved = sum(not link["kept"] for link in self["links"])
        does = "nothing moves" if self.empty else f"{moved} links move, {len(self['dark'])} go dark"
        return f"plan {self.hash} ({self['what']}): {does}"

    @override
    def _repr_html_(self) -> str:
        moves = [(move["switch"], " ".join(move["remove"]), " ".join(move["add"])) for move in self["moves"]]
        links = [(link["link"], "stays" if link["kept"] else "moves") for link in self["links"]]
        return table(("switch", "removes", "adds"), moves, caption=str(self)) + table(("link", ""), links)


class Applied(Answer):
    """A reconfiguration: its outcome, or its progress."""

    @property
    def id(self) -> str:
        return str(self["reconfiguration"])

    @property
    def state(self) -> str:
        return str(self["state"])

    @property
    def outcome(self) -> str | None:
        """None while it is under way or awaits a confirm."""
        return self["outcome"]  # type: ignore[no-any-return]

    @property
    def links(self) -> tuple[str, ...]:
        return tuple(self["links"])

    @property
    def not_ready(self) -> tuple[str, ...]:
        """Links that were not measured ready within the time allowed."""
        return tuple(self["not_ready"])

    @property
    def plan(self) -> MadePlan | None:
        """What was applied; None where the answer is not that of an apply."""
        return MadePlan(self["plan"]) if "plan" in self else None

    @override
    def __str__(self) -> str:
        why = f": {self['why']}" if self["why"] else ""
        return f"{self.id} ({self['what']}) {self.outcome or self.state}{why}, {len(self.links)} links"


class LeftOpen(Answer):
    """A reconfiguration that was interrupted. It holds its ports until it is rolled back or finished."""

    @property
    def id(self) -> str:
        return str(self["reconfiguration"])

    @property
    def ports(self) -> tuple[str, ...]:
        return tuple(self["ports"])

    @override
    def __str__(self) -> str:
        return f"{self.id} ({self['what']}) left open: {self['why']}, {len(self.ports)} ports held"


class GivenUp(Answer):
    """An interrupted reconfiguration that an operator gave up: nothing tries to roll it back any more."""

    @property
    def id(self) -> str:
        return str(self["reconfiguration"])

    @property
    def left(self) -> tuple[str, ...]:
        """What each of its switches last reported, one text each: `ocs1: 1A-4B failed`."""
        return tuple(self["left"])

    @override
    def __str__(self) -> str:
        return f"{self.id} ({self['what']}) given up: {'; '.join(self.left)}"


class Started(Answer):
    """A run that was accepted: it is running, or in the queue."""

    @property
    def id(self) -> str:
        return str(self["run"])

    @override
    def __str__(self) -> str:
        return f"run {self.id} of {self['playbook']}, {self['steps']} steps"


class Ended(Answer):
    """The outcome of a run that was aborted."""

    @override
    def __str__(self) -> str:
        return f"run {self['run']} {self['outcome']}: {self['why']}"


class RecordedRun(Answer):
    """A run as the records have it."""

    @property
    def id(self) -> str:
        return str(self["id"])

    @property
    def playbook(self) -> str:
        return str(self["playbook"])

    @property
    def outcome(self) -> str | None:
        """None while the run is under way."""
        return self["outcome"]  # type: ignore[no-any-return]

    @property
    def seconds(self) -> float | None:
        """Seconds from its start to its end."""
        if self["started_wall_ns"] is None or self["ended_wall_ns"] is None:
            return None
        return float(self["ended_wall_ns"] - self["started_wall_ns"]) / 1e9

    @override
    def __str__(self) -> str:
        why = f": {self['why']}" if self["why"] else ""
        return f"run {self.id} {self.playbook} {self.outcome or self.get('state') or 'under way'}{why}"

    @override
    def _repr_html_(self) -> str:
        took = None if self.seconds is None else f"{self.seconds:.1f} s"
        parameters = ", ".join(f"{key}={value}" for key, value in self["parameters"].items())
        facts = [
            ("testbed", self["testbed"]),
            ("took", took),
            ("parameters", parameters),
            ("why", self["why"]),
            ("switches", self["safe_state"]),
        ]
        return table(("", str(self)), [fact for fact in facts if fact[1]])


class Status(Answer):
    """What `hwd status` shows: switches, hosts, links, leases, runs and reconfigurations."""

    @property
    def testbed(self) -> str:
        return str(self["testbed"])

    @property
    def switches(self) -> tuple[SwitchStatus, ...]:
        return tuple(SwitchStatus(one) for one in self["switches"])

    @property
    def composites(self) -> tuple[CompositeStatus, ...]:
        return tuple(CompositeStatus(one) for one in self.get("composites", ()))

    @property
    def hosts(self) -> tuple[HostStatus, ...]:
        return tuple(HostStatus(one) for one in self["hosts"])

    @property
    def links(self) -> dict[str, bool | None]:
        """Links that are lit, with whether both ends have carrier."""
        return {str(link["link"]): link["carrier"] for link in self["links"]}

    @property
    def leases(self) -> tuple[HeldLease, ...]:
        return tuple(HeldLease(one) for one in self["leases"])

    @property
    def reconfigurations(self) -> tuple[Applied, ...]:
        """Those under way."""
        return tuple(Applied(one) for one in self["reconfigurations"])

    @property
    def open(self) -> tuple[LeftOpen, ...]:
        """Interrupted reconfigurations. The daemon rolls each back as soon as nothing prevents it."""
        return tuple(LeftOpen(one) for one in self["open"])

    @property
    def settled(self) -> bool:
        """True where switches, agents and broker are connected, clocks are aligned, and no reconfiguration or run is
        under way or unfinished.
        """
        there = all(switch.up is not False for switch in self.switches) and all(
            host.up and host.aligned for host in self.hosts
        )
        return (
            there
            and bool(self["bus"]["connected"])
            and not self["runs"]
            and not (self["reconfigurations"] or self["open"] or self["held"])
        )

    @override
    def __str__(self) -> str:
        switches = f"{sum(bool(one.up) for one in self.switches)} of {len(self.switches)} switches up"
        hosts = f"{sum(one.up for one in self.hosts)} of {len(self.hosts)} hosts up"
        under_way = len(self["runs"]) + len(self["reconfigurations"])
        counts = f"{len(self.links)} links, {len(self.leases)} leases, {under_way} under way"
        return f"testbed {self.testbed}: {switches}, {hosts}, {counts}"

    @override
    def _repr_html_(self) -> str:
        rows: list[tuple[str, str, str]] = [("switch", one.name, str(one)) for one in self.switches]
        rows += [("composite", one.name, str(one)) for one in self.composites]
        rows += [("host", one.name, str(one)) for one in self.hosts]
        carrier = {True: "carrier", False: "no carrier", None: "unknown"}
        rows += [("link", link, carrier[up]) for link, up in self.links.items()]
        rows += [("lease", one.id, str(one)) for one in self.leases]
        rows += [("reconfiguration", one.id, str(one)) for one in self.reconfigurations]
        rows += [("reconfiguration", one.id, str(one)) for one in self.open]
        return table(("", "", "is"), rows, caption=str(self))
