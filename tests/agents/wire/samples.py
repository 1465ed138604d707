"""The data of each kind of event and of each answer, as an agent tells it."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hwd_agents.wire import (
    Arguments,
    ClaimOperation,
    ClaimTransfer,
    CountedBytes,
    CutTransfers,
    Delegate,
    EndedOperation,
    EndOperation,
    EndTransfers,
    HoldSettings,
    IpDatagrams,
    JoinJob,
    Observe,
    Operation,
    OperationKind,
    Peer,
    PortBytes,
    PutBack,
    Refresh,
    ReportTransfers,
    Resend,
    SetPort,
    Settle,
    SwitchPreparedSet,
    TakeBack,
)

from .golden import NOTE, SWITCH

COUNTERS: Final = "rx_bytes tx_bytes rx_packets tx_packets rx_errors tx_errors rx_dropped tx_dropped rx_pause tx_pause"
SET: Final = {
    "epoch": 3,
    "wanted": ["1A-2B"],
    "before": [],
    "now": ["1A-2B"],
    "removed": [],
    "added": ["1A-2B"],
    "commands": 1,
    "commanded_ns": 11,
    "acknowledged_ns": 12,
    "why": "",
}
UP: Final = {"up": True, "kept": False, "fell_ns": 11, "earliest_ns": 12, "at_ns": 13, "why": ""}
DATA: Final[Mapping[str, Mapping[str, Any]]] = {
    "carrier": {"carrier": True, "carrier_changes": 2, "unseen": 0},
    "interface": {"present": False},
    "link-state": {
        "up": False,
        "why_down": "no cable",
        "detail": None,
        "downs": 3,
        "autoneg": True,
        "speed_mbps": None,
        "fec": "rs",
    },
    "counters": dict.fromkeys(COUNTERS.split(), (1 << 64) - 1) | {"tcp_retransmissions": None},
    "dark": {"lanes": [-3.5, None], "one_sided": True},
    "light": {"lanes": [-3.5, None]},
    "put-back": {"run": "r1", "setting": "fec", "state": {"auto": False, "modes": ["rs"]}},
    "monitors": {"rx_power_dbm": [-3.5], "tx_power_dbm": [0.5], "bias_ma": [None], "temperature_c": 41.5},
    "firmware": {"up": True},
    "rdma": {"active": True, "missed": 2},
    "ready": {
        "reconfiguration": "c1",
        "peer": "h1.eth0",
        "via": "udp",
        "sent": 3,
        "failed": 2,
        "why_udp": "no queue pair",
    },
    "selection": {
        "outcome": "up",
        "why": "",
        "selection": "h0-1",
        "switches": {"sel0": SET},
        "ports": {"eth0": UP},
        "requested_ns": 10,
        "answered_ns": 14,
        "id": None,
    },
    "rc-recovery": {
        "reconfiguration": "c1",
        "peer": "h1.eth0",
        "outcome": "completed",
        "after_s": 0.5,
        "ack_timeout_s": 0.067,
        "retries": 7,
        "why": "",
    },
    "wrong-peer": {"reconfiguration": "c1", "expected": "h1.eth0", "found": "h2.eth0"},
    "lost": {"count": 3, "why": "the spool was full", "ranges": [["b1", 2, 4]]},
}
SWITCH_DATA: Final[Mapping[str, Mapping[str, Any]]] = {
    "up": {"vendor": "ACME", "model": "osw", "serial": "1", "firmware": "2", "down_s": 0.5},
    "down": {"cause": "it closed"},
    "read": {"crossconnects": [{"id": "1A-2B", "state": "tuned"}], "added": ["1A-2B"], "removed": [], "ours": True},
    "command": {"verb": "connect", "outcome": "done", "seconds": 0.1, "code": "", "text": ""},
    "power": {"power_dbm": {"1A": -3.5, "2B": None}},
    "restarted": {"sign": "at-rest", "lost": ["1A-2B"], "uptime_s": None, "unheard_s": 4.2},
    "override": {"ends": ["1A"], "to": "normal", "by": "somebody"},
}
EVENTS: Final[tuple[tuple[str, Mapping[str, Any]], ...]] = (
    *DATA.items(),
    *(("switch", {"what": what, "switch": "sel0", **data}) for what, data in SWITCH_DATA.items()),
)
OBSERVED: Final = {
    "seen": True,
    "why_not": "",
    "at_begin": True,
    "now": None,
    "lost": 0,
    "latched": True,
    "looks": 3,
    "failed": 0,
    "longest_gap_ns": 5,
    "from_ns": 1,
    "upto_ns": 9,
}
COUNTED: Final = CountedBytes(
    at_ns=7, ports={"eth0": PortBytes(rx=1500, tx=2**40)}, datagrams=IpDatagrams(received=1000, forwarded=7)
)
OPERATION: Final = Operation(group="world", kind=OperationKind.ALL_REDUCE, index=7, size_bytes=4096)
BACK: Final = {"port": "eth0", "setting": "mtu", "state": 1500}
STANDS: Final = {**msgspec.to_builtins(SWITCH), "crossconnects": [{"id": "1A-2B", "state": "tuned"}]}
ANSWERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "observe": {"at_ns": 5, "ports": {"eth0": {"light": OBSERVED}}},
    "settle": {"at_ns": 5, "ports": {"eth0": {"light": OBSERVED}}},
    "resend": {"here": 2, "oldest_seq": 1},
    "refresh": {"at_ns": 5, "ports": {"eth0": msgspec.to_builtins(NOTE)}, "states": {"eth0": {"carrier": None}}},
    "set": {"before": 1500, "after": {"auto": True, "modes": []}},
    "hold": {"held": 1, "back": [BACK]},
    "put-back": {"back": [BACK], "left": [{"port": "eth0", "setting": "fec", "why": "it is gone"}]},
    "delegate": {"switches": {"sel0": STANDS}, "refused": {"sel1": "not here"}},
    "take-back": {"switches": {"sel0": STANDS}, "refused": {}},
    "claim-transfer": {"within_s": 5.0, "waited_s": 0.5},
    "end-transfers": {"over": {"t1": "its longest time was over"}},
    "report-transfers": {
        "transfers": [{"transfer": "t1", "ports": ["eth0"], "phase": "p1", "process": "rank 3", "left_s": 4.0}]
    },
    "cut-transfers": {"told": ["t1"]},
    "switch-set": {"reconfiguration": "k3v9a1xx", "target": "crossed", "outcome": "confirmed"},
    "join-job": {
        "ranks": [{"host": "h0", "gpu": 1, "optical": {"eth0": "10.1.0.1"}, "electrical": {"eth9": "10.9.0.1"}}],
        "groups": {"world": [0]},
        "longest_s": 600.0,
    },
    "claim-operation": {"within_s": 5.0, "waited_s": 0.5, "ports": ["eth0"], "links": ["h0.eth0<->h1.eth0"]},
    "end-operation": {},
}
ARGUMENTS: Final[tuple[Arguments[Any], ...]] = (
    Observe(
        reconfiguration="r1",
        peers=[
            Peer(
                port="h0.eth0",
                peer="h1.eth0",
                peer_ip="10.1.0.2",
                peer_probe_port=4000,
                kept=False,
                peer_verbs=NOTE.verbs,
            )
        ],
        for_s=60.0,
    ),
    Settle(reconfiguration="r1"),
    Resend(boot="b1", from_seq=1, upto_seq=2),
    Refresh(),
    SetPort(run="k3v9", port="h0.eth0", setting="mtu", value=1500),
    HoldSettings(run="k3v9", for_s=60.0),
    PutBack(run="k3v9"),
    Delegate(grants={"sel0": 1}),
    TakeBack(switch="sel0", epoch=1, why="it was kicked"),
    ClaimTransfer(transfer="t1", ports=["eth0"], phase="p1", process="rank 3", within_s=5.0),
    EndTransfers(transfers=["t1"]),
    ReportTransfers(),
    CutTransfers(transfers=["t1"], why="reconfiguration k3v9a1xx cut it"),
    SwitchPreparedSet(prepared_set="p7x2a1b9", target="crossed", process="rank 3", reconfiguration="k3v9a1xx"),
    JoinJob(job="j7x2a1b9", rank=0, key="secret", process="pid 7"),
    ClaimOperation(
        transfer="t1",
        job="j7x2a1b9",
        rank=0,
        key="secret",
        operation=OPERATION,
        process="rank 0 of job j7x2a1b9",
        within_s=5.0,
        ended=EndedOperation(job="j7x2a1b9", rank=0, operation=OPERATION, before=COUNTED, after=COUNTED),
    ),
    EndOperation(job="j7x2a1b9", rank=0, key="secret", operation=OPERATION, after=COUNTED),
)
"""One command of each kind."""
