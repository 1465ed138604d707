"""The rules that every simulated world must keep, by name, and what a breach of one is."""

from typing import Final

import msgspec
from typing_extensions import override

RULES: Final = {
    "one-crossconnect-an-end": "A fibre end of a switch is in at most one crossconnect.",
    "lease-kept": "By our command no crossconnect changes on a port that another lease covers.",
    "lease-given": "Leases in force share no port, none lasts into another's reserved time, each grant of a port has a "
    "higher epoch, and the records have what was answered.",
    "desired-kept": "What the last confirmed reconfiguration of a fibre end wanted of it is desired of it.",
    "intent-durable": "What a switch changes by our command was on the journal's disk, synced, before.",
    "no-failure-without-cause": "A switch fails a reconfiguration only after something has befallen the world.",
    "plan-of-now": "What a plan takes away is there when it begins, and what it adds is not.",
    "one-writer": "A switch of a host changes by a job of that host alone, and not once it is taken back.",
    "success-read-back": "What is said to be confirmed, or rolled back, is so in the optics of the twin.",
    "all-or-nothing": "At the end each reconfiguration is finished or undone, on all of its switches.",
    "recovered": "Once all is well again, no reconfiguration, run or entry of the journal stays open.",
    "set-stands": "A prepared set lasts until its release, its lease or its time ends; its switches have its target, "
    "and after a crash in a switch that of its rule.",
    "no-event-lost": "Every change of carrier is recorded once, or counted as lost.",
    "late-command-refused": "A command that reaches an agent after its expiry is not done.",
    "dark-as-planned": "An apply in steps never has more links dark at once than its plan says.",
    "one-story": "Answers, documents, records and journal tell one outcome of a reconfiguration.",
    "confirm-in-time": "A change that awaits a confirm is confirmed by one that comes in time, and by nothing else; "
    "without one it begins to go back at its time.",
    "transfer-kept": "By our command no light is cut under a transfer in flight, but by a way back that recorded it.",
    "abort-bounded": "An abort or a roll-back ends within 5 seconds, and drain_s more where transfers are in flight.",
    "job-kept": "A job whose start was answered is in the records; it ends, and then none of its ranks runs and it "
    "holds no lease and no set. Where nothing befell its light, `hwd job verify` finds that it kept its promises.",
    "answer-given": "Every call of an operator is answered, or its daemon dies.",
    "no-bug": "No part ends by itself, and no error is one that we do not raise on purpose.",
}
"""The rules, each checked against the twins, the disks and the records, not against what the daemon holds in memory."""


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A breach of a rule at a virtual time since the start of the world."""

    at_s: float
    rule: str
    what: str

    @override
    def __str__(self) -> str:
        return f"{self.at_s:.3f} s: {self.rule}: {self.what}. The rule: {RULES[self.rule]}"
