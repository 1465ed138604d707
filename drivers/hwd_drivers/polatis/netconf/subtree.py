"""Subtree filtering (RFC 6241, section 6): the part of some data that a filter selects."""

from collections.abc import Iterable
from xml.etree.ElementTree import Element

from hwd_drivers.polatis.netconf import xml


def select(wanted: Iterable[Element], data: Iterable[Element]) -> list[Element]:
    """What of `data` the elements of a filter select; the selected is copied where it is cut."""
    filters = list(wanted)
    chosen = []
    for node in data:
        parts = [part for each in filters if _is_like(each, node) and (part := _cut(each, node)) is not None]
        if parts:
            chosen.append(_join(parts))
    return chosen


def _cut(wanted: Element, node: Element) -> Element | None:
    """`node` as far as it is selected; None where a content match fails or nothing of it is."""
    if not len(wanted):
        return node if not xml.text(wanted) or xml.text(wanted) == xml.text(node) else None
    matches = [each for each in wanted if not len(each) and xml.text(each)]
    others = [each for each in wanted if len(each) or not xml.text(each)]
    for each in matches:
        if not any(_is_like(each, child) and xml.text(child) == xml.text(each) for child in node):
            return None
    if not others:
        return node
    kept = [child for child in node if any(_is_like(each, child) for each in matches)]
    chosen = select(others, (child for child in node if child not in kept))
    if not chosen:
        return None
    made = Element(node.tag, node.attrib)
    made.extend(kept + chosen)
    return made


def _join(parts: list[Element]) -> Element:
    """One element of what several filters chose of the same node; whole where one of them took it whole."""
    first = parts[0]
    if len(parts) == 1:
        return first
    made = Element(first.tag, first.attrib)
    made.text = first.text
    for part in parts:
        made.extend(child for child in part if not any(child is there for there in made))
    return made


def _is_like(wanted: Element, node: Element) -> bool:
    """Same name; same namespace where the filter states one; same attributes where it has some."""
    if xml.name(wanted) != xml.name(node) or xml.namespace(wanted) not in ("", xml.namespace(node)):
        return False
    return all(node.get(key) == value for key, value in wanted.items())
