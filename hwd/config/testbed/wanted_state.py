"""The wanted state in one text: a named topology with arguments, or crossconnects.

The text is never the name of a file here: programs that may read a file send its content.

| text | means |
|---|---|
| `ring hosts=h0,h1 rail=0` | a topology that is generated |
| `h0.eth0<->h2.eth0,h0.eth1<->h3.eth0` | links between NIC ports, with commas or blanks between them |
| `ocs1:1A-2B,3A-4B` | crossconnects; more switches after a blank: `ocs1:1A-2B ocs2:3A-4B` |
| `ocs1:1A..4A-9B..12B` | a range: 1A-9B, 2A-10B, 3A-11B, 4A-12B |
| `ocs1:none` | no crossconnect at all on this switch |
| `ocs1:1A-none` | no crossconnect at this end; a range as `ocs1:1A..4A-none` |
"""

import re
from collections.abc import Iterator

from hwd.config import topologies
from hwd.config.testbed.ends import ports_in
from hwd.config.yaml.file_problem import nearest
from hwd.model.demand import DemandKey, DemandMatrix
from hwd.model.link import Link, SwitchCrossconnect, SwitchEnd
from hwd.model.nic_port import NicPortId
from hwd.model.plural import plural
from hwd.model.request import WantedState
from hwd.model.testbed import Testbed
from hwd.topology.demand import demand_key
from hwd.topology.generate import generate
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, PortSide

TEXT_LENGTH_MAX = 100_000
NONE = "none"
ARROW = "<->"

_PAIRS = re.compile(r"[A-Za-z][A-Za-z0-9_-]*:")


def parse_what(text: str, testbed: Testbed, *, demand: DemandMatrix | None = None) -> WantedState:
    """Raises ConfigError where it means nothing on this testbed. Opens no file, whatever the text: the daemon passes
    text from HTTP. `demand`: the one of `stored_demand`.
    """
    if len(text) > TEXT_LENGTH_MAX:
        raise ConfigError(f"{text[:40]}...: {len(text)} characters are over the {TEXT_LENGTH_MAX} of one request")
    text = " ".join(text.split())
    if not text:
        raise ConfigError(
            "nothing asked for; "
            f"name a topology file, a topology ({', '.join(topologies.names())}), links such as h0.eth0<->h2.eth0, "
            "or pairs such as ocs1:1A-2B"
        )
    if is_file(text):
        raise ConfigError(f"what: {text} is a file of the caller; send its name and text as `file`")
    if ARROW in text:
        return WantedState(name=text, links=tuple(_links(text, testbed)))
    if _PAIRS.match(text):
        pairs, emptied = _split_emptied(text, testbed)
        crossconnects, freed = _pairs_and_freed(pairs, testbed) if pairs else ((), ())
        return WantedState(name=text, crossconnects=crossconnects, emptied=emptied, freed=freed)
    name, *words = text.split()
    if name not in topologies.names():
        raise ConfigError(
            f"{name!r} is no topology, no file (.yaml), no links (h0.eth0<->h2.eth0) and no pairs (ocs1:1A-2B); "
            f"{nearest(name, topologies.names())}"
        )
    arguments: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise ConfigError(f"{text}: {word!r} is no argument; write hosts=h0,h1 rail=0")
        if key in arguments:
            raise ConfigError(f"{text}: argument {key} is repeated")
        arguments[key] = value
    topology = generate(name, topologies.find(name), testbed, arguments, draws=Draws, stored=demand)
    return WantedState(name=topology.name, links=topology.links)


def stored_demand(text: str) -> DemandKey | None:
    """The stored demand that this text names, to be looked up before `parse_what`: `mfabric demand=moe layer=3`.

    None where it names none. Raises ConfigError where it names none that can be.
    """
    name, *words = text[:TEXT_LENGTH_MAX].split() or ("",)
    if name not in topologies.names():
        return None
    arguments = {key: value for key, _, value in (word.partition("=") for word in words)}
    return demand_key(name, arguments) if "demand" in topologies.find(name).takes else None


def is_file(text: str) -> bool:
    """Whether the text names a topology file, for programs that may read one: the command line, and a playbook with its
    included files.
    """
    return text.endswith((".yaml", ".yml"))


