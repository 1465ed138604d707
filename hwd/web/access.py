"""All calls of the HTTP API, and the access of every call: who may make it. `ACCESS` has what hosts may say, too."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from hwd.model.status import Problem
from hwd.web.calls.call import API, access_of, answers_of, bodies_of
from hwd.web.calls.demand_calls import DEMANDS
from hwd.web.calls.event_calls import EVENTS
from hwd.web.calls.fault_calls import FAULTS
from hwd.web.calls.job_calls import JOBS
from hwd.web.calls.lease_calls import LEASES
from hwd.web.calls.light_calls import LIGHT
from hwd.web.calls.metric_calls import METRICS
from hwd.web.calls.override_calls import OVERRIDES
from hwd.web.calls.program_calls import PROGRAMS
from hwd.web.calls.rack_calls import PROBES, RACK
from hwd.web.calls.run_calls import RUNS
from hwd.web.calls.set_calls import SETS
from hwd.web.calls.testbed_calls import TESTBED
from hwd_agents.wire.access import ANYONE, ASKS, LINES, Access

TABLES: Final = (
    *(RACK, TESTBED, LIGHT, SETS, RUNS, LEASES, OVERRIDES, FAULTS, PROGRAMS, JOBS, DEMANDS, EVENTS, PROBES, METRICS),
)
"""In the order of the OpenAPI document."""
BODIES: Final = bodies_of(TABLES)
ANSWERS: Final = answers_of(TABLES, Problem)
CALLS: Final[Mapping[str, Access]] = MappingProxyType({**access_of(TABLES), f"GET {API}/openapi.json": ANYONE})
"""By method and path."""

ACCESS: Final[Mapping[str, Access]] = MappingProxyType(
    {
        **CALLS,
        **{f"line {name}": access for name, access in LINES.items()},
        **{f"ask {verb}": access for verb, access in ASKS.items()},
    }
)
"""The access rules of all there is: the calls, the lines of the sockets of a host, and the verbs of what agents ask."""
