"""Decodes the bodies of HTTP calls, with every finding at once, encodes the answers, and describes both for the OpenAPI
document.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from fastapi import Depends, FastAPI, Request, Response
from typing_extensions import override

from hwd.config.json_schema import struct_schemas
from hwd.model.bodies import (
    ActBody,
    Body,
    ByBody,
    EpochBody,
    FaultBody,
    JobBody,
    KickBody,
    LeaseBody,
    OverrideBody,
    PlanBody,
    PrepareBody,
    ProgramBody,
    ReconfigurationBody,
    ReleaseSetBody,
    ReloadBody,
    RenewBody,
    RunBody,
    SignalBody,
    SwitchBody,
)
from hwd.model.daemon import JournalGivenUp
from hwd.model.demand import DemandMatrix, DemandSummary
from hwd.model.document_list import DocumentList
from hwd.model.fault_confirmation import FaultConfirmation
from hwd.model.field_findings import findings
from hwd.model.host import HostStatus
from hwd.model.job_status import JobDemand, JobEfficiency, JobOutput, JobStatus, JobTraining, JobVerification
from hwd.model.lease import HeldLease
from hwd.model.plan_summary import PlanSummary
from hwd.model.prepared_set import PreparedSetStatus
from hwd.model.program import ProgramStatus
from hwd.model.reconfiguration import HistoryEntry, ReconfigurationStatus
from hwd.model.recorded_run import Run, RunSummary
from hwd.model.reload import ReloadReport
from hwd.model.run import AbortedRun, AcceptedRun, RunStatus
from hwd.model.status import Liveness, Problem, Readiness, Status
from hwd.model.switch import HeldEnds, SwitchStatus
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_plain, to_json

B = TypeVar("B", bound=Body)

JSON: Final = "application/json"
NUMBER_MAX: Final = "1.8e308"
REFERENCE: Final = "#/components/schemas/{name}"
BODIES: Final = (
    ActBody,
    ByBody,
    EpochBody,
    FaultBody,
    JobBody,
    KickBody,
    LeaseBody,
    OverrideBody,
    PlanBody,
    PrepareBody,
    ProgramBody,
    ReconfigurationBody,
    ReleaseSetBody,
    ReloadBody,
    RenewBody,
    RunBody,
    SignalBody,
    SwitchBody,
)
ANSWERS: Final = (
    AbortedRun,
    AcceptedRun,
    DemandMatrix,
    DemandSummary,
    DocumentList,
    FaultConfirmation,
    HeldEnds,
    HeldLease,
    HistoryEntry,
    HostStatus,
    JobDemand,
    JobEfficiency,
    JobOutput,
    JobStatus,
    JobTraining,
    JobVerification,
    JournalGivenUp,
    Liveness,
    PlanSummary,
    PreparedSetStatus,
    Problem,
    ProgramStatus,
    Readiness,
    ReconfigurationStatus,
    ReloadReport,
    Run,
    RunStatus,
    RunSummary,
    Status,
    SwitchStatus,
)


def body_of(kind: type[B], *, needed: bool = True) -> Any:
    """A dependency of FastAPI: the body of the request. Where it is not needed and missing, all fields have their
    defaults.
    """

    async def read(request: Request) -> B:
        text = await request.body()
        return kind() if not needed and text in (b"", b"null") else decode(json_of(request, text), kind)

    return Depends(read)


async def object_body(request: Request) -> dict[str, Any]:
    """A dependency of FastAPI: the body of the request, an object with any fields."""
    return json_of(request, await request.body())


def json_of(request: Request, text: bytes) -> dict[str, Any]:
    """Raises ConfigError where the body is missing or no JSON object."""
    if not text:
        raise ConfigError("the body: is missing")
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON and not media_type.endswith("+json"):
        raise ConfigError("the body: must be JSON, with the header Content-Type: application/json")
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if "out of range" in str(error):
            raise ConfigError(f"the body: {error}: a number lies between -{NUMBER_MAX} and {NUMBER_MAX}") from error
        raise ConfigError(f"the body is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError("the body: must be an object")
    return data


def decode(data: Mapping[str, Any], kind: type[B]) -> B:
    """Raises ConfigError with every finding, one in a line: `ready_within_s: must be greater than 0`."""
    try:
        return from_plain(data, kind)
    except msgspec.ValidationError as error:  # the first finding
        raise ConfigError("\n".join(findings(data, kind)) or reason_of(error)) from error


def encoded(answer: object, status: int = 200) -> Response:
    """The answer as JSON."""
    return Response(to_json(answer), status, media_type=JSON)


def described(
    body: type[Body] | None = None, *, needed: bool = True, answer: Any = None, status: int = 200
) -> dict[str, Any]:
    """Body and answer of a call, for its part of the OpenAPI document."""
    found: dict[str, Any] = {}
    if body is not None:
        found["requestBody"] = {"content": content_of(body), "required": needed}
    if answer is not None:
        found["responses"] = {str(status): {"content": content_of(answer)}}
    return found


class Api(FastAPI):
    """FastAPI describes the calls; the schemas of their bodies and answers are ours."""

    @override
    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            components = super().openapi().setdefault("components", {}).setdefault("schemas", {})
            components |= struct_schemas((*BODIES, *ANSWERS), ref_template=REFERENCE)[1]
        return super().openapi()


def content_of(kind: Any, media_type: str = JSON) -> dict[str, Any]:
    """The content of a body or an answer, for the OpenAPI document."""
    return {media_type: {"schema": struct_schemas((kind,), ref_template=REFERENCE)[0][0]}}
