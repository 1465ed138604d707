"""Events of agents on the daemon's clock: where in its bounds one most likely lies."""

from msgspec.structs import replace

from hwd.bus.event import host_event
from hwd.model.host import HostEvent
from hwd.timeline.alignment import Alignment
from hwd_agents.wire.events import LightData

from ..agents.wire import golden

ALIGNMENT = Alignment(
    boot="b1",
    offset_ns=1000,
    drift_ppm=0.0,
    error_ns=0,
    at_agent_ns=10_000,
    samples=5,
    drift_error_ppm=0.0,
    round_trip_ns=100,
)


def data(kind: str, *, earliest_ns: int, one_sided: bool = False) -> HostEvent:
    told = golden.event(1, 10_000, kind=kind, data=LightData(lanes=[-2.0], one_sided=True) if one_sided else {})
    return host_event("h0", "b1", replace(told, earliest_ns=earliest_ns), ALIGNMENT, past=False)


def test_the_best_time_of_a_poll_is_the_middle_of_its_interval_and_of_a_notice_its_end() -> None:
    assert data("light", earliest_ns=8_000).best_ns == 8_000
    assert data("carrier", earliest_ns=8_000).best_ns == 9_000
    told = data("light", earliest_ns=0, one_sided=True)
    assert told.best_ns == 9_000
    assert told.earliest_ns <= -1_000
