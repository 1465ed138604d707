"""Offer: the calls of the daemon, bound to the parts that answer them."""

import asyncio

from hwd.daemon.assembly.engine import Engine
from hwd.daemon.assembly.foundation import Foundation
from hwd.daemon.assembly.hosts import Hosts
from hwd.daemon.assembly.job_work import JobWork
from hwd.daemon.assembly.leasing import Leasing
from hwd.daemon.assembly.run_work import RunWork
from hwd.telemetry import Metrics
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
from hwd.web.calls.testbed_calls import Reloads, TestbedCalls
from hwd.web.rack_status import RackStatus
from hwd.web.rights import Rights
from hwd.web.service import Service
from hwd.web.stream import EventStream


def service_of(
    base: Foundation,
    rack: RackStatus,
    reloads: Reloads,
    *,
    events: EventStream,
    metrics: Metrics,
    engine: Engine,
    hosts: Hosts,
    leasing: Leasing,
    jobs: JobWork,
    runs: RunWork,
) -> Service:
    """Bind each call to the part that answers it."""

    async def close() -> None:
        await jobs.jobs.close()
        await asyncio.gather(runs.runs.close(), engine.applies.close(), jobs.programs.close())

    in_use, clock, reconfigurer = base.in_use, base.clock, engine.reconfigurer
    rights = Rights(leasing.leases, jobs.jobs)
    leases = LeaseCalls(
        in_use=in_use,
        leases=leasing.leases,
        requests=leasing.requests,
        delegations=hosts.delegations,
        settings=hosts.settings,
        reconfigurer=reconfigurer,
        rights=rights,
        clock=clock,
    )
    return Service(
        rack=RackCalls(
            rack,
            in_use=in_use,
            leases=leases,
            reconfigurer=reconfigurer,
            transfers=engine.transfers,
            programs=jobs.programs,
            jobs=jobs.jobs,
            runs=runs.runs,
            clock=clock,
        ),
        testbed=TestbedCalls(reloads),
        light=LightCalls(
            in_use=in_use, applies=engine.applies, reconfigurer=reconfigurer, log=engine.log, rights=rights
        ),
        sets=SetCalls(
            applies=engine.applies, reconfigurer=reconfigurer, leases=leasing.leases, jobs=jobs.jobs, rights=rights
        ),
        runs=RunCalls(runs.runs, jobs=jobs.jobs, records=base.records, recorder=base.recorder, events=events),
        leases=leases,
        overrides=OverrideCalls(in_use=in_use, reconfigurer=reconfigurer, rack=rack, rights=rights),
        faults=FaultCalls(in_use=in_use, faults=runs.faults, rights=rights, clock=clock),
        programs=ProgramCalls(jobs.programs),
        jobs=JobCalls(jobs.jobs, jobs.reports),
        demands=DemandCalls(engine.demands),
        events=EventCalls(events),
        metrics=MetricCalls(metrics.render),
        close=close,
    )
