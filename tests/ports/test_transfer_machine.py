"""Transfers and reconfigurations of the ledger against a model: in whatever order they come, no port is moved under a
transfer, and none is let onto one that moves.
"""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hwd.ports.claim import Claim
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction, Reason

ports = st.frozensets(st.sampled_from(["a", "b", "c"]), min_size=1)
ids = st.sampled_from(["1", "2", "3"])


class TransferMachine(RuleBasedStateMachine):
    """`sending` and `moving`: what was let go, by id, as those who asked know it."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.sending: dict[str, frozenset[str]] = {}
        self.moving: dict[str, frozenset[str]] = {}
        self.at_rest: dict[str, frozenset[str]] = {}
        self.drained: dict[str, frozenset[str]] = {}

    @rule(id=ids, ports=ports)
    def send(self, id: str, ports: frozenset[str]) -> None:
        if id in self.sending:
            return
        refusal = self.ledger.may(Asker(), ports, PortAction.TRANSFER, now_wall_ns=0)
        barred = frozenset[str]().union(*self.moving.values(), *self.drained.values())
        assert (refusal is None) == ports.isdisjoint(barred)
        if refusal is None:
            self.ledger.claim(Claim(id=id, reason=Reason.TRANSFER, owner="rank", ports=ports))
            self.sending[id] = ports

    @rule(id=ids)
    def end(self, id: str) -> None:
        self.ledger.release(Reason.TRANSFER, id)
        self.sending.pop(id, None)

    @rule(id=ids, ports=ports)
    def move(self, id: str, ports: frozenset[str]) -> None:
        if id in self.moving or id in self.at_rest:
            return
        asker = Asker(reconfiguration=id)
        refusal = self.ledger.may(asker, ports, PortAction.CHANGE, now_wall_ns=0)
        taken = [*self.sending.values(), *self.moving.values(), *self.at_rest.values()]
        assert (refusal is None) == ports.isdisjoint(frozenset[str]().union(*taken))
        if refusal is None:
            self.ledger.claim(Claim(id=id, reason=Reason.RECONFIGURATION, owner="an apply", ports=ports))
            self.ledger.release(Reason.DRAIN, id)
            self.drained.pop(id, None)
            self.moving[id] = ports

    @rule(id=ids, ports=ports)
    def drain(self, id: str, ports: frozenset[str]) -> None:
        self.ledger.claim(Claim(id=id, reason=Reason.DRAIN, owner="an apply", ports=ports))
        self.drained[id] = ports

    @rule(id=ids)
    def rest(self, id: str) -> None:
        if (claim := self.ledger.get(Reason.RECONFIGURATION, id)) is not None and id in self.moving:
            self.ledger.claim(replace(claim, at_rest=True))
            self.at_rest[id] = self.moving.pop(id)

    @rule(id=ids)
    def confirm(self, id: str) -> None:
        self.ledger.release(Reason.RECONFIGURATION, id)
        self.moving.pop(id, None)
        self.at_rest.pop(id, None)

    @invariant()
    def nothing_moves_under_a_transfer(self) -> None:
        sending = frozenset[str]().union(*self.sending.values())
        assert sending.isdisjoint(frozenset[str]().union(*self.moving.values()))


TestTransfers = TransferMachine.TestCase
TestTransfers.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
