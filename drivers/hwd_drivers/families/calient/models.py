"""The models of Calient switches, and the declarations of their drivers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities, PortSide, Side
from hwd_drivers.devices.registry import DriverSpec, check_login
from hwd_drivers.families.calient.rest.driver import CalientRestOptions, CalientRestSwitch
from hwd_drivers.families.calient.rest.protocol import DEFAULT_PORT as REST_PORT
from hwd_drivers.families.calient.tl1.driver import CalientOptions, CalientSwitch
from hwd_drivers.families.calient.tl1.protocol import DEFAULT_PORT as TL1_PORT


def s_series(model: str, ports_max: int) -> Callable[[str | None], Capabilities]:
    """A matrix of duplex ports: `nA` is the IN fibre of port n, `nB` its OUT fibre. Size: the ports that are fitted.

    A bulk set takes at most 200 ms (S320 hardware guide, page 44). Light goes from IN to OUT only: the guide has
    monitors at both fibres of every port, and connections have a direction. The losses are those of MEMS switches of
    that size (mFabric names 2 dB as usual): no data table was found. A unit without power is assumed to be dark.
    """

    def capabilities(size: str | None) -> Capabilities:
        text = size if size is not None else str(ports_max)
        ports = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
        if not 2 <= ports <= ports_max:
            raise ConfigError(
                f"size {size!r}: a {model} has 2 to {ports_max} ports. Write how many are fitted, such as 64"
            )
        numbers = [str(number) for number in range(1, ports + 1)]
        ends = tuple(PortSide(port=number, side=side) for side in (Side.A, Side.B) for number in numbers)
        return Capabilities(
            ends=ends,
            two_sided=True,
            reciprocal=False,
            latching=False,
            atomic_batches=False,
            moves_in_use=False,
            settle_s=0.2,
            loss_db_typical=2.0,
            loss_db_max=3.5,
            monitored=ends,
            reports_before=True,
        )

    return capabilities


MODELS: Final = {
    "calient-s160": s_series("calient-s160", 160),
    "calient-s320": s_series("calient-s320", 320),
}

tl1_driver: Final = DriverSpec(
    name="calient-tl1",
    open=CalientSwitch.open,
    check=check_login,
    options=CalientOptions,
    models=MODELS,
    twin="hwd_drivers.families.calient.twin:TL1_TWIN",
    default_port=TL1_PORT,
    sizes=dict.fromkeys(MODELS, "8"),
)

rest_driver: Final = replace(
    tl1_driver,
    name="calient-rest",
    open=CalientRestSwitch.open,
    options=CalientRestOptions,
    twin="hwd_drivers.families.calient.twin:REST_TWIN",
    default_port=REST_PORT,
)
