"""XML of NETCONF messages: read without document types and entities, to a limited depth."""

from typing import Any, Final
from xml.etree.ElementTree import Element, ParseError, SubElement, TreeBuilder, XMLParser
from xml.sax.saxutils import escape, quoteattr

from typing_extensions import override

from hwd_drivers.core.errors import ProtocolError

DEPTH: Final = 32
ELEMENTS: Final = 200_000
"""Limits of reading; the largest unit's whole data is a twentieth of them."""


def parse(message: bytes) -> Element:
    """Raises ProtocolError for a text that is not well-formed, has a document type, or exceeds the limits."""
    parser = XMLParser(target=_Builder())
    try:
        parser.feed(message)
        root = parser.close()
    except ProtocolError:
        raise
    except (ParseError, ValueError, LookupError, AssertionError) as error:
        raise ProtocolError(f"XML: {error}") from error
    if not isinstance(root, Element):
        raise ProtocolError("XML: no element")
    return root


def write(element: Element) -> bytes:
    """The element as UTF-8; a namespace is written where it changes.

    Attributes with a namespace get their own prefix.
    """
    parts: list[str] = []
    _write(element, "", parts)
    return "".join(parts).encode("utf-8")


def name(element: Element) -> str:
    """The name without its namespace."""
    return element.tag.rpartition("}")[2]


def namespace(element: Element) -> str:
    return element.tag[1:].partition("}")[0] if element.tag.startswith("{") else ""


def text(element: Element | None) -> str:
    """The text without blanks around it; empty where there is none."""
    return (element.text or "").strip() if element is not None else ""


def child(parent: Element, wanted: str) -> Element | None:
    """The first child of this name, in any namespace."""
    return next((each for each in parent if name(each) == wanted), None)


def leaf(parent: Element, wanted: str, value: object) -> Element:
    """Add a child with text, in the namespace of its parent."""
    made = SubElement(parent, f"{{{namespace(parent)}}}{wanted}")
    made.text = str(value)
    return made


def _write(element: Element, outer: str, parts: list[str]) -> None:
    inner, tag = namespace(element), name(element)
    parts.append(f"<{tag}")
    if inner != outer:
        parts.append(f" xmlns={quoteattr(inner)}")
    for place, (key, value) in enumerate(element.items()):
        if key.startswith("{"):
            uri, _, key = key[1:].partition("}")
            prefix = "xml" if uri == "http://www.w3.org/XML/1998/namespace" else f"a{place}"
            if prefix != "xml":
                parts.append(f" xmlns:{prefix}={quoteattr(uri)}")
            key = f"{prefix}:{key}"
        parts.append(f" {key}={quoteattr(value)}")
    if not len(element) and not element.text:
        parts.append("/>")
        return
    parts.append(f">{escape(element.text or '')}")
    for each in element:
        _write(each, inner, parts)
    parts.append(f"</{tag}>")


class _Builder(TreeBuilder):
    """Counts elements while it builds."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0
        self._count = 0

    @override
    def start(self, tag: Any, attrs: dict[Any, Any], /) -> Element:
        self._depth += 1
        self._count += 1
        if self._depth > DEPTH:
            raise ProtocolError(f"XML: elements in over {DEPTH} others")
        if self._count > ELEMENTS:
            raise ProtocolError(f"XML: over {ELEMENTS} elements")
        return super().start(tag, attrs)

    @override
    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        """Called before the content of a document type is read, so that entities are never defined."""
        raise ProtocolError("XML: a document type is not allowed")
