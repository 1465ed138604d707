"""The definition of the MQTT messages: JSON in UTF-8 on `hwd/1/<testbed>/<host>/<leaf>`.

| leaf | from | retained | message |
|---|---|---|---|
| state | agent, or its will | yes | State |
| birth | agent | yes | Birth |
| event | agent, QoS 1 | no | Events |
| reply | agent | no | Reply, ClockReply |
| ack | daemon | no | Ack |
| command | daemon, QoS 1 | no | Command |
| clock | daemon | no | ClockRequest |
| ask | agent, QoS 1 | no | Ask |
| answer | daemon, QoS 1 | no | Answer |

Every message has `v`, `boot` (a UUID for each start of the agent), `seq`, `type`, then its own fields. `at_ns`,
`earliest_ns` and `expires_at_ns` are the agent's CLOCK_MONOTONIC_RAW of that boot. The Structs here and
in the other modules of this package check a message as it is decoded: types, lengths, ranges. Unknown fields are
ignored; unknown types raise ProtocolError, which the receiver counts.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import decoder, encoder

from .bounds import NAME_MOST, PORTS_MOST, At, Boot, ByName, Kind, Name, Number, Origin, Seq, Span, Text, clipped
from .events import LostData, read_data
from .inventory import Inventory
from .notes import ClockNote, HeldSetting, PortNote, SwitchNote

VERSION = 1
OLDEST_READ = max(1, VERSION - 1)
"""Messages of the version before are read for one minor version, so that hosts and daemon can be upgraded one after
another."""
EVENTS_MAX = 256
"""The most events in one message."""
SETTINGS_MOST: Final = 16 * PORTS_MOST
ID_MOST: Final = 1024
"""The longest id of a command, in characters; a UUID has 36."""
ASK_ID_MOST: Final = 128
"""The longest id of an ask, in characters: the daemon remembers it with its answer."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=False):
    """The fields of all messages. `seq` counts the sender's messages of that type in that boot, from 1."""

    v: int = VERSION
    boot: Boot
    seq: Number


class State(Message, frozen=True, kw_only=True, tag="state"):
    """The state of an agent: `up` while it is connected, `down` after it stopped in order, `lost` as its will."""

    state: Literal["up", "down", "lost"]


class Birth(Message, frozen=True, kw_only=True, tag="birth"):
    """The description of a host. Sent complete at every connect, and when the inventory changed.

    `spool_next_seq` is the sequence number that the next event will have.

    `settings`: those that runs changed and that were not restored yet, in the order of the changes. `clock`: the name
    of the host's clock. `clocks`: more about it.
    """

    host: Name
    testbed: Name
    version: Name
    at_ns: At
    ports: ByName[PortNote]
    inventory: Inventory
    spool_oldest_seq: Number
    spool_next_seq: Number
    spool_lost: Number
    settings: Annotated[list[HeldSetting], Meta(max_length=SETTINGS_MOST)] = []
    clocks: ClockNote | None = None
    clock: Name = ""
    switches: ByName[SwitchNote] = {}


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened between `earliest_ns` and `at_ns`.

    `seq` counts the events of one boot from 1 without gaps. `data`: the fields of the struct that
    `hwd_agents.wire.events.DATA` names for the kind.
    """

    seq: Seq
    at_ns: At
    earliest_ns: At
    kind: Kind
    port: Name | None
    source: Name
    origin: Origin
    sampling_ns: Span = 0
    data: Annotated[Any, Meta(extra_json_schema={"type": "object"})] = {}


class Events(Message, frozen=True, kw_only=True, tag="events"):
    """1 to 256 events of one boot, ascending without gaps.

    `boot` may be an earlier one: the spool remains when the agent stops.

    `clock`: for an earlier boot, the name of the clock in its birth. Where the clock of the current boot has the same
    name, its alignment holds for both.
    """

    events: Annotated[list[Event], Meta(min_length=1, max_length=EVENTS_MAX)]
    clock: Name = ""


class EncodedEvents(Message, frozen=True, kw_only=True, tag="events"):
    """The message `Events` to send, whose events are JSON already."""

    events: list[msgspec.Raw]
    clock: Name = ""


class Ack(Message, frozen=True, kw_only=True, tag="ack"):
    """The daemon has stored all events of `boot` up to and including `upto`."""

    upto: Number


class Command(Message, frozen=True, kw_only=True, tag="command"):
    """A command to one boot of an agent. A late one, or one for another boot, is answered `expired` and not done.

    | verb | arguments |
    |---|---|
    | observe | reconfiguration, peers: [Peer], for_s: sample light fast and probe until ready or the time is over |
    | settle | reconfiguration: stop observing it |
    | resend | boot, from_seq, upto_seq: send these events again |
    | refresh | nothing: read everything now, report what differs |
    | set | run, port, setting, value, for_s: change a setting; the agent restores all of the run after `for_s` |
    | hold | run, for_s: keep the settings of this run for so long from now on |
    | put-back | run: restore all settings that this run changed |
    | delegate | grants: {switch: epoch}, the host's own switches that it may set; the reply has all of them |
    | take-back | switch, epoch, why: the host may not set it any more, until it is granted again |
    | report-transfers | nothing: say which transfers are in flight |
    | cut-transfers | transfers, why: their light is cut now; tell who sends |
    """

    id: Annotated[str, Meta(min_length=1, max_length=ID_MOST)]
    reply_to: Annotated[str, Meta(max_length=4 * NAME_MOST)]
    expires_at_ns: At
    verb: Name
    lease: Name | None = None
    arguments: dict[str, Any] = {}


class Reply(Message, frozen=True, kw_only=True, tag="reply"):
    """The answer to the command `id`. `at_ns`: the agent's clock when it was sent; 0 from an older agent."""

    id: Annotated[str, Meta(min_length=1, max_length=ID_MOST)]
    outcome: Literal["done", "expired", "refused", "failed"]
    why: Text = ""
    data: dict[str, Any] = {}
    at_ns: At = 0


