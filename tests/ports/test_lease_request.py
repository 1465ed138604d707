"""The order in which requests for leases are granted."""

from hwd.ports.claim import lease
from hwd.ports.lease_request import PATIENCE_S, LeaseRequest, in_turn, waits
from hwd.ports.ledger import Ledger

S = 10**9


def asks(id: str, ports: str, *, number: int, priority: int = 0, arrived_s: int = 0, for_s: float = 10) -> LeaseRequest:
    return LeaseRequest(
        id=id,
        number=number,
        holder=f"holder {id}",
        ports=frozenset(ports),
        for_s=for_s,
        arrived_wall_ns=arrived_s * S,
        priority=priority,
    )


def turns(*requests: LeaseRequest, now_s: float = 0) -> str:
    return "".join(one.id for one in in_turn(requests, round(now_s * S)))


def test_higher_priority_goes_first_and_arrival_decides_between_equals() -> None:
    first, second, high, low = (
        asks("1", "a", number=1),
        asks("2", "a", number=2),
        asks("h", "a", number=3, priority=5),
        asks("l", "a", number=4, priority=-1),
    )
    assert turns(low, high, second, first) == "h12l"


def test_who_has_waited_an_hour_is_overtaken_by_nobody_any_more() -> None:
    old, new = asks("o", "a", number=1, priority=-100), asks("n", "a", number=2, priority=100, arrived_s=1800)
    assert turns(old, new, now_s=PATIENCE_S - 1) == "no"
    assert turns(old, new, now_s=PATIENCE_S) == "on"


def test_smaller_one_does_not_pass_a_larger_one_that_waits_for_one_of_its_ports() -> None:
    ledger = Ledger()
    ledger.claim(lease(id="l", holder="ada", ports=frozenset("a"), taken_wall_ns=0, expires_wall_ns=99 * S))
    large, small, other = asks("1", "ab", number=1), asks("2", "b", number=2), asks("3", "c", number=3)
    found = {one.id: waits_for for one, waits_for in waits([large, small, other], ledger, 0)}
    assert "leased to ada (l)" in found["1"][0]
    assert found["2"] == ("b: holder 1 (1) is before it in the queue",)
    assert found["3"] == ()
