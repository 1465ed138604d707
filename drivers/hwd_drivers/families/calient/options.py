"""TwinOptions: protocols of a Calient twin, and its behaviour where no source documents real units."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class TwinOptions(BaseModel):
    """Options of the twin of a Calient unit in a testbed, a scenario or `hwd twin serve --set`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tl1: str | None = Field(default=None, description="address for TL1, such as 127.0.0.1:0")
    rest: str | None = Field(default=None, description="address for REST")

    rest_tls_pem: str | None = Field(
        default=None, description="file with a key and its certificate: REST is answered over TLS"
    )

    user: str | None = Field(default=None, description="the only user; left out, anybody may log in")
    password: str | None = Field(default=None, description="that user's password; left out, any")
    login_needed: bool = Field(default=True, description="TL1 commands before a login are denied with PLNA")
    login_code: str = Field(default="PIUI", pattern="^[A-Z]{4}$", description="TL1 code for a refused login")
    again_code: str | None = Field(
        default="SNVS",
        pattern="^[A-Z]{4}$",
        description="TL1 code for a second login in one session; null: it is accepted",
    )
    sessions_max: int | None = Field(default=None, gt=0, description="most TL1 sessions at a time; left out, no limit")
    idle_s: float | None = Field(
        default=60.0, gt=0, description="idle time after which a TL1 session is ended; null: never"
    )

    steps: Literal["two", "one"] = Field(
        default="two", description="one: ENT-CRS also activates, and ACT-CRS of what is active is denied"
    )
    delete_active: Literal["allow", "deny"] = Field(
        default="deny", description="what TL1 DLT-CRS does with an active connection"
    )
    in_use_code: str = Field(default="SROF", pattern="^[A-Z]{4}$", description="TL1 code for a port in use")
    answer: Literal["at-once", "timing"] = Field(
        default="at-once", description="timing: a change is answered after the twin's timing"
    )
    results: Literal["wrapped", "flat"] = Field(
        default="wrapped", description="wrapped: each result of a REST bulk is under `response`"
    )
    rest_add: Literal["activates", "enters"] = Field(
        default="activates", description="enters: REST add and badd do not activate connections"
    )
    rest_list: Literal["states", "names"] = Field(
        default="states", description="names: the list of connections over REST has no states, only the details have"
    )
    login_by: Literal["basic-or-cookie", "basic"] = Field(
        default="basic-or-cookie", description="what REST accepts as a login after the first request"
    )

    modules_per_shelf: int = Field(default=8, gt=0, description="port names: modules of a shelf, each of eight ports")
    reports: bool = Field(
        default=False,
        description="an autonomous TL1 message for each connection that comes into service, fails or goes",
    )
    lines_per_block: int | None = Field(default=None, gt=0, description="longer TL1 answers are split by '>'")
    power_up: Literal["restore", "empty"] = Field(
        default="restore", description="whether connections are restored after a reboot"
    )
    dark_dbm: float | None = Field(default=None, description="what a monitor reports without light; null: NONE")
