"""TwinOptions: protocols of a Polatis twin, and its behaviour where no source documents real units."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

DARK_DBM = -60.0
"""Reading without light: the default threshold of the vendor's YANG model. Real units were seen to report -50.00."""


FIRMWARE = "6.5.1.7"
"""A version that was seen on real units."""
IDENTITY = r"^[A-Za-z0-9._/()+-]{1,64}$"
"""Characters that all protocols can carry in a name: no blank, comma or quote."""


class TwinOptions(BaseModel):
    """Options of the twin of a Polatis unit in a testbed, a scenario or `hwd twin serve --set`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tl1: str | None = Field(default=None, description="address for TL1, such as 127.0.0.1:0")
    scpi: str | None = Field(default=None, description="address for SCPI")
    netconf: str | None = Field(default=None, description="address for NETCONF")
    restconf: str | None = Field(default=None, description="address for RESTCONF")

    vendor: str = Field(default="Polatis", pattern=IDENTITY, description="vendor name, in all protocols")
    product_code: str | None = Field(
        default=None, pattern=IDENTITY, description="product code; left out, by its size and abilities"
    )
    serial: str | None = Field(default=None, pattern=IDENTITY, description="serial number; left out, drawn")
    firmware: str = Field(default=FIRMWARE, pattern=IDENTITY, description="version of its software")

    user: str | None = Field(default=None, description="the only user; left out, see logins")
    password: str | None = Field(default=None, description="that user's password; left out, any")
    logins: Literal["anybody", "usual"] = Field(
        default="anybody",
        description="who may log in without the options user and password; usual: admin and root, with password root",
    )
    login_needed: bool = Field(default=True, description="TL1 commands before a login are denied with PLNA")

    in_use: Literal["move", "deny"] = Field(default="move", description="what connecting does with ports in use")
    order: Literal["any", "lower-first"] = Field(
        default="any", description="lower-first: a pair that names the higher port first is refused"
    )
    duplicates: Literal["deny", "last"] = Field(
        default="deny", description="a port twice in one list; last: the pairs are made in turn, the last one stays"
    )
    lists: Literal["whole", "in-turn"] = Field(
        default="whole", description="in-turn: a list is done up to the pair that cannot be made"
    )
    list_code: Literal["IIAC", "IPNV"] = Field(
        default="IIAC", description="TL1 code for unequal lists and a port twice in one"
    )
    answer: Literal["timing", "at-once"] = Field(
        default="timing", description="at-once: the answer to a change does not wait"
    )
    acknowledge_after_s: float | None = Field(
        default=2.0, gt=0, description="'IP ctag' before TL1 answers that take longer"
    )
    lines_per_block: int | None = Field(default=None, gt=0, description="longer TL1 answers are split by '>'")
    reports: bool = Field(
        default=False, description="an autonomous message for each crossconnect that is tuned or gone"
    )
    sessions_max: int | None = Field(default=None, gt=0, description="sessions of one protocol at a time; more are cut")
    unfitted: Literal["left-out", "deny"] = Field(
        default="left-out",
        description="what TL1 does in reading a list of ports with those that have no monitor, or no attenuator",
    )
    reverse_monitors: bool = Field(default=False, description="monitors measure returning light too")
    averaging: Literal["steps", "doubling"] = Field(
        default="steps",
        description="averaging codes 1 to 8: 10, 20, 50, 100, 200, 500, 1000, 2000 ms, or each twice the one before",
    )
    alarm_separator: str = Field(default="&", description="between the words of an alarm that is on and triggered")
    shutter_open: str = Field(default="OPEN", pattern=r"^\S+$", description="TL1 word for an open shutter")
    shutter_closed: str = Field(default="CLOSED", pattern=r"^\S+$", description="TL1 word for a closed shutter")
    scpi_line_end: Literal["crlf", "lf", "cr"] | None = Field(
        default=None, description="after SCPI answers; left out, crlf, and on a serial line cr"
    )
    scpi_answers: Literal["joined", "lines"] = Field(
        default="joined",
        description="answers to SCPI queries of one line: in one line, parted by ';', or each in its own",
    )
    scpi_after_error: Literal["goes-on", "drops-line"] = Field(
        default="goes-on", description="what happens to the rest of a SCPI line after an error in it"
    )
    scpi_errors: Literal["session", "unit"] = Field(
        default="session", description="whether each SCPI session has an error queue of its own"
    )
    dark_dbm: float = Field(default=DARK_DBM, description="what a monitor reports without light")
    restconf_tls_pem: str | None = Field(
        default=None, description="file with a key and its certificate: RESTCONF is answered over TLS"
    )
    restconf_post_lasts_s: float | None = Field(
        default=None,
        gt=0,
        description="crossconnects of RESTCONF's POST disappear after this time; left out, never",
    )
    restconf_patch: bool = Field(default=True, description="false: RESTCONF answers 405 to PATCH")
    netconf_list: Literal["pair", "pairs"] = Field(
        default="pair",
        description="NETCONF name of the list of crossconnects; pairs: as in modules before 2017-08-04",
    )
    netconf_shutters: bool = Field(
        default=True,
        description="NETCONF has the rpc port-shutter-set-state of one published program; the vendor's model lacks it",
    )
    netconf_base: Literal["1.0", "1.1"] = Field(default="1.1", description="newest NETCONF that its hello offers")
