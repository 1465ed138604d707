"""What a plane is told of its job's part of a rack, from what the daemon knows of it."""

import pytest

from hwd.daemon.installed_drivers import load_text
from hwd.fabric.fabric import Fabric
from hwd.jobs.job_failures import AWAY_S, DARK_S, LOST, JobFailures
from hwd.jobs.rack_health import RackHealth
from hwd.jobs.view import view_of
from hwd.model.documents.hosts import HostPort
from hwd.model.nic_port import NicPortId
from hwd.model.plane import CommunicationGroup, Failure, Job, Rank, Recovery

RACK = """
testbed: lab
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal, seed: 7}}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}, eth1: {module: 100g-lr4}}}
  h1: {nics: {eth0: {module: 100g-lr4}, eth1: {module: 100g-lr4}}}
fibres: [h0.eth0 <-> ocs1.1, h0.eth1 <-> ocs1.2, h1.eth0 <-> ocs1.3, h1.eth1 <-> ocs1.4]
"""
JOB = Job(
    id="k3v9a1xx",
    ranks=(Rank(number=0, host="h0"), Rank(number=1, host="h1")),
    groups={"world": CommunicationGroup(name="world", ranks=(0, 1))},
)
H0, H1 = NicPortId(host="h0", port="eth0"), NicPortId(host="h1", port="eth0")
LIT = frozenset({H0, H1})
NONE: frozenset[NicPortId] = frozenset()


def fabric(notes: str = "") -> Fabric:
    return Fabric(load_text(RACK + notes, file="lab.yaml").require())


class Rack:
    """What the daemon knows: carriers by port, agents that are away, and why the switch cannot be reached."""

    def __init__(self) -> None:
        self.carriers: dict[NicPortId, bool | None] = dict.fromkeys(view_of(fabric().testbed, JOB).ports, True)
        self.away: set[str] = set()
        self.cause: str | None = None
        self.health = RackHealth(
            fabric(), ports=self.ports, is_there=lambda host: host not in self.away, cause=lambda switch: self.cause
        )

    def ports(self, host: str) -> dict[str, HostPort]:
        return {
            id.port: HostPort(
                interface=id.port,
                present=True,
                ip=None,
                carrier=carrier,
                carrier_changes=None,
                probe_port=None,
                sources={},
                rdma=None,
            )
            for id, carrier in self.carriers.items()
            if id.host == host
        }

    def failures(self, *told: NicPortId | str) -> JobFailures:
        return JobFailures(JOB, view_of(fabric().testbed, JOB), self.health, told)


@pytest.fixture
def rack() -> Rack:
    return Rack()


def test_carrier_that_is_lost_is_told_once_and_told_again_when_it_is_back(rack: Rack) -> None:
    failures = rack.failures()
    assert failures.look(LIT, 0.0) == []
    rack.carriers[H0] = False
    assert failures.look(LIT, 1.0) == []
    assert failures.look(LIT, 1.0 + DARK_S) == [Failure(why=LOST, ports=(H0,))]
    assert failures.look(LIT, 60.0) == []
    rack.carriers[H0] = True
    assert failures.look(LIT, 61.0) == []
    assert failures.look(LIT, 61.0 + DARK_S) == [Recovery(ports=(H0,))]
    assert failures.look(LIT, 120.0) == []


def test_flap_is_no_failure_and_light_that_flaps_is_not_back(rack: Rack) -> None:
    failures = rack.failures()
    for at, carrier in enumerate([False, True, False, True]):
        rack.carriers[H0] = carrier
        assert failures.look(LIT, at * DARK_S) == []
    failures = rack.failures(H0)
    for at, carrier in enumerate([True, False, True, False]):
        rack.carriers[H0] = carrier
        assert failures.look(LIT, at * DARK_S) == []


def test_ports_that_the_plane_itself_moves_or_leaves_dark_have_not_failed(rack: Rack) -> None:
    failures = rack.failures()
    rack.carriers |= dict.fromkeys(rack.carriers, False)
    for at in range(3):
        assert failures.look(NONE, at * 60.0) == []
    assert failures.look(LIT, 200.0) == [], "the move has just ended: the last events of it may still come"
    rack.carriers |= dict.fromkeys(rack.carriers, True)
    assert failures.look(LIT, 200.0 + DARK_S) == []


def test_port_that_failed_and_was_left_is_not_back_before_it_has_a_carrier(rack: Rack) -> None:
    for failures in (rack.failures(), rack.failures(H0)):  # the second one: of a daemon that was started anew
        rack.carriers[H0] = False
        failures.look(LIT, 0.0)
        failures.look(LIT, DARK_S)
        for carrier in (False, None):
            rack.carriers[H0] = carrier
            assert failures.look(NONE, 60.0) == []
            assert failures.look(NONE, 120.0) == []
        rack.carriers[H0] = True
        failures.look(LIT, 180.0)
        assert failures.look(LIT, 180.0 + DARK_S) == [Recovery(ports=(H0,))]


def test_host_whose_agent_is_away_has_failed_and_its_ports_are_unknown(rack: Rack) -> None:
    failures = rack.failures()
    rack.away.add("h1")
    rack.carriers[H1] = None
    assert failures.look(LIT, 0.0) == []
    assert failures.look(LIT, AWAY_S) == [Failure(why="its agent is away", hosts=("h1",))]
    rack.away.clear()
    failures.look(LIT, 60.0)
    assert failures.look(LIT, 60.0 + AWAY_S) == [Recovery(hosts=("h1",))]


def test_switch_that_cannot_be_reached_takes_the_ports_that_lead_to_it(rack: Rack) -> None:
    failures = rack.failures()
    for at in range(int(AWAY_S)):
        rack.cause = f"attempt {at} failed"  # for a new reason each time
        assert failures.look(LIT, float(at)) == []
    (failure,) = failures.look(LIT, AWAY_S)
    assert failure == Failure(
        why=f"its light cannot be moved: ocs1: attempt {int(AWAY_S) - 1} failed",
        ports=tuple(sorted(rack.carriers, key=NicPortId.sort_key)),
    )
    rack.cause = None
    rack.carriers |= {id: id in LIT for id in rack.carriers}  # those without light have no carrier, and were not dark
    failures.look(LIT, 60.0)
    (recovery,) = failures.look(LIT, 60.0 + DARK_S)
    assert recovery == Recovery(ports=failure.ports)


def test_port_that_the_testbed_file_sets_aside_has_failed_until_it_is_normal_again(rack: Rack) -> None:
    failures = rack.failures()
    rack.health.use_testbed(fabric("ports: {ocs1.1: {state: maintenance, why: dirty}}"))
    assert failures.look(LIT, 0.0) == [Failure(why="the end of its fibre is maintenance: dirty", ports=(H0,))]
    rack.health.use_testbed(fabric())
    failures.look(LIT, 1.0)
    assert failures.look(LIT, 1.0 + DARK_S) == [Recovery(ports=(H0,))]
