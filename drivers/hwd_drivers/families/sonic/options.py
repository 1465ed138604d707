"""TwinOptions: behaviour of a SONiC twin where no source documents real units."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class TwinOptions(BaseModel):
    """Options of the twin of a SONiC optical switch in a testbed, a scenario or `hwd twin serve --set`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user: str | None = Field(default=None, description="the only user; left out, anybody may log in")
    password: str | None = Field(default=None, description="that user's password; left out, any, and any public key")
    hostname: str = Field(default="sonic", pattern=r"[A-Za-z0-9.-]{1,63}", description="in the prompt of its shell")
    default_mode: Literal["update", "safe", "overwrite"] = Field(
        default="safe",
        description="mode of `add` without one; programs for real units expect safe, the design has update",
    )
    sudo_needed: bool = Field(default=False, description="config commands without sudo are refused")
    error_status: int = Field(default=1, ge=0, le=255, description="exit status of a command that is refused")
    answer: Literal["at-once", "timing"] = Field(
        default="at-once", description="timing: a change is answered after the twin's timing"
    )
    startup: Literal["config", "dark"] = Field(
        default="config", description="what it makes after a restart: what is configured, or nothing"
    )
    connector: str = Field(default="LC UPC", description="in the table of ports")
    sessions_max: int | None = Field(default=None, gt=0, description="SSH connections at a time; more are cut")