def _links(text: str, testbed: Testbed) -> Iterator[Link]:
    """The links of `h0.eth0 <-> h2.eth0, h0.eth1<->h3.eth0`. Raises ConfigError where the testbed has no such port, or
    one is named twice.
    """
    known = {port.id: None for port in testbed.ports()}
    used: dict[NicPortId, Link] = {}
    for item in re.split(r"[,\s]+", re.sub(rf"[ ]?{ARROW}[ ]?", ARROW, text)):
        if item.count(ARROW) != 1:
            raise ConfigError(f"{item or text!r} is no link; write h0.eth0<->h2.eth0, and others after a comma")
        link = Link.parse(item)
        for end in link.ends:
            if end not in known:
                raise ConfigError(f"{item}: no NIC port {end} in testbed {testbed.name}; {nearest(end, known)}")
            if end in used:
                raise ConfigError(f"{item}: {end} is in {used[end]} already; a NIC port is in one link at a time")
            used[end] = link
        yield link


def _pairs_and_freed(text: str, testbed: Testbed) -> tuple[tuple[SwitchCrossconnect, ...], tuple[SwitchEnd, ...]]:
    """Crossconnects and freed ends of `ocs1:1A-2B,3A-none`, ranges expanded; raises ConfigError where the switch cannot
    have them.
    """
    found: list[SwitchCrossconnect] = []
    freed: list[SwitchEnd] = []
    used: dict[tuple[str, PortSide], str] = {}
    switch = ""
    for item in re.split(r"[,\s]+", text):
        named, colon, pair = item.rpartition(":")
        switch = named if colon else switch
        if (known := testbed.ends.get(switch)) is None:
            raise ConfigError(
                f"{item}: {switch!r} is no switch of testbed {testbed.name}; {nearest(switch, testbed.askable)}"
            )
        for crossconnect, theirs in _written_out(pair):
            words = f"{theirs[0]}-{NONE}" if crossconnect is None else crossconnect
            for end in theirs:
                if end not in known:
                    ends = testbed.ends_of(switch)
                    raise ConfigError(
                        f"{switch}:{words}: {switch} has no {end}; its ends go from {ends[0]} to {ends[-1]}"
                    )
                if (switch, end) in used:
                    raise ConfigError(
                        f"{switch}:{words}: {end} is in {used[switch, end]} already; a fibre end takes one crossconnect"
                    )
                used[switch, end] = words
            if crossconnect is None:
                freed.append(SwitchEnd(switch=switch, end=theirs[0]))
            else:
                found.append(SwitchCrossconnect(switch=switch, crossconnect=crossconnect))
    return tuple(found), tuple(freed)


def _split_emptied(text: str, testbed: Testbed) -> tuple[str, tuple[str, ...]]:
    """The pairs, and the switches with `ocs1:none`."""
    pairs: list[str] = []
    emptied: list[str] = []
    last = ""
    for item in text.split():
        switch, colon, what = item.partition(":")
        if what != NONE:
            if not colon and emptied and last == emptied[-1]:
                raise ConfigError(f"{text}: {item} follows {last}:{NONE}; name its switch, such as {last}:{item}")
            pairs.append(item)
        elif switch not in testbed.askable:
            raise ConfigError(
                f"{item}: {switch!r} is no switch of testbed {testbed.name}; {nearest(switch, testbed.askable)}"
            )
        else:
            emptied.append(switch)
        last = switch if colon else last
    with_pairs = {item.partition(":")[0] for item in pairs if ":" in item}
    for switch in emptied:
        if switch in with_pairs:
            raise ConfigError(f"{text}: {switch} is named with pairs and with none; it can have one of them")
    return " ".join(pairs), tuple(dict.fromkeys(emptied))


def _written_out(text: str) -> Iterator[tuple[Crossconnect | None, tuple[PortSide, ...]]]:
    """Crossconnects with their ends; None with the end that shall be free."""
    left, dash, right = text.partition("-")
    if not dash or not (left and right):
        raise ConfigError(f"{text!r}: write a pair as 1A-2B, a range of them as 1A..4A-9B..12B")
    ones = ports_in(left)
    if right == NONE:
        yield from ((None, (one,)) for one in ones)
        return
    others = ports_in(right)
    if len(ones) != len(others):
        raise ConfigError(
            f"{text}: {left} are {plural(len(ones), 'port')} and {right} are {len(others)}; both must be as many"
        )
    for one, other in zip(ones, others, strict=True):
        crossconnect = Crossconnect.of(one, other)
        yield crossconnect, crossconnect.ends
