"""Service: the calls of the daemon by noun, bodies in and answers out, without HTTP."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hwd.web.calls.demand_calls import DemandCalls
from hwd.web.calls.event_calls import EventCalls
from hwd.web.calls.fault_calls import FaultCalls
from hwd.web.calls.job_calls import JobCalls
from hwd.web.calls.lease_calls import LeaseCalls
from hwd.web.calls.light_calls import LightCalls
from hwd.web.calls.metric_calls import MetricCalls
from hwd.web.calls.override_calls import OverrideCalls
from hwd.web.calls.program_calls import ProgramCalls
from hwd.web.calls.rack_calls import RackCalls
from hwd.web.calls.run_calls import RunCalls
from hwd.web.calls.set_calls import SetCalls
from hwd.web.calls.testbed_calls import TestbedCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The daemon's offer to its callers. All methods of its parts raise HwdError, whose `exit_status` and `title` go to
    the caller.
    """

    rack: RackCalls
    testbed: TestbedCalls
    light: LightCalls
    sets: SetCalls
    runs: RunCalls
    leases: LeaseCalls
    overrides: OverrideCalls
    faults: FaultCalls
    programs: ProgramCalls
    jobs: JobCalls
    demands: DemandCalls
    events: EventCalls
    metrics: MetricCalls

    close: Callable[[], Awaitable[None]]
    """Brings runs and reconfigurations into their safe states, and ends programs; jobs go on without the daemon.
    Nothing new begins from then on.
    """
