"""The declaration of the NETCONF driver: apart from the others, since it needs paramiko."""

from functools import partial
from typing import Final

from hwd_drivers.devices.registry import DriverSpec, Evidence
from hwd_drivers.families.polatis.models import ALONE, SIZES, TELLING_MODELS
from hwd_drivers.families.polatis.netconf.driver import NetconfOptions, PolatisNetconfSwitch
from hwd_drivers.families.polatis.netconf.protocol import DEFAULT_PORT
from hwd_drivers.families.polatis.options import TwinOptions
from hwd_drivers.families.polatis.twin import PolatisTwin
from hwd_drivers.twins.faults import Denial

driver: Final = DriverSpec(
    name="polatis-netconf",
    open=PolatisNetconfSwitch.open,
    options=NetconfOptions,
    models=TELLING_MODELS,
    twin=partial(PolatisTwin, "netconf"),
    default_port=DEFAULT_PORT,
    twin_options=TwinOptions,
    alone=ALONE,
    sizes=SIZES,
    evidence=Evidence.VENDOR,
    threads=True,
    denial=Denial(code="resource-denied", text="told to say no"),
)
