"""Thorlabs OSW12 and OSW22 (OSW-E): commands that end in LF, answers that end in CR LF, errors as `Error nn,text`.

Facts as published programs use them on an OSW22-1310E: `S 1` bar or port 1, `S 2` cross or port 2, neither answered;
`S?`, `T?`, `I?` one line each. The first `S?` after a set may be answered with the old position. Loss as in a buyer's
guide of 2026 for mechanical 1x2 parts, at most 0.8 to 1.0 dB; time as ACOS quotes it. Neither is a figure of Thorlabs.
Whether a unit keeps its state without power is unknown; we assume it does not.
"""

from functools import partial
from typing import Final, Literal

from pydantic import Field

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import NOT_REPORTED, Capabilities, Identity
from hwd_drivers.devices.element_switch import RereadOptions
from hwd_drivers.devices.elements import part_capabilities, selector, two_by_twos
from hwd_drivers.devices.line_part import LineElement, LinePart, Query
from hwd_drivers.devices.registry import DriverSpec, Options
from hwd_drivers.transports.serial_line import SerialLine


class ThorlabsOptions(RereadOptions):
    """Options of an OSW12 or OSW22 in a testbed."""

    reread_after_s: float = Field(
        default=0.1,
        gt=0,
        description="time between readings after a change; the first may be the old state; 0.1 to 0.3 s suffice",
    )


class TwinOptions(Options):
    """Behaviour of the twin where no source documents real units."""

    type: str | None = Field(default=None, min_length=1, description="answer to T?; left out, OSW12 or OSW22")
    board: str = Field(default="OSW-E V1.0", min_length=2, description="answer to I?")
    stale: Literal["first", "moving", "never"] = Field(
        default="first",
        description="S? reports the old position: once after a set (as in published programs), during a move, or never",
    )
    wrong_position: str = Field(
        default="02,Invalid parameter", pattern=r"\w+,.*", description="error for S with another position"
    )
    unknown_command: str = Field(default="01,Unknown command", pattern=r"\w+,.*", description="error for other lines")


PART: Final = LinePart(
    name="OSW",
    line=SerialLine(baud=115_200, rtscts=True),
    end="\n",
    where=Query(line="S?", answer="([12])"),
    select="S {}",
    number="-?[0-9]{1,6}",
    identity=(
        Query(line="I?", answer=r"(?![12]\Z).*", twin=lambda unit: unit.options.board),  # no late answer to S?
        Query(
            line="T?",
            answer=".*",  # a code that may be a digit, for all that is known
            twin=lambda unit: unit.options.type or ("OSW22" if unit.capabilities.two_sided else "OSW12"),
        ),
    ),
    identify=lambda board, kind: Identity(vendor="Thorlabs", model=kind, serial=NOT_REPORTED, firmware=board),
    refusal_line=r"Error\s+(?P<code>\w+)\s*,\s*(?P<text>.*)",
    refuse="Error {code},{text}",
    denial=("02", "told to say no"),
    unknown=lambda options: options.unknown_command,
    no_channel=lambda options: options.wrong_position,
    options=TwinOptions,
    old=lambda options: options.stale,
)


class ThorlabsSwitch(LineElement):
    """One session with one switch."""

    part = PART
    options = ThorlabsOptions


def _model(model: str, kind: str, size: str | None) -> Capabilities:
    if size not in (None, kind):
        raise ConfigError(f"size {size}: an {model} is {kind}. Leave it out")
    made = two_by_twos(1) if kind == "2x2" else selector(2)
    return part_capabilities(*made, loss_db_typical=0.8, loss_db_max=1.0)


driver: Final = DriverSpec(
    name="thorlabs-osw",
    open=ThorlabsSwitch.open,
    options=ThorlabsOptions,
    models={"osw12": partial(_model, "osw12", "1x2"), "osw22": partial(_model, "osw22", "2x2")},
    twin=f"{__name__}:PART",
    default_port=0,
)
