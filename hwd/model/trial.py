"""TrialRun: which place a run has in a trial."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from typing_extensions import override

Treatment = Literal["a", "b"]


class TrialRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a comparison until decided. `trial`: its id; `pair`: from 1 on, each has a run of both treatments.

    `metric`: what is compared: a stage, or `run`, the duration of the run. `words`: the treatment as it was asked for,
    a playbook and parameters.
    """

    trial: Annotated[str, Meta(pattern=r"\A[a-z0-9]{8}\Z")]
    treatment: Treatment
    pair: Annotated[int, Meta(ge=1, le=1_000_000)]
    metric: Annotated[str, Meta(min_length=1, max_length=40)]
    words: Annotated[str, Meta(max_length=1000)] = ""

    @override
    def __str__(self) -> str:
        return f"{self.treatment} of pair {self.pair} of trial {self.trial}"
