"""Lumen 1xN switches: lines that end in CR LF, and `OK` or `NO <code> <text>` at the end of each answer.

    ID?      ->  Lumen,LX-8,1.0    vendor, model, firmware
    SIZE?    ->  8
    POS?     ->  3
    POS 3    ->  no more than OK

The device is made up. Replace this by your facts and their sources: manual and page, published program, capture.
"""

from functools import partial
from typing import Final

from pydantic import Field

from hwd_drivers.core.values import NOT_REPORTED, Identity
from hwd_drivers.devices.element_switch import PartOptions
from hwd_drivers.devices.elements import one_by
from hwd_drivers.devices.line_part import LineElement, LinePart, Query
from hwd_drivers.devices.registry import DriverSpec, Evidence
from hwd_drivers.devices.serial_part import AnswerTime
from hwd_drivers.transports.serial_line import SerialLine


class TwinOptions(AnswerTime):
    """Behaviour of the twin where no source documents real units."""

    firmware: str = Field(default="1.0", pattern="[^,]+", description="the last field of the answer to ID?")


PART: Final = LinePart(
    name="Lumen",
    line=SerialLine(baud=115_200),
    where=Query(line="POS?", answer="([0-9]{1,3})"),
    select="POS {}",
    identity=(
        Query(line="ID?", answer="[^,]+,[^,]+,[^,]+", twin=lambda unit: f"Lumen,LX-TWIN,{unit.options.firmware}"),
    ),
    identify=lambda text: Identity(
        **dict(zip(("vendor", "model", "firmware"), text.split(","), strict=True)), serial=NOT_REPORTED
    ),
    size=Query(line="SIZE?", answer="([0-9]{1,3})", twin=lambda unit: str(unit.channels)),
    says="the switch has {channels} channels",
    ok="OK",
    refusal_line="NO (?P<code>[0-9]+) (?P<text>.*)",
    refuse="NO {code} {text}",
    unknown=lambda options: "1,not a command",
    no_channel=lambda options: "2,no such channel",
    denial=("3", "told to say no"),
    options=TwinOptions,
)


class LumenSwitch(LineElement):
    """One session with one switch."""

    part = PART


driver: Final = DriverSpec(
    name="lumen",
    open=LumenSwitch.open,
    options=PartOptions,
    models={"lumen-1xn": partial(one_by, "a Lumen 1xN", channels_most=64, settle_s=0.008)},
    twin=f"{__name__}:PART",
    default_port=5000,
    sizes={"lumen-1xn": "1x8"},
    evidence=Evidence.THIN,
)