class ClockRequest(Message, frozen=True, kw_only=True, tag="clock-request"):
    """The request of a four-timestamp exchange: `t1_ns` is the daemon's clock when it was sent.

    `boot` is that of the agent.
    """

    id: Number
    t1_ns: At


class ClockReply(Message, frozen=True, kw_only=True, tag="clock-reply"):
    """The reply to a ClockRequest: `t2_ns` is the agent's clock when that came, `t3_ns` when this was sent."""

    id: Number
    t1_ns: At
    t2_ns: At
    t3_ns: At


class Ask(Message, frozen=True, kw_only=True, tag="ask"):
    """A request of an agent to the daemon. A late one, or one of another boot, is answered `expired` and not done.

    | verb | arguments |
    |---|---|
    | claim-transfer | transfer, ports, phase, process, within_s, wait_s: a process is about to send over these ports |
    | end-transfers | transfers: these have ended |
    | switch-set | prepared_set, target, process, reconfiguration, epoch: bring a prepared set to this target |
    """

    id: Annotated[str, Meta(min_length=1, max_length=ASK_ID_MOST)]
    expires_at_ns: At
    verb: Name
    arguments: dict[str, Any] = {}


class Answer(Message, frozen=True, kw_only=True, tag="answer"):
    """The daemon's answer to the ask `id` of `boot`. `data`: with the outcome `done`, as the verb has it."""

    id: Annotated[str, Meta(min_length=1, max_length=ASK_ID_MOST)]
    outcome: Literal["done", "expired", "refused", "failed"]
    why: Text = ""
    data: dict[str, Any] = {}


AnyMessage = State | Birth | Events | Ack | Command | Reply | ClockRequest | ClockReply | Ask | Answer

_decoder: msgspec.json.Decoder[AnyMessage] = decoder(AnyMessage)
_encoder = encoder()


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(payload: bytes, on_unreadable: Callable[[str], None] = lambda why: None) -> AnyMessage:
    """Decode a message; the data of events are the structs of `DATA` then. Raises ProtocolError for any other payload,
    and for a version that is not read.

    `on_unreadable` is called with the reason for each event whose sequence number and times can be read, but not its
    kind or data, as that must not stop the events behind it. An event of an unknown kind loses its data; one with wrong
    data becomes a `lost` event.
    """
    try:
        message = _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # the last: deeply nested brackets
        raise ProtocolError(f"not a message of version {VERSION}: {reason_of(error)}") from error
    if not OLDEST_READ <= message.v <= VERSION:
        raise ProtocolError(f"version {message.v}, where {OLDEST_READ} to {VERSION} are read")
    if isinstance(message, Events):
        for number, event in enumerate(message.events):
            _read(message.events, number, event, on_unreadable)
    return message


def _read(events: list[Event], number: int, event: Event, on_unreadable: Callable[[str], None]) -> None:
    """Read the data of an event that was just decoded, in its place."""
    if not isinstance(event.data, dict):
        raise ProtocolError(f"not a message of version {VERSION}: the data of event {event.seq} is no object")
    try:
        data = read_data(event.kind, event.data)
    except ProtocolError as error:
        what = f"event {event.seq} of kind {event.kind}"
        on_unreadable(f"{what}: {error}")
        lost = LostData(count=1, why=clipped(f"{what} of the host was not to be read: {error}"))
        events[number] = msgspec.structs.replace(event, kind="lost", port=None, data=lost)
        return
    if data is None:
        on_unreadable(f"event {event.seq} of kind {event.kind}: this version does not know it, and leaves its data out")
    msgspec.structs.force_setattr(event, "data", {} if data is None else data)


def topic(testbed: str, host: str, leaf: str) -> str:
    return f"hwd/{VERSION}/{testbed}/{host}/{leaf}"


def client_id(testbed: str, host: str) -> str:
    """The MQTT client id of a host's agent: a broker has one connection for each id."""
    return f"hwd-{testbed}-{host}"
