"""Options of Sercalo switches in testbeds, and of their twins."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class SercaloOptions(BaseModel):
    """Options of a Sercalo switch in a testbed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    open_within_s: float = Field(default=5.0, gt=0, description="limit for connecting and the first answer")


class TwinOptions(BaseModel):
    """Behaviour of the twin where no source documents real units."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answer: Literal["timing", "at-once"] = Field(
        default="timing", description="a selection is acknowledged when the switch has moved, or at once"
    )
