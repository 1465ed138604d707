"""Documents to be recorded, with what the tests of the records need in them."""

from hwd.model.host import ClockAligned, HostEvent
from hwd.model.run_facts import RunEnded, RunStarted
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.devices.facts import SwitchPower

from ..texts import by_end


def document(fact: Fact, *, at_ns: int = 1) -> Document:
    return Document(at_ns=at_ns, wall_ns=at_ns, fact=fact)


def power(n: float) -> Document:
    return document(SwitchPower(switch="ocs1", power_dbm=by_end({"1A": n})), at_ns=int(n))


def run_started(run: str) -> Document:
    return document(RunStarted(run=run, playbook="p", parameters={}, steps=1, virtual_time=True))


def run_ended(run: str) -> Document:
    return document(RunEnded(run=run, outcome="succeeded", why="", safe_state=None))


def event(seq: int, *, host: str = "h0", boot: str = "b1", at_ns: int = 1) -> Document:
    fact = HostEvent(
        host=host,
        boot=boot,
        seq=seq,
        type="carrier",
        port="eth0",
        earliest_ns=1,
        latest_ns=3,
        best_ns=2,
        agent_ns=2,
        origin="kernel",
        source="netlink",
        data={"carrier": True},
    )
    return document(fact, at_ns=at_ns)


def aligned(boot: str, offset_ns: int) -> Document:
    fact = ClockAligned(
        host="h0", boot=boot, offset_ns=offset_ns, drift_ppm=0.5, error_ns=1, agent_ns=1, samples=1, round_trip_ns=1
    )
    return document(fact)
