"""The lines of the transfer socket: JSON, one in a line.

{"claim": {"links": ["eth0"], "phase": "all-reduce 7", "within_s": 5}, "id": 1}
{"id": 1, "outcome": "go", "transfer": "8f14e45f-1", "within_s": 5.0, "why": ""}
{"end": "8f14e45f-1", "id": 2}
{"id": 2, "outcome": "ended", "transfer": "8f14e45f-1", "within_s": null, "why": ""}
{"over": "8f14e45f-1", "why": "..."}        sent by the agent as soon as it knows
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hwd_agents.wire.bounds import PORTS_MOST, At, Name, Seconds, Text


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ports or links of this host (`eth0`, `h0.eth0`, `h0.eth0<->h1.eth0`), the phase of the work and its longest time.

    `wait_s`: how long to wait for ports that are being moved. `process`: a name, such as `rank 3`.
    """

    links: Annotated[list[Name], Meta(min_length=1, max_length=PORTS_MOST)]
    within_s: Seconds
    phase: Name = "-"
    wait_s: Annotated[float, Meta(ge=0, le=60)] = 0.0
    process: Annotated[str, Meta(max_length=64)] = ""


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of both. `id` is returned in the answer."""

    claim: Claim | None = None
    end: Name | None = None
    id: Text | At | None = None


class AnswerLine(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome`: `go`: send now, for `within_s` from the claim at the longest; `ended`; `over`: it had ended before,
    for `why`; `refused`: do not send, for `why`; `failed`: the daemon cannot be asked now, do not send.
    """

    id: Text | At | None
    outcome: Literal["go", "ended", "over", "refused", "failed"]
    transfer: Name = ""
    within_s: float | None = None
    why: Text = ""


class OverLine(msgspec.Struct, frozen=True, kw_only=True):
    """A transfer is over before its process has ended it."""

    over: Name
    why: Text
