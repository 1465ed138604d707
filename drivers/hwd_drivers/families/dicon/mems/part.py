"""DiCon MEMS 1xN modules: commands end in CR, answers begin with a newline.

Facts of one published program, which others copied: `I1 3` selects, `I1 0` and `PK` park, `I1?` reports the channel, 0
for none, `CF?` the configuration, whose second field is the number of channels, `ID?` the identity in one line of an
unknown format, `EO 0` and `EO 1` stop and start the echo of commands. That program reads no answer to `I1 3` and `PK`.
"""

from functools import partial
from typing import Final

from pydantic import Field

from hwd_drivers.core.values import NOT_REPORTED, Identity
from hwd_drivers.devices.element_switch import RereadOptions
from hwd_drivers.devices.elements import one_by
from hwd_drivers.devices.line_part import LineElement, LinePart, Query
from hwd_drivers.devices.registry import DriverSpec, Evidence, Options
from hwd_drivers.transports.serial_line import SerialLine


class TwinOptions(Options):
    """Behaviour of the twin where no source documents real units."""

    echo: bool = Field(default=False, description="whether it repeats commands until EO 0")
    identity: str = Field(default="DiCon MEMS module", min_length=1, description="answer to ID?, without a comma")
    configuration: str = Field(default="1", description="first field of the answer to CF?; what it means is not known")


CHANNEL: Final = Query(line="I1?", answer="([0-9]{1,4})")
CONFIGURATION: Final = Query(
    line="CF?",
    answer=r"[^,]*,\s*([0-9]{1,4})\s*(?:,.*)?",
    twin=lambda unit: f"{unit.options.configuration},{unit.channels}",
)

PART: Final = LinePart(
    name="DiCon MEMS",
    line=SerialLine(baud=115_200),
    end="\r",
    before="\n",
    where=CHANNEL,
    select="I1 {}",
    park="PK",
    opening=(CONFIGURATION,),
    identity=(
        Query(
            line="ID?",
            answer=rf"(?!(?:{CHANNEL.answer}|{CONFIGURATION.answer})\Z).*",
            twin=lambda unit: unit.options.identity,
        ),
    ),
    identify=lambda text: Identity(vendor="DiCon", model=text, serial=NOT_REPORTED, firmware=NOT_REPORTED),
    size=CONFIGURATION,
    says="the module has {channels} channels",
    echo=("EO 0", "EO 1"),
    options=TwinOptions,
)


class MemsSwitch(LineElement):
    """One session with one module. It works with and without the echo of commands."""

    part = PART
    options = RereadOptions


driver: Final = DriverSpec(
    name="dicon-mems",
    open=MemsSwitch.open,
    options=RereadOptions,
    models={"mems": partial(one_by, "a DiCon MEMS module", dark=True)},
    twin=f"{__name__}:PART",
    default_port=0,
    sizes={"mems": "1x16"},
    evidence=Evidence.THIN,
)
