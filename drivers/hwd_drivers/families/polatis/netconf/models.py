"""The declaration of the NETCONF driver: apart from the others, since it needs paramiko."""

from typing import Final

from hwd_drivers.devices.registry import DriverSpec, Evidence, check_login
from hwd_drivers.families.polatis.models import MODELS, SIZES
from hwd_drivers.families.polatis.netconf.driver import NetconfOptions, PolatisNetconfSwitch
from hwd_drivers.families.polatis.netconf.protocol import DEFAULT_PORT

driver: Final = DriverSpec(
    name="polatis-netconf",
    open=PolatisNetconfSwitch.open,
    check=check_login,
    options=NetconfOptions,
    models=MODELS,
    twin="hwd_drivers.families.polatis.twin:NETCONF_TWIN",
    default_port=DEFAULT_PORT,
    sizes=SIZES,
    evidence=Evidence.VENDOR,
    threads=True,
)
