"""The access of every call: who may make it. Over HTTP by method and path; `ACCESS` has what hosts may say, too.

A route without a row is not served.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from hwd_agents.wire.access import ANYONE, ASKS, LINES, OPERATOR, Access, Proof, Who

HELD: Final = Access(who=Who.HOLDER, proof=Proof.EPOCH)
OVERRIDABLE: Final = Access(who=Who.HOLDER, proof=Proof.EPOCH, may_override=True)

CALLS: Final[Mapping[str, Access]] = MappingProxyType(
    {
        "GET /api/v1/status": ANYONE,
        "GET /api/v1/switches": ANYONE,
        "GET /api/v1/hosts": ANYONE,
        "POST /api/v1/reload": OPERATOR,
        "GET /api/v1/reconfigurations": ANYONE,
        "GET /api/v1/history": ANYONE,
        "POST /api/v1/plans": HELD,
        "POST /api/v1/reconfigurations": HELD,
        "POST /api/v1/reconfigurations/{id}/confirm": HELD,
        "POST /api/v1/reconfigurations/{id}/rollback": HELD,
        "POST /api/v1/reconfigurations/{id}/give-up": OPERATOR,
        "GET /api/v1/sets": ANYONE,
        "POST /api/v1/sets": HELD,
        "POST /api/v1/sets/{id}/switch": OVERRIDABLE,
        "POST /api/v1/sets/{id}/release": OVERRIDABLE,
        "GET /api/v1/runs": ANYONE,
        "POST /api/v1/runs": OPERATOR,
        "GET /api/v1/queue": ANYONE,
        "GET /api/v1/runs/{id}": ANYONE,
        "GET /api/v1/runs/{id}/state": ANYONE,
        "GET /api/v1/runs/{id}/documents": ANYONE,
        "POST /api/v1/runs/{id}/pause": OPERATOR,
        "POST /api/v1/runs/{id}/resume": OPERATOR,
        "POST /api/v1/runs/{id}/abort": OPERATOR,
        "GET /api/v1/leases": ANYONE,
        "GET /api/v1/leases/requests": ANYONE,
        "POST /api/v1/leases": OPERATOR,
        "POST /api/v1/leases/{id}/heartbeat": HELD,
        "POST /api/v1/leases/{id}/renew": HELD,
        "POST /api/v1/leases/{id}/release": HELD,
        "POST /api/v1/leases/{id}/kick": OPERATOR,
        "POST /api/v1/leases/{id}/grant": OPERATOR,
        "POST /api/v1/overrides": HELD,
        "POST /api/v1/faults": HELD,
        "GET /api/v1/programs": ANYONE,
        "POST /api/v1/hosts/{host}/programs": OPERATOR,
        "POST /api/v1/programs/{id}/signal": OPERATOR,
        "GET /api/v1/jobs": ANYONE,
        "POST /api/v1/jobs": OPERATOR,
        "GET /api/v1/jobs/{id}": ANYONE,
        "GET /api/v1/jobs/{id}/verification": ANYONE,
        "GET /api/v1/jobs/{id}/efficiency": ANYONE,
        "GET /api/v1/jobs/{id}/training": ANYONE,
        "GET /api/v1/jobs/{id}/demand": ANYONE,
        "POST /api/v1/jobs/{id}/stop": OPERATOR,
        "GET /api/v1/jobs/{id}/ranks/{rank}/output": ANYONE,
        "GET /api/v1/demands": ANYONE,
        "POST /api/v1/demands": OPERATOR,
        "GET /api/v1/demands/{name}": ANYONE,
        "DELETE /api/v1/demands/{name}": OPERATOR,
        "GET /api/v1/events": ANYONE,
        "GET /api/v1/documents": ANYONE,
        "GET /api/v1/openapi.json": ANYONE,
        "GET /": ANYONE,
        "GET /healthz": ANYONE,
        "GET /readyz": ANYONE,
        "GET /metrics": ANYONE,
    }
)
"""By method and path."""

ACCESS: Final[Mapping[str, Access]] = MappingProxyType(
    {
        **CALLS,
        **{f"line {name}": access for name, access in LINES.items()},
        **{f"ask {verb}": access for verb, access in ASKS.items()},
    }
)
"""The access rules of all there is: the calls, the lines of the sockets of a host, and the verbs of what agents ask."""
