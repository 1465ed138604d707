"""What testbeds may say of Sercalo switches, and what their twins can be told to be."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class SercaloOptions(BaseModel):
    """What a testbed may say of a Sercalo switch."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    open_within_s: float = Field(default=5.0, gt=0, description="limit for connecting and the first answer")


class TwinOptions(BaseModel):
    """How this unit behaves where no source tells how real ones do."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answer: Literal["timing", "at-once"] = Field(
        default="timing", description="a selection is acknowledged when the switch has moved, or at once"
    )
