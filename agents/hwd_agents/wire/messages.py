"""The one definition of the MQTT messages: JSON in UTF-8 on `hwd/1/<testbed>/<host>/<leaf>`.

| leaf | from | retained | message |
|---|---|---|---|
| state | agent, or its will | yes | State |
| birth | agent | yes | Birth |
| event | agent, QoS 1 | no | Events |
| reply | agent | no | Reply, ClockReply |
| ack | daemon | no | Ack |
| command | daemon, QoS 1 | no | Command |
| clock | daemon | no | ClockRequest |

Every message has `v`, `boot` (a UUID for each start of the agent), `seq`, `type`, then its own fields. `at_ns`,
`earliest_ns` and `expires_at_ns` are the agent's CLOCK_MONOTONIC_RAW of that boot. All of a message is checked as it is
decoded, by the Structs here and in the modules beside this one: types, lengths, ranges. Unknown fields are kept out of
the way; unknown types raise ProtocolError, which the receiver counts.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.reason import reason_of

from .bounds import NAME_MOST, PORTS_MOST, At, Boot, ByName, Kind, Name, Number, Origin, Seq, Span, Text
from .events import checked_data, is_known
from .inventory import Inventory
from .notes import ClockNote, HeldSetting, PortNote, SwitchNote

VERSION = 1
OLDEST_READ = max(1, VERSION - 1)
"""What the version before wrote is read for one minor version, so that hosts and daemon can be upgraded one after
another."""
EVENTS_MAX = 256
"""Most events in one message."""
SETTINGS_MOST: Final = 16 * PORTS_MOST
ID_MOST: Final = 1024
"""Of a command, in characters; a UUID has 36."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=False):
    """What all messages have. `seq` counts the sender's messages of that type in that boot, from 1."""

    v: int = VERSION
    boot: Boot
    seq: Number


class State(Message, frozen=True, kw_only=True, tag="state"):
    """`up` while the agent lives, `down` when it stopped in order, `lost` as its will."""

    state: Literal["up", "down", "lost"]


class Birth(Message, frozen=True, kw_only=True, tag="birth"):
    """Sent at every connect, and when the inventory changed: the whole of it.

    `spool_next_seq` is the sequence number that the next event will have.

    `settings` are those that are still as a run has set them, in the order in which they were changed. `clock` names
    the host's clock, `clocks` says more of it.
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

    `seq` counts the events of one boot from 1 without gaps. `data`: see `hwd_agents.wire.events`.

    | kind | data |
    |---|---|
    | carrier | carrier, carrier_changes, unseen (flaps that were counted but not seen one by one) |
    | interface | present |
    | link-state | up, why_down, detail, downs, autoneg, speed_mbps, fec: as the NIC reports; null for the rest |
    | counters | rx_ and tx_: bytes, packets, errors, dropped, pause; tcp_retransmissions (of the host); or null |
    | dark, light | lanes: dBm or None by lane; one_sided: any time before `at_ns`, and `earliest_ns` is 0 |
    | put-back | run, setting, state: nobody held it any more, so the agent put it back by itself |
    | monitors | rx_power_dbm, tx_power_dbm, bias_ma: by lane; temperature_c. Sent on change; null: not measured |
    | firmware | up |
    | rdma | active, missed (falls of its carrier that no event and no file of the device showed) |
    | ready | reconfiguration, peer (h1.eth0), via (verbs-ud or udp), why_udp (of an RDMA port), sent, failed |
    | switch | what: up, down, read, command, power or override; switch, and the fields of that document |
    | selection | selection, outcome, why, switches, ports, id, requested_ns, answered_ns: see `Selected` |
    | rc-recovery | reconfiguration, peer, outcome, why, after_s (since the post), ack_timeout_s, retries; see below |
    | wrong-peer | reconfiguration, expected, found |
    | lost | count, why, ranges of dropped events: [boot, first seq, last seq], the newest 256 of each of 256 boots |

    `rc-recovery` is of a send that was posted while the link was dark. Its outcome is `completed`: the send got
    through; `failed`: its retries were over; `re-made`: the queue pair was made anew after that.
    """

    seq: Seq
    at_ns: At
    earliest_ns: At
    kind: Kind
    port: Name | None
    source: Name
    origin: Origin
    sampling_ns: Span = 0
    data: dict[str, Any] = {}


class Events(Message, frozen=True, kw_only=True, tag="events"):
    """1 to 256 events of one boot, ascending without gaps.

    `boot` may be an earlier one: the spool outlives the agent.

    `clock`: for an earlier boot, the name of its clock, as its birth had it. Where the present boot's has the same
    name, its alignment holds for both.
    """

    events: Annotated[list[Event], Meta(min_length=1, max_length=EVENTS_MAX)]
    clock: Name = ""


