"""Polatis over NETCONF without I/O: operations to send, and the contents of replies.

Paths as in the vendor's YANG modules optical-switch 2018-03-22 and polatis-switch 2017-09-11 (README.md has their
sources). Ports are the unit's own numbers here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import Element, SubElement

from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import AttenuationMode, Identity
from hwd_drivers.families.polatis.netconf import xml
from hwd_drivers.families.polatis.netconf.messages import BASE, BASE_1_0, BASE_1_1, Reply, capability_names
from hwd_drivers.families.polatis.settings import VoaSetting

DEFAULT_PORT: Final = 830
OPSW: Final = "http://www.polatis.com/yang/optical-switch"
PLTS: Final = "http://www.polatis.com/yang/polatis-switch"
OPSW_REVISION: Final = "2018-03-22"
PLTS_REVISION: Final = "2017-09-11"
PAIR_SINCE: Final = "2017-08-04"
"""Modules older than this call the list of crossconnects `pairs`, newer ones `pair`."""
OLD_REVISION: Final = "2017-02-09"
"""The last one before PAIR_SINCE. It has the container `ports`, not port-config, opm-power, voa, port-set-state."""
OLD_STATES: Final = ("PC_ENABLED", "PC_DISABLED")
CLIENT_CAPABILITIES: Final = (BASE_1_0, BASE_1_1)

VOA_MODES: Final[Mapping[AttenuationMode, str]] = {mode: f"VOA_MODE_{mode.name}" for mode in AttenuationMode}


def list_name(capabilities: Sequence[str]) -> str:
    """The name of the list of crossconnects in a unit's modules: `pair`, or `pairs` in old ones."""
    revision = capability_names(capabilities).get(OPSW, {}).get("revision", OPSW_REVISION)
    return "pair" if revision >= PAIR_SINCE else "pairs"


def to_level(mode: AttenuationMode, level: float) -> float:
    """Convert between our relative level, in dB below the reference port, and the unit's, an offset to it."""
    return -level if mode is AttenuationMode.RELATIVE else level


# --- operations


def get(*parts: Element) -> Element:
    """Read everything under these parts of the unit's data."""
    operation = Element(f"{{{BASE}}}get")
    SubElement(operation, f"{{{BASE}}}filter", {"type": "subtree"}).extend(parts)
    return operation


def edit(*parts: Element) -> Element:
    """Merge these parts into the running configuration."""
    operation = Element(f"{{{BASE}}}edit-config")
    SubElement(SubElement(operation, f"{{{BASE}}}target"), f"{{{BASE}}}running")
    SubElement(operation, f"{{{BASE}}}config").extend(parts)
    return operation


def close_session() -> Element:
    return Element(f"{{{BASE}}}close-session")


def part(name: str, ports: Iterable[int] = ()) -> Element:
    """A container, or some entries of its list of ports."""
    element = Element(f"{{{OPSW}}}{name}")
    for port in ports:
        xml.leaf(SubElement(element, f"{{{OPSW}}}port"), "port-id", port)
    return element


def keys_of(name: str) -> Element:
    """Select entries of a container's list."""
    element = Element(f"{{{OPSW}}}{name}")
    SubElement(SubElement(element, f"{{{OPSW}}}port"), f"{{{OPSW}}}port-id")
    return element


def crossconnects(remove: Sequence[tuple[int, int]], add: Sequence[tuple[int, int]], *, entry: str) -> Element:
    """Changes of crossconnects, input first: those of `remove` are deleted, those of `add` merged."""
    element = Element(f"{{{OPSW}}}cross-connects")
    for ingress, _ in remove:
        pair = SubElement(element, f"{{{OPSW}}}{entry}", {f"{{{BASE}}}operation": "delete"})
        xml.leaf(pair, "ingress", ingress)
    for ingress, egress in add:
        pair = SubElement(element, f"{{{OPSW}}}{entry}")
        xml.leaf(pair, "ingress", ingress)
        xml.leaf(pair, "egress", egress)
    return element


def old_ports(ports: Iterable[int], leaf: str) -> Element:
    """One leaf of entries of the old modules' container; all entries by default.

    `opm/power` is in a subcontainer.
    """
    element = part("ports", ports)
    if not len(element):
        xml.leaf(SubElement(element, f"{{{OPSW}}}port"), "port-id", "")
    for entry in element:
        inner = entry
        for name in leaf.split("/"):
            inner = SubElement(inner, f"{{{OPSW}}}{name}")
    return element


def set_old_states(ports: Iterable[int], state: str) -> Element:
    element = part("ports", ports)
    for entry in element:
        xml.leaf(entry, "port-state", state)
    return element


def set_states(word: str, ports: Iterable[int]) -> Element:
    """port-set-state; `word` is port-enab or port-disab."""
    operation = Element(f"{{{OPSW}}}port-set-state")
    for port in ports:
        xml.leaf(operation, word, port)
    return operation


