"""One of each message, as the bytes that go over the wire: what both sides write must stay so."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hwd_agents.wire import (
    Ack,
    Answer,
    Ask,
    Birth,
    ClockNote,
    ClockReply,
    ClockRequest,
    ClockUdp,
    Command,
    Event,
    Events,
    HeldSetting,
    Inventory,
    Message,
    PortNote,
    Reply,
    SourceNote,
    State,
    SwitchNote,
    VerbsAddress,
    WallClock,
)

MODULE: Final[Mapping[str, Any]] = {
    "vendor": "ACME",
    "part": "LR4",
    "revision": "1",
    "serial": "s1",
    "standard": "SFF-8636",
    "thresholds": None,
}
INVENTORY: Final[Mapping[str, Any]] = {
    "kernel": "Linux 6.1",
    "machine": "x86_64",
    "life": "l1",
    "modules": {"eth0": MODULE},
    "monitors": {"eth0": None},
    "links": {},
    "nics": {"eth0": {"driver": None, "autoneg": True, "speed_mbps": 100000, "fec": {"auto": False, "modes": ["rs"]}}},
    "states": {"eth0": {"light": None, "firmware": None, "carrier": True, "rdma": None}},
    "spool": {"bytes": 0, "limit_bytes": 16000000, "failures": 0, "why": "", "damaged_bytes": 0},
    "selection": {"socket": None, "why_not": ""},
    "garbage": 0,
}
NOTE: Final = PortNote(
    interface="ens1f0",
    present=True,
    ip="10.1.0.1/32",
    carrier=True,
    carrier_changes=2,
    probe_port=4711,
    sources={"link": SourceNote(sees=["carrier"], origin="kernel")},
    verbs=VerbsAddress(gid="fe80::1", qpn=17, qkey=7),
)
SWITCH: Final = SwitchNote(driver="osw", model="osw-1x4", ports=["eth0"], up=True, epoch=3, last_epoch=3)
CLOCKS: Final = ClockNote(
    udp=ClockUdp(address="10.0.0.1", port=4712, key="k" * 32),
    why_not_udp="",
    wall=WallClock(synchronised_by="chrony", stratum=2, offset_s=1e-05, error_s=0.0001),
)
HELD: Final = HeldSetting(run="r1", port="eth0", setting="mtu", value=4200, before=1500)
EVENT: Final = Event(
    seq=1,
    at_ns=20,
    earliest_ns=10,
    kind="carrier",
    port="eth0",
    source="link",
    origin="kernel",
    data={"carrier": True, "carrier_changes": 2, "unseen": 0},
)


def event(seq: int = 0, at_ns: int = 0, **more: Any) -> Event:
    """A change of the carrier of eth0, without an earlier bound than its time."""
    return msgspec.structs.replace(EVENT, seq=seq, at_ns=at_ns, earliest_ns=at_ns, **more)


def birth(inventory: Any) -> Birth:
    return Birth(
        boot="b1",
        seq=1,
        host="h0",
        testbed="lab",
        version="0.1.0",
        at_ns=5,
        ports={"eth0": NOTE},
        inventory=inventory,
        spool_oldest_seq=1,
        spool_next_seq=2,
        spool_lost=0,
        settings=[HELD],
        clocks=CLOCKS,
        clock="c1",
        switches={"sel0": SWITCH},
    )


def messages(inventory: Any) -> Mapping[str, Message]:
    return {
        "state": State(boot="b1", seq=0, state="lost"),
        "birth": birth(inventory),
        "events": Events(boot="b1", seq=3, events=[EVENT], clock="c0"),
        "ack": Ack(boot="b1", seq=1, upto=1),
        "command": Command(
            boot="b1",
            seq=1,
            id="c1",
            reply_to="hwd/1/lab/h0/reply",
            expires_at_ns=99,
            verb="resend",
            arguments={"boot": "b1", "from_seq": 1, "upto_seq": 2},
        ),
        "reply": Reply(boot="b1", seq=1, id="c1", outcome="done", data={"here": 2, "oldest_seq": 1}, at_ns=50),
        "clock-request": ClockRequest(boot="b1", seq=1, id=4, t1_ns=7),
        "clock-reply": ClockReply(boot="b1", seq=1, id=4, t1_ns=7, t2_ns=8, t3_ns=9),
        "ask": Ask(boot="b1", seq=1, id="a1", expires_at_ns=99, verb="end-transfers", arguments={"transfers": ["t1"]}),
        "answer": Answer(boot="b1", seq=1, id="a1", outcome="done", data={"over": {}}),
    }


def found() -> Inventory:
    return Inventory(**INVENTORY)
