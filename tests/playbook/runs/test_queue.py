"""The order in which runs start."""

from collections.abc import Iterable
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from hwd.playbook.queue import ITS_TIME, Queue
from hwd.ports.claim import Claim, holder_of
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A run as the queue sees it."""

    id: str
    ports: frozenset[str]
    from_wall_ns: int = 0
    span_s: float = 0.0


def asked(id: str, ports: str, from_wall_ns: int = 0) -> Asked:
    return Asked(id=id, ports=frozenset(ports), from_wall_ns=from_wall_ns)


def active(run: str, ports: Iterable[str]) -> Claim:
    return Claim(id=run, reason=Reason.RUN, owner=holder_of(run), ports=frozenset(ports), run=run)


def queue_of(*runs: Asked, ledger: Ledger | None = None) -> Queue[Asked]:
    queue: Queue[Asked] = Queue(ledger or Ledger())
    for run in runs:
        queue.add(run)
    return queue


def test_runs_on_other_ports_pass_by() -> None:
    ledger = Ledger()
    ledger.claim(active("now", "a"))
    queue = queue_of(asked("one", "ab"), asked("two", "c"), ledger=ledger)
    assert queue.look(0) == {"one": ("run now",), "two": ()}


def test_nobody_takes_the_ports_of_one_who_waits_before_it() -> None:
    ledger = Ledger()
    ledger.claim(active("now", "a"))
    queue = queue_of(asked("one", "ab"), asked("two", "b"), ledger=ledger)
    assert queue.look(0) == {"one": ("run now",), "two": ("run one",)}


def test_one_whose_time_has_not_come_holds_nobody_back() -> None:
    queue = queue_of(asked("late", "a", 10), asked("one", "a"))
    assert queue.look(5) == {"one": (), "late": (ITS_TIME,)}
    assert queue.look(10) == {"one": (), "late": ("run one",)}
    assert (queue.next_wall_ns(5), queue.next_wall_ns(10)) == (10, None)


def test_due_time_comes_before_arrival_and_arrival_decides_between_equals() -> None:
    queue = queue_of(asked("c", "a", 7), asked("b", "a", 3), asked("a", "a", 7))
    assert [run.id for run in queue.waiting] == ["b", "c", "a"]


def test_one_that_is_taken_out_frees_the_way() -> None:
    queue = queue_of(asked("one", "a"), asked("two", "a"))
    queue.remove("one")
    assert queue.get("one") is None
    assert queue.look(0) == {"two": ()}


runs = st.lists(
    st.builds(
        asked,
        st.uuids().map(str),
        st.sets(st.sampled_from("abcd")).map("".join),
        st.integers(min_value=0, max_value=5),
    ),
    max_size=12,
)


@given(runs)
def test_all_runs_are_done_and_never_two_with_a_port_in_common(several: list[Asked]) -> None:
    ledger = Ledger()
    queue = queue_of(*several, ledger=ledger)
    going: dict[str, frozenset[str]] = {}
    now, done = 0, []
    while queue.waiting or going:
        ready = [run for run, waits_for in queue.look(now).items() if not waits_for]
        if ready:
            run = queue.get(ready[0])
            assert run is not None
            assert not any(run.ports & ports for ports in going.values())
            queue.remove(run.id)
            going[run.id] = run.ports
            ledger.claim(active(run.id, run.ports))
        elif going:
            done.append(next(iter(going)))
            del going[done[-1]]
            ledger.release(Reason.RUN, done[-1])
        else:
            due = queue.next_wall_ns(now)
            assert due is not None, "somebody waits for nothing"
            now = due
    assert sorted(done) == sorted(run.id for run in several)
