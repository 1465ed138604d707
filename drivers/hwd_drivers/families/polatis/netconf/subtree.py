"""Subtree filtering (RFC 6241, section 6): the part of some data that a filter selects."""

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

from hwd_drivers.families.polatis.netconf import xml


def select(wanted: Iterable[Element], data: Sequence[Element]) -> list[Element]:
    """The parts of `data` that the filter elements select, in its order.

    A partly selected element is copied with that part.
    """
    chosen: set[int] = set()
    for each in wanted:
        for node in data:
            if _is_like(each, node):
                _choose(each, node, chosen)
    return _parts(data, chosen)


def _choose(wanted: Element, node: Element, chosen: set[int]) -> bool:
    """Note the elements at and under `node` that are selected completely; returns whether there is any."""
    if not len(wanted):
        if (text := xml.text(wanted)) and text != xml.text(node):
            return False
        chosen.add(id(node))
        return True
    contents = [each for each in wanted if not len(each) and xml.text(each)]
    others = [each for each in wanted if len(each) or not xml.text(each)]
    matching = [
        [child for child in node if _is_like(each, child) and xml.text(child) == xml.text(each)] for each in contents
    ]
    if not all(matching):
        return False
    if not others:
        chosen.add(id(node))
        return True
    found = [_choose(each, child, chosen) for each in others for child in node if _is_like(each, child)]
    if not any(found):
        return False
    chosen.update(id(child) for children in matching for child in children)
    return True


def _parts(nodes: Iterable[Element], chosen: set[int]) -> list[Element]:
    parts = []
    for node in nodes:
        if id(node) in chosen:
            parts.append(node)
        elif inside := _parts(node, chosen):
            made = Element(node.tag, node.attrib)
            made.extend(inside)
            parts.append(made)
    return parts


def _is_like(wanted: Element, node: Element) -> bool:
    """Whether a node has the same name; the same namespace where the filter states one; the same attributes where it
    has some.
    """
    if xml.name(wanted) != xml.name(node) or xml.namespace(wanted) not in ("", xml.namespace(node)):
        return False
    return all(node.get(key) == value for key, value in wanted.items())
