"""Which standard a module follows, by the first byte of its memory (SFF-8024 table 4-1), and what that means for reading it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hwd_drivers.core.errors import ProtocolError

from . import cmis, sff8472, sff8636
from .module_memory import Layout, ModuleMemory, Span

HEAD = Span(offset=0, length=3, place=0)
"""The first thing to read of any module: identifier, revision, status. The flags that a read clears come after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    words: str
    parse: Callable[[bytes], ModuleMemory]
    identity: Callable[[bytes], Span]
    """What must be known for `layout`, by the head."""
    layout: Callable[[bytes, bytes], Layout]
    """By the head and the identity."""


def parse_module(memory: bytes) -> ModuleMemory:
    """What a module says, from the bytes that its layout names. Raises ProtocolError where they are of no known module, or make no sense."""
    return _kind(memory).parse(memory)


def identity_of(head: bytes) -> Span:
    """What of this module must be read to know its layout. Raises ProtocolError where no standard is known for it."""
    return _kind(head).identity(head)


def layout_of(head: bytes, identity: bytes) -> Layout:
    """What to read of the module whose `identity_of` was read. Raises ProtocolError where no standard is known for it."""
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
