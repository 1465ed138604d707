"""Leoni `eol 1xN` and `mol 1xN` switches: lines that end in CR LF both ways, on a serial line or TCP port 10001.

Facts as several published programs use them: `type?` is answered `eol 1x8` or `mol 1x8`, `ch?` by a number, `firmware?`
by a line; `ch3` has no answer. The answer to an unknown channel is undocumented. That selections take 2 ms is what a
published program waits, not a figure of Leoni.
"""

from functools import partial
from typing import Final, Literal

from pydantic import Field

from hwd_drivers.core.values import NOT_REPORTED, Identity
from hwd_drivers.devices.element_switch import RereadOptions
from hwd_drivers.devices.elements import one_by
from hwd_drivers.devices.line_part import LineElement, LinePart, Query
from hwd_drivers.devices.registry import DriverSpec, Options
from hwd_drivers.transports.serial_line import SerialLine


class LeoniOptions(RereadOptions):
    """Options of a Leoni switch in a testbed."""

    reread_after_s: float = Field(
        default=0.002, gt=0, description="time between readings after a change; a published program waits 2 ms"
    )


class TwinOptions(Options):
    """Behaviour of the twin where no source documents real units."""

    family: Literal["eol", "mol"] = Field(default="eol", description="first word of the answer to type?")
    firmware: str = Field(default="V1.0", min_length=1, description="answer to firmware?")
    channel: Literal["wanted", "moved"] = Field(
        default="wanted", description="ch? tells the channel that was asked for at once, or when it is there"
    )


TYPE: Final = Query(
    line="type?", answer="[em]ol 1x([0-9]{1,4})", twin=lambda unit: f"{unit.options.family} 1x{unit.channels}"
)
FIRMWARE: Final = Query(line="firmware?", answer=rf"(?!{TYPE.answer}\Z).*", twin=lambda unit: unit.options.firmware)

PART: Final = LinePart(
    name="Leoni",
    line=SerialLine(baud=57_600),
    where=Query(line="ch?", answer="([0-9]{1,4})"),
    select="ch{}",
    identity=(TYPE, FIRMWARE),
    identify=lambda kind, firmware: Identity(vendor="Leoni", model=kind, serial=NOT_REPORTED, firmware=firmware),
    size=TYPE,
    says="the switch is an {text}",
    options=TwinOptions,
    old=lambda options: "moving" if options.channel == "moved" else "never",
)


class LeoniSwitch(LineElement):
    """One session with one switch."""

    part = PART
    options = LeoniOptions


driver: Final = DriverSpec(
    name="leoni",
    open=LeoniSwitch.open,
    options=LeoniOptions,
    models={"eol": partial(one_by, "a Leoni switch", settle_s=0.002)},
    twin=f"{__name__}:PART",
    default_port=10_001,
    sizes={"eol": "1x8"},
)
