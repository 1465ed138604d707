"""Select the parser of a module by the first byte of its memory, its identifier (SFF-8024 table 4-1)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from hwd_drivers.core.errors import ProtocolError

from . import cmis, sff8472, sff8636
from .module_memory import Layout, ModuleMemory, Span

HEAD = Span(offset=0, length=3, place=0)
"""The first bytes to read of any module: identifier, revision, status. The flags that a read clears follow them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    words: str
    parse: Callable[[bytes], ModuleMemory]
    identity: Callable[[bytes], Span]
    """Maps the head to the bytes that must be read before `layout` is called."""
    layout: Callable[[bytes, bytes], Layout]
    """Maps the head and those identity bytes to the layout."""


@lru_cache(maxsize=256)
def parse_module(memory: bytes) -> ModuleMemory:
    """Parse the memory of a module, read as its layout says. Raises ProtocolError for an unknown or invalid module.

    What it read last is remembered: a module is read 200 times a second, and a twin's mostly has the same bytes.
    """
    return _kind(memory).parse(memory)


def identity_of(head: bytes) -> Span:
    """The bytes that must be read to know the layout. Raises ProtocolError for an unknown kind of module."""
    return _kind(head).identity(head)


def layout_of(head: bytes, identity: bytes) -> Layout:
    """The layout of a module from its head and identity. Raises ProtocolError for an unknown kind of module."""
    return _kind(head).layout(head, identity)


def _kind(memory: bytes) -> _Kind:
    if not memory:
        raise ProtocolError("module memory: 0 bytes: nothing was read")
    kind = _KINDS.get(memory[0])
    if kind is None:
        known = ", ".join(f"{number:#04x} {one.words}" for number, one in sorted(_KINDS.items()))
        raise ProtocolError(
            f"module memory: identifier {memory[0]:#04x} at byte 0 is no module that can be read here (known: {known})"
        )
    return kind


def _sff8472(_head: bytes, identity: bytes) -> Layout:
    readable = sff8472.has_diagnostics(identity) and not sff8472.is_copper(identity)
    return sff8472.LAYOUT if readable else sff8472.LAYOUT_WITHOUT_A2H


def _cmis_identity(head: bytes) -> Span:
    return HEAD if cmis.is_flat(head) else cmis.IDENTITY


def _cmis(head: bytes, identity: bytes) -> Layout:
    return cmis.LAYOUT_FLAT if cmis.is_flat(head) else cmis.layout_of(identity)


_KINDS: Mapping[int, _Kind] = {
    **{
        number: _Kind(
            words=words, parse=sff8472.parse_memory, identity=lambda _head: sff8472.LAYOUT.static[0], layout=_sff8472
        )
        for number, words in sff8472.IDENTIFIERS.items()
    },
    **{
        number: _Kind(
            words=words,
            parse=sff8636.parse_memory,
            identity=lambda _head: HEAD,
            layout=lambda head, _identity: sff8636.LAYOUT_FLAT if sff8636.is_flat(head) else sff8636.LAYOUT,
        )
        for number, words in sff8636.IDENTIFIERS.items()
    },
    **{
        number: _Kind(words=words, parse=cmis.parse_memory, identity=_cmis_identity, layout=_cmis)
        for number, words in cmis.IDENTIFIERS.items()
    },
}
