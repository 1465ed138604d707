"""Resources of a Polatis unit over RESTCONF (RFC 8040): paths, and bodies in XML and JSON (RFC 7951)."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote
from xml.etree.ElementTree import Element, SubElement

from hwd_drivers.codecs.http import shorten_body
from hwd_drivers.codecs.tl1_words import shorten
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.families.polatis.netconf import xml
from hwd_drivers.families.polatis.netconf.protocol import OPSW, PLTS

MODULES: Final[Mapping[str, str]] = {"optical-switch": OPSW, "polatis-switch": PLTS}
NAMES: Final = {namespace: module for module, namespace in MODULES.items()}
RESTCONF: Final = "urn:ietf:params:xml:ns:yang:ietf-restconf"
LISTS: Final[Mapping[str, str]] = {
    "pair": "ingress",
    "pairs": "ingress",
    "port": "port-id",
    "group": "group-name",
}
"""Lists of the modules, with their keys."""
NUMBERS: Final = frozenset({"ingress", "egress", "port-id", "averaging-time", "reference-port"})
"""Leaves that are numbers in JSON; decimals are text, as in RFC 7951."""
LEAF_LISTS: Final = frozenset({("group", "ingress"), ("group", "egress")})
"""Leaves that occur several times in their parent; they are arrays in JSON."""
LEAVES: Final = frozenset({"label", "port-label", "peer-port", "connected-group"})
"""Leaves that may be empty, unlike a container."""
DEPTH: Final = 16
"""Deepest nesting of values: the modules have four levels."""

FIELDS_LIMIT: Final = 512
"""Most characters of a fields parameter: each name of the modules once takes fewer."""

_FIELD = re.compile(r"[;/()]|[A-Za-z][A-Za-z0-9_:.-]{0,127}")
_STEP = re.compile(r"(?:([A-Za-z][A-Za-z0-9_-]{0,63}):)?([A-Za-z][A-Za-z0-9_-]{0,63})(?:=([^/=]{1,64}))?")


class UnknownModuleError(ProtocolError):
    """A path with an unknown module: there is no such resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One part of a path: a name in a namespace, with a key for one entry of a list."""

    namespace: str
    name: str
    key: str | None

    @property
    def tag(self) -> str:
        return f"{{{self.namespace}}}{self.name}"


def parse_path(text: str) -> tuple[Step, ...]:
    """`optical-switch:cross-connects/pair=1`. Raises ProtocolError on an invalid path."""
    steps: list[Step] = []
    for part in text.strip("/").split("/"):
        found = _STEP.fullmatch(unquote(part))
        if found is None:
            raise ProtocolError(f"path {shorten(text)}: {shorten(part)} is not module:name or name=key")
        if found[1] not in MODULES and (found[1] is not None or not steps):
            modules = " and ".join(MODULES)
            raise UnknownModuleError(
                f"path {shorten(text)}: {shorten(part)} is of no module that is here, they are {modules}"
            )
        namespace = MODULES[found[1]] if found[1] else steps[-1].namespace
        steps.append(Step(namespace=namespace, name=found[2], key=found[3]))
    return tuple(steps)


@dataclass(frozen=True, slots=True)
class Fields:
    """The requested children of a resource by name, each with its own fields; one without fields is complete."""

    children: dict[str, "Fields"] = field(default_factory=dict)


def parse_fields(query: str) -> Fields | None:
    """`fields=pair(ingress;egress)` of a query (RFC 8040, 4.8.3); None without it.

    Raises ProtocolError on a syntax error.
    """
    asked = [value for name, value in parse_qsl(query, keep_blank_values=True, max_num_fields=64) if name == "fields"]
    if not asked:
        return None
    text = asked[0]
    if len(asked) > 1 or len(text) > FIELDS_LIMIT:
        raise ProtocolError(f"fields: once, and at most {FIELDS_LIMIT} characters")
    tokens = _FIELD.findall(text)
    fields, rest = _take_fields(tokens, DEPTH)
    if rest or "".join(tokens) != text:
        raise ProtocolError(f"fields {shorten(text)}: not names with ; / ( and ) between them")
    return fields


def only(element: Element, fields: Fields) -> Element:
    """The element with only the requested children."""
    if not fields.children:
        return element
    kept = Element(element.tag)
    for child in element:
        if (inner := fields.children.get(xml.name(child))) is not None:
            kept.append(only(child, inner))
    return kept


def _take_fields(tokens: list[str], depth: int) -> tuple[Fields, list[str]]:
    """One expression from the beginning of `tokens`, and the remaining tokens."""
    fields = Fields()
    while True:
        here = fields
        while True:
            if depth == 0 or not tokens or tokens[0] in ";/()":
                raise ProtocolError(f"fields: a name is needed before {shorten(''.join(tokens))!r}")
            here = here.children.setdefault(tokens[0].rpartition(":")[2], Fields())
            tokens = tokens[1:]
            if tokens[:1] != ["/"]:
                break
            tokens = tokens[1:]
        if tokens[:1] == ["("]:
            inner, tokens = _take_fields(tokens[1:], depth - 1)
            if tokens[:1] != [")"]:
                raise ProtocolError("fields: a parenthesis has no end")
            here.children.update(inner.children)
            tokens = tokens[1:]
        if tokens[:1] != [";"]:
            return fields, tokens
        tokens = tokens[1:]


def find(root: Element, steps: tuple[Step, ...]) -> list[Element]:
    """The elements of a path below `root`: one, or all entries of a list without a key."""
    found = [root]
    for step in steps:
        found = [child for each in found for child in each if xml.name(child) == step.name and _has_key(child, step)]
    return found


def read_body(body: bytes, media_type: str, name: str, namespace: str) -> list[Element]:
    """The elements of a body with this name: one container, or entries of a list.

    Raises ProtocolError on anything else.
    """
    if not body.strip():
        raise ProtocolError("an empty body")
    if "xml" in media_type or ("json" not in media_type and body.lstrip().startswith(b"<")):
        root = xml.parse(body)
        found = [root] if xml.name(root) == name else [each for each in root if xml.name(each) == name]
    else:
        found = _from_json(body, name, namespace)
    if not found:
        raise ProtocolError(f"no {name} in {shorten_body(body)}")
    return found


def write_json(elements: list[Element]) -> bytes:
    """`{"optical-switch:cross-connects":{"pair":[...]}}`; entries of a list are under their common name."""
    first = elements[0]
    value = [_value(each) for each in elements] if xml.name(first) in LISTS else _value(first)
    return json.dumps({_qualified(first): value}, separators=(",", ":")).encode()


def write_xml(elements: list[Element]) -> bytes:
    """The one element, or entries of a list in a `data` element of RESTCONF."""
    if len(elements) == 1:
        return xml.write(elements[0])
    root = Element(f"{{{RESTCONF}}}data")
    root.extend(elements)
    return xml.write(root)


def _has_key(element: Element, step: Step) -> bool:
    if step.key is None:
        return True
    return xml.text(xml.child(element, LISTS.get(step.name, ""))) == step.key


def _qualified(element: Element) -> str:
    return f"{NAMES[xml.namespace(element)]}:{xml.name(element)}"


def _value(element: Element) -> Any:
    if not len(element):
        text = xml.text(element)
        if xml.name(element) in NUMBERS:
            return int(text)
        return text if text or xml.name(element) in LEAVES else {}
    children: dict[str, Any] = {}
    for child in element:
        name = xml.name(child) if xml.namespace(child) == xml.namespace(element) else _qualified(child)
        if xml.name(child) in LISTS or (xml.name(element), xml.name(child)) in LEAF_LISTS:
            children.setdefault(name, []).append(_value(child))
        else:
            children[name] = _value(child)
    return children


def _from_json(body: bytes, name: str, namespace: str) -> list[Element]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{shorten_body(body)} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise ProtocolError(f"{shorten_body(body)} is no object")
    root = Element(f"{{{namespace}}}data")
    for key, each in value.items():
        if key.rpartition(":")[2] == name:
            _add(root, key, each, 0)
    return list(root)


def _add(parent: Element, key: str, value: Any, depth: int) -> None:
    if depth > DEPTH:
        raise ProtocolError(f"JSON: values in over {DEPTH} others")
    module, _, name = key.rpartition(":")
    if not _STEP.fullmatch(name) or (module and module not in MODULES):
        raise ProtocolError(f"JSON: {shorten(key)} is no name of the modules")
    namespace = MODULES[module] if module else xml.namespace(parent)
    if isinstance(value, list):
        for each in value:
            _add(parent, key, each, depth + 1)
        return
    element = SubElement(parent, f"{{{namespace}}}{name}")
    if isinstance(value, dict):
        for inner, each in value.items():
            _add(element, inner, each, depth + 1)
    elif isinstance(value, bool):
        element.text = "true" if value else "false"
    elif value is not None:
        element.text = str(value)
