"""Sercalo USB units: lines that end in CR LF both ways, data lines closed by `:ack` or `:nack`.

Facts of one published program: `:iden?`, `:set-chan-3`, `:get-chan?`. Data comes before the acknowledgement; the
channel is the text between the last colon and the first comma of its last line. The lines of `:iden?` are undocumented:
all of them are in the model.
"""

from functools import partial
from typing import Final

from hwd_drivers.core.values import NOT_REPORTED, Identity
from hwd_drivers.devices.element_switch import PartOptions
from hwd_drivers.devices.elements import one_by
from hwd_drivers.devices.line_part import LineElement, LinePart, Query
from hwd_drivers.devices.registry import DriverSpec, Evidence
from hwd_drivers.devices.serial_part import AnswerTime
from hwd_drivers.transports.serial_line import SerialLine

PART: Final = LinePart(
    name="Sercalo",
    line=SerialLine(baud=115_200),
    where=Query(line=":get-chan?", answer=r"(?:(?s:.*)\n)?(?:.*:)?[^\S\n]*([0-9]{1,4})[^\S\n]*(?:,[^:\n]*)?"),
    select=":set-chan-{}",
    identity=(
        Query(line=":iden?", answer="(?s:.+)", twin=lambda unit: f"Sercalo 1x{unit.channels}\nS/N {unit.serial}"),
    ),
    identify=lambda text: Identity(
        vendor="Sercalo", model=text.replace("\n", "; "), serial=NOT_REPORTED, firmware=NOT_REPORTED
    ),
    ok=":ack",
    refusal_line="(?P<code>:nack)(?P<text>)",
    refuse=":nack",
    denial=(":nack", ""),
    options=AnswerTime,
)


class SercaloAsciiSwitch(LineElement):
    """One session with one unit."""

    part = PART


driver: Final = DriverSpec(
    name="sercalo-ascii",
    open=SercaloAsciiSwitch.open,
    options=PartOptions,
    models={"usb": partial(one_by, "a Sercalo switch", channels_most=255)},
    twin=f"{__name__}:PART",
    default_port=0,
    sizes={"usb": "1x8"},
    evidence=Evidence.THIN,
)
