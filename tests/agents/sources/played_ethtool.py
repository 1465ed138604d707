"""A simulated ethtool family in user space, over a real netlink socket: NICs with modules that no test machine has.

Messages are read here by hand, by linux/ethtool_netlink.h, so that who asks and who answers share no code.
It plays the checks of net/ethtool/eeprom.c.
"""

import errno
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

NETLINK_USERSOCK = 2
FAMILY = 0x15
GET_FAMILY, EEPROM_GET = 3, 31
HEADER, DEV_NAME = 1, 2


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One read of a module."""

    interface: str
    address: int
    page: int
    offset: int
    length: int
    bank: int = 0


@dataclass(kw_only=True)
class PlayedModule:
    """Memory by (I2C address, page), 256 bytes each, the lower half that of page 0; `banked` by (page, bank).

    `on_read(address, page, offset, length)` is called after each read: it clears flags.
    """

    pages: dict[tuple[int, int], bytearray] = field(default_factory=dict)
    banked: dict[tuple[int, int], bytearray] = field(default_factory=dict)
    on_read: Callable[[int, int, int, int], None] = lambda *_: None


class PlayedEthtool:
    """Implements `hwd_agents.sources.kernel.sockets.Sockets`: each socket is connected to the played family.

    `refusals`: errno by interface. `answers`: attributes by interface and message; what is not there is not supported.
    `questions`: the attributes of each question, in the order in which they came. `without_family`: it is a kernel from
    before ethtool netlink. `at_once`: it answers several questions at a time, as drivers of several NICs do.
    """

    def __init__(self) -> None:
        self.modules: dict[str, PlayedModule] = {}
        self.refusals: dict[str, int] = {}
        self.asked: list[Asked] = []
        self.answers: dict[tuple[str, int], bytes] = {}
        self.questions: list[dict[int, bytes]] = []
        self.at_once = False
        self.without_family = False
        self._answering: list[threading.Thread] = []
        self._peer = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_USERSOCK)
        self._peer.bind((0, 0))
        self._thread = threading.Thread(target=self._serve, name="played-ethtool")

    @contextmanager
    def playing(self) -> "Iterator[PlayedEthtool]":
        self._thread.start()
        try:
            yield self
        finally:
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_USERSOCK) as last:
                last.sendto(struct.pack("=IHHII", 16, 0xFFFF, 0, 0, 0), self._peer.getsockname())
            self._thread.join()
            for thread in self._answering:
                thread.join()
            self._peer.close()

    def open(self, family: int, kind: int, proto: int = 0) -> socket.socket:
        opened = socket.socket(socket.AF_NETLINK, kind, NETLINK_USERSOCK)
        opened.connect(self._peer.getsockname())
        opened.setblocking(False)
        return opened

    def _serve(self) -> None:
        while True:
            data, sender = self._peer.recvfrom(65536)
            if struct.unpack_from("=IH", data)[1] == 0xFFFF:
                return
            if not self.at_once:
                self._answer(data, sender)
                continue
            thread = threading.Thread(target=self._answer, args=(data, sender), name="played-ethtool-answer")
            self._answering.append(thread)
            thread.start()

    def _answer(self, data: bytes, sender: tuple[int, int]) -> None:
        length, kind, _flags, sequence, _port = struct.unpack_from("=IHHII", data)
        number, body = self._work(kind, data[16], data[:length])
        if not number:
            payload = bytes([1, 1, 0, 0]) + body
            self._peer.sendto(struct.pack("=IHHII", 16 + len(payload), kind, 0, sequence, 0) + payload, sender)
        self._peer.sendto(_error(sequence, number), sender)  # the last word: who asked may be gone after it

    def _work(self, kind: int, command: int, data: bytes) -> tuple[int, bytes]:
        """Errno, and the attributes of the answer."""
        if kind == 0x10 and self.without_family:
            return errno.ENOENT, b""
        if kind == 0x10 and command == GET_FAMILY:
            return 0, attribute(1, struct.pack("=H", FAMILY))
        question = attributes(data[20:])  # after both headers
        self.questions.append(question)
        interface = attributes(question[HEADER])[DEV_NAME].rstrip(b"\0").decode()
        if number := self.refusals.get(interface, 0):
            return number, b""
        if command != EEPROM_GET:
            answer = self.answers.get((interface, command))
            return (errno.EOPNOTSUPP, b"") if answer is None else (0, answer)
        offset, length, page, bank, address = (int.from_bytes(question[kind], sys.byteorder) for kind in range(2, 7))
        asked = Asked(interface=interface, address=address, page=page, offset=offset, length=length, bank=bank)
        self.asked.append(asked)
        number, found = self._read(asked)
        return number, attribute(7, found)

    def _read(self, asked: Asked) -> tuple[int, bytes]:
        end = asked.offset + asked.length
        if not 1 <= asked.length <= 128 or (asked.page and asked.offset < 128):
            return errno.EINVAL, b""
        if end > 256 or asked.offset < 128 < end:
            return errno.EINVAL, b""
        module = self.modules.get(asked.interface)
        if module is None:
            return errno.EIO, b""
        bank = asked.bank
        page = module.banked.get((asked.page, bank)) if bank else module.pages.get((asked.address, asked.page))
        if page is None:
            return errno.EIO, b""
        found = bytes(page[asked.offset : end])
        module.on_read(asked.address, asked.page, asked.offset, asked.length)
        return 0, found


def pages_of(memory: bytes) -> dict[tuple[int, int], bytearray]:
    """A module of 256 bytes: A0h, page 0."""
    return {(0x50, 0): bytearray(memory)}


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def attributes(data: bytes) -> dict[int, bytes]:
    """By type, without the flag that says nested."""
    found = {}
    while data:
        length, kind = struct.unpack_from("=HH", data)
        found[kind & 0x7FFF] = data[4:length]
        data = data[length + -length % 4 :]
    return found


def _error(sequence: int, number: int) -> bytes:
    return struct.pack("=IHHIIi", 36, 2, 0, sequence, 0, -number) + bytes(16)
