"""NETCONF messages (RFC 6241, 5277) without I/O: bytes from and to frozen messages, in the agreed framing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from xml.etree.ElementTree import Element, SubElement

from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.families.polatis.netconf import xml
from hwd_drivers.families.polatis.netconf.framing import FrameDecoder, frame

BASE: Final = "urn:ietf:params:xml:ns:netconf:base:1.0"
NOTIFICATION: Final = "urn:ietf:params:xml:ns:netconf:notification:1.0"
BASE_1_0: Final = "urn:ietf:params:netconf:base:1.0"
BASE_1_1: Final = "urn:ietf:params:netconf:base:1.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first message of each side; only a server states a session."""

    capabilities: tuple[str, ...]
    session: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rpc:
    """A request with the element `operation`.

    `attributes` of `rpc` must be returned, with the message-id if it has one.
    """

    attributes: Mapping[str, str]
    operation: Element

    @property
    def message_id(self) -> str:
        return self.attributes.get("message-id", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcError:
    """One reason of a refusal. `info` has the contents of error-info, by name."""

    tag: str
    message: str = ""
    type: str = "application"
    severity: str = "error"
    path: str = ""
    info: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [self.tag, self.message and f"({self.message})", self.path and f"at {self.path}"]
        return " ".join(filter(None, words))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer: errors, or `content`, its elements (`ok`, `data`, or the result of a device's own rpc)."""

    attributes: Mapping[str, str]
    errors: tuple[RpcError, ...] = ()
    content: tuple[Element, ...] = ()

    @property
    def message_id(self) -> str:
        return self.attributes.get("message-id", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """An event; `time` is in the format of RFC 3339."""

    time: str
    event: Element


Message = Hello | Rpc | Reply | Notification


def encode(message: Message, *, chunked: bool) -> bytes:
    """The bytes of a message in its frame. A hello is never in chunks."""
    data = b'<?xml version="1.0" encoding="UTF-8"?>' + xml.write(_root(message))
    return frame(data, chunked=chunked and not isinstance(message, Hello))


class MessageDecoder:
    """Turns bytes into messages. `chunked`: both hellos have base:1.1, so that both directions are in chunks.

    `base_1_1`: our hello has base:1.1.
    """

    def __init__(self, *, base_1_1: bool = True) -> None:
        self._base_1_1 = base_1_1
        self._frames = FrameDecoder()
        self._greeted = False

    @property
    def chunked(self) -> bool:
        return self._frames.chunked

    def feed(self, data: bytes) -> list[Message]:
        """Complete messages.

        Raises ProtocolError for other bytes, for a message before the hello and for a second hello.
        """
        self._frames.feed(data)
        messages: list[Message] = []
        while (taken := self._frames.take()) is not None:
            message = read(xml.parse(taken.strip()))
            if isinstance(message, Hello) is self._greeted:
                raise ProtocolError(f"NETCONF: {'a second hello' if self._greeted else 'a message before the hello'}")
            if isinstance(message, Hello):
                self._greeted = True
                self._frames.chunked = self._base_1_1 and BASE_1_1 in message.capabilities
            messages.append(message)
        return messages


def read(root: Element) -> Message:
    """Raises ProtocolError for an element that is not a message."""
    match xml.name(root), xml.namespace(root):
        case "hello", _:
            return _read_hello(root)
        case "rpc", _:
            if len(root) != 1:
                raise ProtocolError(f"NETCONF: an rpc with {len(root)} operations")
            return Rpc(attributes=dict(root.attrib), operation=root[0])
        case "rpc-reply", _:
            errors = tuple(_read_error(each) for each in root if xml.name(each) == "rpc-error")
            content = tuple(each for each in root if xml.name(each) != "rpc-error")
            return Reply(attributes=dict(root.attrib), errors=errors, content=content)
        case "notification", _:
            event = next((each for each in root if xml.name(each) != "eventTime"), None)
            if event is None:
                raise ProtocolError("NETCONF: a notification without an event")
            return Notification(time=xml.text(xml.child(root, "eventTime")), event=event)
        case other, _:
            raise ProtocolError(f"NETCONF: {other[:80]!r} is not a message")


def _root(message: Message) -> Element:
    if isinstance(message, Hello):
        root = Element(f"{{{BASE}}}hello")
        listed = SubElement(root, f"{{{BASE}}}capabilities")
        for each in message.capabilities:
            xml.leaf(listed, "capability", each)
        if message.session is not None:
            xml.leaf(root, "session-id", message.session)
        return root
    if isinstance(message, Rpc):
        root = Element(f"{{{BASE}}}rpc", dict(message.attributes))
        root.append(message.operation)
        return root
    if isinstance(message, Reply):
        root = Element(f"{{{BASE}}}rpc-reply", dict(message.attributes))
        root.extend([_write_error(error) for error in message.errors])
        root.extend(message.content)
        return root
    root = Element(f"{{{NOTIFICATION}}}notification")
    xml.leaf(root, "eventTime", message.time)
    root.append(message.event)
    return root


def _read_hello(root: Element) -> Hello:
    listed = xml.child(root, "capabilities")
    capabilities = () if listed is None else tuple(xml.text(each) for each in listed)
    if not {BASE_1_0, BASE_1_1} & set(capabilities):
        raise ProtocolError("NETCONF: a hello without a supported base")
    stated = xml.text(xml.child(root, "session-id"))
    if stated and not (stated.isascii() and stated.isdigit() and 0 < len(stated) <= 10):
        raise ProtocolError(f"NETCONF: session-id {stated[:80]!r}")
    return Hello(capabilities=capabilities, session=int(stated) if stated else None)


def _read_error(element: Element) -> RpcError:
    info = xml.child(element, "error-info")
    return RpcError(
        tag=xml.text(xml.child(element, "error-tag")),
        message=xml.text(xml.child(element, "error-message")),
        type=xml.text(xml.child(element, "error-type")),
        severity=xml.text(xml.child(element, "error-severity")) or "error",
        path=xml.text(xml.child(element, "error-path")),
        info={} if info is None else {xml.name(each): xml.text(each) for each in info},
    )


def _write_error(error: RpcError) -> Element:
    element = Element(f"{{{BASE}}}rpc-error")
    xml.leaf(element, "error-type", error.type)
    xml.leaf(element, "error-tag", error.tag)
    xml.leaf(element, "error-severity", error.severity)
    if error.path:
        xml.leaf(element, "error-path", error.path)
    if error.message:
        xml.leaf(element, "error-message", error.message)
    if error.info:
        info = SubElement(element, f"{{{BASE}}}error-info")
        for key, value in error.info.items():
            xml.leaf(info, key, value)
    return element


def capability_names(capabilities: Sequence[str]) -> dict[str, dict[str, str]]:
    """Parameters of each capability (`module`, `revision`) by the text before its `?`."""
    split: dict[str, dict[str, str]] = {}
    for capability in capabilities:
        base, _, parameters = capability.partition("?")
        split[base] = dict(pair.partition("=")[::2] for pair in parameters.split("&") if pair)
    return split
