"""Layouts: where the attributes of netlink messages stand. Notices of an interface are laid out alike, so that most need no walk."""

import struct
from collections.abc import Iterable
from typing import Final

from hwd_drivers.core.errors import ProtocolError

from .netlink import ATTRIBUTE, TYPE_MASK

KEPT_MOST: Final = 64
"""Interfaces differ in their names' lengths and their kinds, and a message in what it tells."""


class Layout:
    """The attributes of one message, and a check of whether another has the same: all their headers at once."""

    def __init__(self, data: bytes, start: int, wanted: Iterable[int]) -> None:
        """Raises ProtocolError at a length that does not fit."""
        self._size = len(data)
        self._kinds: list[int] = []
        headers, values = f"={start}x", f"={start}x"
        offset, header_end, value_end, kept = start, start, start, set(wanted)
        while offset + ATTRIBUTE.size <= len(data):
            length, kind = ATTRIBUTE.unpack_from(data, offset)
            if length < ATTRIBUTE.size or offset + length > len(data):
                raise ProtocolError(f"netlink: attribute {kind} of {length} bytes at {offset} in {len(data)} bytes")
            headers += f"{offset - header_end}xI"
            header_end = offset + ATTRIBUTE.size
            if kind & TYPE_MASK in kept:
                values += f"{header_end - value_end}x{length - ATTRIBUTE.size}s"
                value_end = offset + length
                self._kinds.append(kind & TYPE_MASK)
            offset += (length + 3) & ~3
        self._unpack_headers = struct.Struct(f"{headers}{len(data) - header_end}x").unpack
        self._unpack_values = struct.Struct(f"{values}{len(data) - value_end}x").unpack
        self._headers = self._unpack_headers(data)

    def fits(self, data: bytes) -> bool:
        """Whether every attribute of `data` stands where those of this layout do."""
        return len(data) == self._size and self._unpack_headers(data) == self._headers

    def read(self, data: bytes) -> dict[int, bytes]:
        """The wanted attributes, by type."""
        return dict(zip(self._kinds, self._unpack_values(data), strict=True))


class Layouts:
    """`read` is `netlink.attributes` for some types only: the first message of a layout is walked, the next are not.

    attributes = Layouts(start=INTERFACE.size, wanted=(IFLA_IFNAME, IFLA_CARRIER_CHANGES))
    attributes.read(message.payload)
    """

    def __init__(self, *, start: int, wanted: Iterable[int]) -> None:
        self._start = start
        self._wanted = tuple(wanted)
        self._known: dict[tuple[int, int], Layout] = {}

    def read(self, data: bytes, key: int) -> dict[int, bytes]:
        """Messages of the same `key`, an interface's index, are expected to look alike. Raises ProtocolError at a length that does not fit."""
        layout = self._known.get((key, len(data)))
        if layout is None or not layout.fits(data):
            if len(self._known) >= KEPT_MOST:
                self._known.clear()
            layout = self._known[key, len(data)] = Layout(data, self._start, self._wanted)
        return layout.read(data)
