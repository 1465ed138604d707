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

Every message has `v`, `boot` (a UUID for each start of the agent), `seq`, `type`, then its own fields. `at_ns`, `earliest_ns` and `expires_at_ns` are the
agent's CLOCK_MONOTONIC_RAW of that boot. Unknown fields are kept out of the way; unknown types raise ProtocolError, which the receiver counts.
"""

from typing import Any, Literal

import msgspec

from hwd_drivers.kit.errors import ProtocolError

VERSION = 1
OLDEST_READ = max(1, VERSION - 1)
"""What the version before wrote is read for one minor version, so that hosts and daemon can be upgraded one after another."""
EVENTS_MAX = 256
"""Most events in one message."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=False):
    """What all messages have. `seq` counts the sender's messages of that type in that boot, from 1."""

    v: int = VERSION
    boot: str
    seq: int


class State(Message, frozen=True, kw_only=True, tag="state"):
    """`up` while the agent lives, `down` when it stopped in order, `lost` as its will."""

    state: Literal["up", "down", "lost"]


class SourceNote(msgspec.Struct, frozen=True, kw_only=True):
    """What one source of a port can tell, or why it cannot. `origin`: measured, kernel, twin or fitted. `limits`: what of that it cannot tell, in words."""

    sees: list[str]
    origin: str
    why_not: str = ""
    limits: str = ""


class VerbsAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a UD queue pair is reached: the GID of its port, as an IPv6 address is written, its number and its Q_Key."""

    gid: str
    qpn: int
    qkey: int


class PortNote(msgspec.Struct, frozen=True, kw_only=True):
    """One NIC port as the agent finds it. `carrier` and `carrier_changes` are None where the interface is missing, `verbs` where it is not probed by RDMA."""

    interface: str
    present: bool
    ip: str | None
    carrier: bool | None
    carrier_changes: int | None
    probe_port: int | None
    sources: dict[str, SourceNote]
    verbs: VerbsAddress | None = None


class HeldSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of a port that `run` changed and that was not put back yet. `value` is what it was first set to, `before` the state it had until then."""

    run: str
    port: str
    setting: str
    value: Any
    before: Any


class SwitchNote(msgspec.Struct, frozen=True, kw_only=True):
    """A switch that the host drives, as its agent finds it. `model`: what it says that it is, else what the agent's file says. `epoch`: of the lease under which it may be set now, None where it may not; `why_not` says why."""

    driver: str
    model: str
    ports: list[str]
    up: bool
    cause: str = ""
    vendor: str = ""
    serial: str = ""
    firmware: str = ""
    epoch: int | None = None
    last_epoch: int = 0
    why_not: str = ""


class ClockUdp(msgspec.Struct, frozen=True, kw_only=True):
    """Where the agent's clock is asked by UDP; `key` makes and checks the proofs of the datagrams of this boot."""

    address: str
    port: int
    key: str