def voa(settings: Iterable[tuple[int, VoaSetting]]) -> Element:
    """The settings of attenuators, by port."""
    element = Element(f"{{{OPSW}}}voa")
    for port, setting in settings:
        entry = SubElement(element, f"{{{OPSW}}}port")
        xml.leaf(entry, "port-id", port)
        xml.leaf(entry, "atten-mode", VOA_MODES[setting.mode])
        if setting.level is not None:
            xml.leaf(entry, "atten-level", f"{to_level(setting.mode, setting.level):.2f}")
        if setting.reference is not None:
            xml.leaf(entry, "reference-port", setting.reference)
    return element


# --- replies: all readers raise ProtocolError for missing parts


def read_ok(reply: Reply) -> None:
    if [xml.name(each) for each in reply.content] != ["ok"]:
        raise ProtocolError(f"NETCONF: {_names(reply.content)} in place of ok")


def read_data(reply: Reply, *asked: str) -> dict[str, Element]:
    """The requested containers that exist; one that was not requested shows that the reply answers another request."""
    if [xml.name(each) for each in reply.content] != ["data"]:
        raise ProtocolError(f"NETCONF: {_names(reply.content)} in place of data")
    found = {xml.name(each): each for each in reply.content[0]}
    if not found.keys() <= set(asked):
        raise ProtocolError(f"NETCONF: asked for {', '.join(asked)}, got {_names(reply.content[0])}")
    return found


def read_product(reply: Reply) -> Identity:
    product = read_data(reply, "product-information").get("product-information")
    if product is None:
        raise ProtocolError("NETCONF: no product-information")

    def word(name: str) -> str:
        if not (found := xml.text(xml.child(product, name))):
            raise ProtocolError(f"NETCONF: product-information without {name}")
        return found

    return Identity(
        vendor=word("manufacturer"),
        model=word("model-name"),
        serial=word("serial-number"),
        firmware=word("software-version"),
    )


def read_pairs(reply: Reply, *, entry: str) -> list[tuple[int, int]]:
    """Port numbers of all crossconnects, input first."""
    pairs = _entries(read_data(reply, "cross-connects").get("cross-connects"), entry)
    return [(_port(pair, "ingress"), _port(pair, "egress")) for pair in pairs]


def read_ports(container: Element | None) -> list[int]:
    """Keys of the list of a container that may be missing."""
    return [_port(each, "port-id") for each in _entries(container, "port")]


def read_powers(reply: Reply) -> dict[int, float]:
    return {_port(each, "port-id"): _decimal(each, "power") for each in _ports(reply, "opm-power")}


def read_old_powers(reply: Reply) -> dict[int, float]:
    """Powers of the ports with a monitor."""
    monitors = [(each, monitor) for each in _ports(reply, "ports") if (monitor := xml.child(each, "opm")) is not None]
    return {_port(each, "port-id"): _decimal(monitor, "power") for each, monitor in monitors}


def read_old_states(reply: Reply) -> dict[int, str]:
    return {_port(each, "port-id"): xml.text(xml.child(each, "port-state")) for each in _ports(reply, "ports")}


def read_statuses(reply: Reply) -> dict[int, str]:
    return {_port(each, "port-id"): xml.text(xml.child(each, "status")) for each in _ports(reply, "port-config")}


def read_voa(reply: Reply) -> dict[int, VoaSetting]:
    settings = {}
    for each in _ports(reply, "voa"):
        word = xml.text(xml.child(each, "atten-mode"))
        mode = next((mode for mode, text in VOA_MODES.items() if text == word), None)
        if mode is None:
            raise ProtocolError(f"NETCONF: atten-mode {word[:80]!r}")
        port = _port(each, "port-id")
        reference = xml.text(xml.child(each, "reference-port"))
        settings[port] = VoaSetting(
            mode=mode,
            level=to_level(mode, _decimal(each, "atten-level")) if xml.child(each, "atten-level") is not None else None,
            reference=_port(each, "reference-port") if reference and reference != "0" else None,
        )
    return settings


def _entries(container: Element | None, entry: str) -> list[Element]:
    if container is None:
        return []
    if others := [each for each in container if xml.name(each) != entry]:
        raise ProtocolError(f"NETCONF: {_names(others)} in {xml.name(container)}, not {entry}")
    return list(container)


def _ports(reply: Reply, name: str) -> list[Element]:
    """The entries of a container with a list of ports, the only one that was asked for."""
    return _entries(read_data(reply, name).get(name), "port")


def _port(parent: Element, name: str) -> int:
    word = xml.text(xml.child(parent, name))
    if not (word.isascii() and word.isdigit() and 1 <= len(word) <= 5 and 1 <= int(word) <= 65535):
        raise ProtocolError(f"NETCONF: {name} {word[:80]!r} in {xml.name(parent)} is not a port")
    return int(word)


def _decimal(parent: Element, name: str) -> float:
    word = xml.text(xml.child(parent, name))
    digits = word.removeprefix("-").replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 12):
        raise ProtocolError(f"NETCONF: {name} {word[:80]!r} in {xml.name(parent)} is not a decimal")
    return float(word)


def _names(elements: Iterable[Element]) -> str:
    return ", ".join(xml.name(each)[:80] for each in elements) or "nothing"