class Ack(Message, frozen=True, kw_only=True, tag="ack"):
    """The daemon holds all events of `boot` up to and with `upto`."""

    upto: Number


class Command(Message, frozen=True, kw_only=True, tag="command"):
    """Asks an agent of one boot. Late, or for another boot: answered `expired`, nothing done.

    | verb | arguments |
    |---|---|
    | observe | reconfiguration, peers: [Peer], for_s: sample light fast and probe until ready or the time is over |
    | settle | reconfiguration: stop observing it |
    | resend | boot, from_seq, upto_seq: send these events again |
    | refresh | nothing: read everything now, report what differs |
    | set | run, port, setting, value, for_s: change a setting; the agent puts all of the run back after `for_s` |
    | hold | run, for_s: what this run has set holds for so long from now on |
    | put-back | run: make all as it was before this run changed it |
    | delegate | grants: {switch: epoch}, the host's own switches that it may set; the reply has all of them |
    | take-back | switch, epoch, why: it may not set it any more, until it is granted again |
    """

    id: Annotated[str, Meta(min_length=1, max_length=ID_MOST)]
    reply_to: Annotated[str, Meta(max_length=4 * NAME_MOST)]
    expires_at_ns: At
    verb: Name
    lease: Name | None = None
    arguments: dict[str, Any] = {}


class Reply(Message, frozen=True, kw_only=True, tag="reply"):
    """Answer to the command `id`. `at_ns`: the agent's clock when it was sent; 0 of an agent that does not say."""

    id: Annotated[str, Meta(min_length=1, max_length=ID_MOST)]
    outcome: Literal["done", "expired", "refused", "failed"]
    why: Text = ""
    data: dict[str, Any] = {}
    at_ns: At = 0


class ClockRequest(Message, frozen=True, kw_only=True, tag="clock-request"):
    """Four-timestamp exchange, first half: `t1_ns` is the daemon's clock when it sent this.

    `boot` names the agent's.
    """

    id: Number
    t1_ns: At


class ClockReply(Message, frozen=True, kw_only=True, tag="clock-reply"):
    """Second half: `t2_ns` the agent's clock when the request came, `t3_ns` when this was sent."""

    id: Number
    t1_ns: At
    t2_ns: At
    t3_ns: At


AnyMessage = State | Birth | Events | Ack | Command | Reply | ClockRequest | ClockReply

_decoder: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)
_encoder = msgspec.json.Encoder()


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def _not_told(why: str) -> None:
    """Of an event, to who does not count them."""


def decode(payload: bytes, on_unreadable: Callable[[str], None] = _not_told) -> AnyMessage:
    """Raises ProtocolError on anything that is not one of the messages, or of a version that is not read.

    `on_unreadable` hears of each event that has its number and its times and makes no sense otherwise, in words: it may
    not hold up those behind it. One of a kind that this version does not know keeps none of its data; one whose data is
    wrong is a `lost` event from here on.
    """
    try:
        message = _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # the last: brackets in brackets
        raise ProtocolError(f"not a message of version {VERSION}: {reason_of(error)}") from error
    if not OLDEST_READ <= message.v <= VERSION:
        raise ProtocolError(f"version {message.v}, where {OLDEST_READ} to {VERSION} are read")
    if isinstance(message, Events):
        events = [_checked(event, on_unreadable) for event in message.events]
        return message if events == message.events else msgspec.structs.replace(message, events=events)
    return message


def _checked(event: Event, on_unreadable: Callable[[str], None]) -> Event:
    if not is_known(event.kind, event.data):
        on_unreadable(f"event {event.seq} of kind {event.kind}: this version does not know it, and leaves its data out")
        return msgspec.structs.replace(event, data={})
    try:
        data = checked_data(event.kind, event.data)
    except ProtocolError as error:
        what = f"event {event.seq} of kind {event.kind}"
        on_unreadable(f"{what}: {error}")
        why = f"{what} of the host was not to be read: {error}"
        return msgspec.structs.replace(event, kind="lost", port=None, data={"count": 1, "why": why})
    return event if data == event.data else msgspec.structs.replace(event, data=data)


def topic(testbed: str, host: str, leaf: str) -> str:
    return f"hwd/{VERSION}/{testbed}/{host}/{leaf}"


def client_id(testbed: str, host: str) -> str:
    """The MQTT client id of a host's agent: a broker holds one connection of each."""
    return f"hwd-{testbed}-{host}"