class WallClock(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps the wall clock of the host, which only labels are made of. `synchronised_by`: `chrony`, `ptp4l`, or null for nothing that could be asked,
    then `why_not` says what was tried.

    `reference`: what it follows. `offset_s`: how far the clock is ahead of that, right within `error_s`. `stratum`: steps from a reference clock; null by PTP.
    """

    synchronised_by: str | None
    reference: str = ""
    stratum: int | None = None
    offset_s: float | None = None
    error_s: float | None = None
    why_not: str = ""


class ClockNote(msgspec.Struct, frozen=True, kw_only=True):
    """The clocks of a host. `udp`: where the raw monotonic one can be asked; null, and `why_not_udp`, where only over the broker. `wall`: null until it was read."""

    udp: ClockUdp | None
    why_not_udp: str
    wall: WallClock | None


class Birth(Message, frozen=True, kw_only=True, tag="birth"):
    """Sent at every connect, and when the inventory changed: the whole of it. `spool_next_seq` is the sequence number that the next event will have.

    `settings` are those that are still as a run has set them, in the order in which they were changed. In the `inventory`, by port: `modules` {vendor, part,
    revision, serial, standard, thresholds {temperature_c, bias_ma, tx_power_dbm, rx_power_dbm, each low_alarm, low_warning, high_warning, high_alarm}}, `monitors` {rx_power_dbm, tx_power_dbm, bias_ma, each by lane, temperature_c, and of the last time that the port was observed sampled_every_s and read_s} of when it was sent, `links` as the event `link-state`, `nics` {driver {name, version, firmware, bus}, autoneg, speed_mbps, fec}; what is not known is null.
    """

    host: str
    testbed: str
    version: str
    at_ns: int
    ports: dict[str, PortNote]
    inventory: dict[str, Any]
    spool_oldest_seq: int
    spool_next_seq: int
    spool_lost: int
    settings: list[HeldSetting] = []
    clocks: ClockNote | None = None
    clock: str = ""
    switches: dict[str, SwitchNote] = {}


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened between `earliest_ns` and `at_ns`. `seq` counts the events of one boot from 1 without gaps.

    | kind | data |
    |---|---|
    | carrier | carrier, carrier_changes, unseen (flaps that were counted but not seen one by one) |
    | interface | present |
    | link-state | up, why_down, detail, downs, autoneg, speed_mbps, fec: of the link as its NIC tells it, null for what it does not |
    | counters | rx_bytes, tx_bytes, rx_packets, tx_packets, rx_errors, tx_errors, rx_dropped, tx_dropped, rx_pause, tx_pause (null where not counted); tcp_retransmissions of the whole host |
    | dark, light | lanes: power per lane in dBm or None; one_sided: it may have been any time before `at_ns`, and `earliest_ns` is 0 |
    | put-back | run, setting, state: nobody held it any more, so the agent put it back by itself |
    | monitors | rx_power_dbm, tx_power_dbm, bias_ma: by lane; temperature_c: what a module measures of itself, null where it does not; told where it moved |
    | firmware | up |
    | rdma | active, missed (falls of its carrier that neither the device's events nor its files showed, where there were some) |
    | ready | reconfiguration, peer (h1.eth0), via (verbs-ud or udp), why_udp (where the port has an RDMA device), sent, failed |
    | switch | what: up, down, read, command, power or override; switch, and what the document of a switch of that kind has |
    | selection | selection, outcome, why, switches (each with its epoch), ports, id, requested_ns, answered_ns: as `hwd_agents.selected.Selected` has them |
    | rc-recovery | reconfiguration, peer, outcome (completed: the send that was posted in the dark has got through; failed: its retries were over, why; re-made: the queue pair was made anew after that), after_s (since it was posted), ack_timeout_s, retries |
    | wrong-peer | reconfiguration, expected, found |
    | lost | count, why: events that the spool had to drop; ranges: their [boot, first seq, last seq], the newest 256 of each of 256 boots |
    """

    seq: int
    at_ns: int
    earliest_ns: int
    kind: str
    port: str | None
    source: str
    origin: str
    sampling_ns: int = 0
    data: dict[str, Any] = {}


class Events(Message, frozen=True, kw_only=True, tag="events"):
    """1 to 256 events of one boot, ascending without gaps. `boot` may be an earlier one: the spool outlives the agent.

    `clock`: for an earlier boot, the name of its clock, as its birth had it. Where the present boot's has the same name, its alignment holds for both.
    """

    events: list[Event]
    clock: str = ""


class Ack(Message, frozen=True, kw_only=True, tag="ack"):
    """The daemon holds all events of `boot` up to and with `upto`."""

    upto: int


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """What one port shall find at the other end of its light. `peer_verbs`: where it is probed by RDMA; None where it is not."""

    port: str
    peer: str
    peer_ip: str
    peer_probe_port: int
    kept: bool
    peer_verbs: VerbsAddress | None = None


class Command(Message, frozen=True, kw_only=True, tag="command"):
    """Asks an agent of one boot. Late, or for another boot: answered `expired`, nothing done.

    | verb | arguments |
    |---|---|
    | observe | reconfiguration, peers: [Peer], for_s: sample light fast and probe until ready or the time is over |
    | settle | reconfiguration: stop observing it |
    | resend | boot, from_seq, upto_seq: send these events again |
    | refresh | nothing: read everything now, report what differs |
    | set | run, port, setting, value, for_s: change a setting of a port, for this run; all that the run has set is put back by the agent itself after `for_s`, unless it is held again |
    | hold | run, for_s: what this run has set holds for so long from now on |
    | put-back | run: make all as it was before this run changed it |
    | delegate | grants: {switch: epoch} of the host's own switches that it may set from now on; the reply tells of all of them |
    | take-back | switch, epoch, why: it may not set it any more, until it is granted again |
    """

    id: str
    reply_to: str
    expires_at_ns: int
    verb: str
    lease: str | None = None
    arguments: dict[str, Any] = {}


class Reply(Message, frozen=True, kw_only=True, tag="reply"):
    """Answer to the command `id`. `at_ns`: the agent's clock when it was sent; 0 of an agent that does not say."""

    id: str
    outcome: Literal["done", "expired", "refused", "failed"]
    why: str = ""
    data: dict[str, Any] = {}
    at_ns: int = 0


class ClockRequest(Message, frozen=True, kw_only=True, tag="clock-request"):
    """Four-timestamp exchange, first half: `t1_ns` is the daemon's clock when it sent this. `boot` names the agent's."""

    id: int
    t1_ns: int


class ClockReply(Message, frozen=True, kw_only=True, tag="clock-reply"):
    """Second half: `t2_ns` the agent's clock when the request came, `t3_ns` when this was sent."""

    id: int
    t1_ns: int
    t2_ns: int
    t3_ns: int


AnyMessage = State | Birth | Events | Ack | Command | Reply | ClockRequest | ClockReply

_decoder: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)
_encoder = msgspec.json.Encoder()


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(payload: bytes) -> AnyMessage:
    """Raises ProtocolError on anything that is not one of the messages, or of a version that is not read."""
    try:
        message = _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # the last: brackets in brackets
        raise ProtocolError(f"not a message of version {VERSION}: {error}") from error
    if not OLDEST_READ <= message.v <= VERSION:
        raise ProtocolError(f"version {message.v}, where {OLDEST_READ} to {VERSION} are read")
    return message


def topic(testbed: str, host: str, leaf: str) -> str:
    return f"hwd/{VERSION}/{testbed}/{host}/{leaf}"
