"""The bodies of HTTP calls. Unknown fields are refused, so that a misspelt limit is not ignored."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

TEXT_MAX = 1_000_000
"""Characters of a file that is sent; the longest sensible playbook has some thousand."""
DAY_S = 86_400.0

Seconds = Annotated[float, Field(gt=0, le=DAY_S, allow_inf_nan=False)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class File(Body):
    """A file of the caller; `name` appears in messages only, and no file of that name is opened."""

    name: Annotated[str, Field(min_length=1, max_length=4096)]
    text: Annotated[str, Field(max_length=TEXT_MAX)]


class PlanBody(Body):
    """What is wanted: `what` as on the command line, or a topology `file`."""

    what: Annotated[str, Field(max_length=100_000)] = ""
    file: File | None = None
    mode: Literal["safe", "update", "overwrite"] = "update"
    lease: str | None = None
    ready_within_s: Seconds | None = None
    confirm_within_s: Seconds | None = None


class ReconfigurationBody(PlanBody):
    """As `PlanBody`, or the hash of a plan, without any other field of it.

    `id`: the reconfiguration's, by default a new one; who chooses it can roll back before the answer comes.
    """

    hash: Annotated[str, Field(pattern="^[0-9a-f]{12}$")] | None = None
    id: Annotated[str, Field(pattern="^[0-9a-z]{8}$")] | None = None


class RunBody(Body):
    """A playbook by its text, with the files that it names in `files`; `file` is its name and is not opened."""

    text: Annotated[str, Field(max_length=TEXT_MAX)]
    file: Annotated[str, Field(min_length=1, max_length=4096)]
    parameters: dict[str, str] = {}
    due_wall_ns: Annotated[int | None, Field(description="unix time; it starts no earlier", ge=0, lt=1 << 63)] = None


class ByBody(Body):
    """Who makes the request; the state of the run names them."""

    by: Annotated[str, Field(min_length=1, max_length=200)] = "a caller of the HTTP API"


class LeaseBody(Body):
    holder: Annotated[str, Field(min_length=1, max_length=200)]
    ports: Annotated[list[str], Field(min_length=1, max_length=10_000)]
    for_s: float


class RenewBody(Body):
    for_s: float


class OverrideBody(ByBody):
    """The override of fibre ends of one switch, whatever crossconnect they are in; `why` is recorded with `by`."""

    switch: Annotated[str, Field(min_length=1, max_length=200)]
    ends: Annotated[
        list[str], Field(min_length=1, max_length=10_000, description="ports and ranges of them: `3A`, `4A..6A`")
    ]
    to: Literal["force-blocked", "normal"]
    lease: str | None = None
    why: Annotated[str, Field(max_length=1000)] = ""


class FaultBody(Body):
    """A fault of a twin, as `hwd.model.fault` has them, and the lease that the caller acts under."""

    model_config = ConfigDict(extra="allow", frozen=True)

    lease: str | None = None
