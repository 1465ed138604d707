"""Explains why a circuit has no path: the first obstacle, in words."""

from collections.abc import Iterable, Mapping

from hwd.fabric.graph import Graph
from hwd.fabric.hops import Hops
from hwd.fabric.path import EndsInUse, find_path
from hwd_drivers.core.values import FibreEnd, natural_key

SWAPPED = "Are its two fibres swapped?"


def explain(hops: Hops, source: FibreEnd, target: FibreEnd, *, taken: EndsInUse, barred: Mapping[FibreEnd, str]) -> str:
    """One sentence with a remedy; for circuits without a path."""
    graph = hops.graph
    for end in (source, target):
        if graph.strand_at(end) is None:
            return f"{end} has no fibre. Add it under `fibres`"
    starts, lasts = graph.legs.get(source, ()), graph.into.get(target, ())
    packet = graph.testbed.packet_switches
    if away := [leg.end for leg in starts if leg.end.owner in packet]:
        return f"{source} goes to {away[0]} of a packet switch, which is not driven"
    if away := [leg.start for leg in lasts if leg.start.owner in packet]:
        return f"{target} is fed by {away[0]} of a packet switch, which is not driven"
    if not starts:
        return f"the fibre of {source} leads to {_far(graph, source)}, where no light can enter. {SWAPPED}"
    if not lasts:
        return f"the fibre of {target} comes from {_far(graph, target)}, where no light can leave. {SWAPPED}"
    entries, outs = [leg.end for leg in starts], [leg.start for leg in lasts]
    if find_path(hops, source, target, taken=EndsInUse(), barred=barred):
        return _in_use(taken, entries, outs)
    if find_path(hops, source, target, taken=EndsInUse(), barred={}):
        return _out_of_order(graph, barred, entries, outs)
    return _not_joined(hops, entries, outs)


def _far(graph: Graph, end: FibreEnd) -> FibreEnd:
    strand = graph.strand_at(end)
    return strand.other(end) if strand else end


def _in_use(taken: EndsInUse, entries: Iterable[FibreEnd], outs: Iterable[FibreEnd]) -> str:
    for end in (*entries, *outs):
        if crossconnect := taken.ends.get(end):
            return f"{end} is used by {crossconnect} of another wanted link"
    return (
        "all fibres between the switches on the path are used by other wanted links. Add some, or ask for fewer links"
    )


def _out_of_order(
    graph: Graph, barred: Mapping[FibreEnd, str], entries: Iterable[FibreEnd], outs: Iterable[FibreEnd]
) -> str:
    for end in (*entries, *outs):
        if end in barred:
            port = f"{end.owner}.{end.port}"
            return (
                f"port {port} is reserved ({barred[end]}). Set its state to normal under `ports`, or use another port"
            )
    names = ", ".join(sorted({f"{end.owner}.{end.port}" for end in barred}, key=natural_key))
    return f"all paths lead through ports that are reserved ({names}). Set one of them to normal under `ports`"


def _not_joined(hops: Hops, entries: list[FibreEnd], outs: list[FibreEnd]) -> str:
    for entry in entries:
        for out in outs:
            station = hops.station(entry)
            if station == hops.station(out) and not hops.joinable(entry, out):
                return f"{station} cannot join {hops.port(entry)} to {hops.port(out)}: it joins {_rule(hops, station)}"
    into, out_of = (", ".join(sorted(set(ends), key=natural_key)) for ends in (entries, outs))
    return f"the light enters at {into} and would have to leave at {out_of}, and no fibre joins the two switches"


def _rule(hops: Hops, switch: str) -> str:
    graph = hops.graph
    if switch in hops.composites:
        return "what its elements and the fibres between them lead to each other"
    if switch in graph.elements:
        return "ends of one element only"
    if graph.testbed.switches[switch].capabilities.two_sided:
        return "side A to side B"
    return "its end `in` to one of the others"
