"""Opens sessions with switches by their drivers, as the testbed file says."""

from collections.abc import Awaitable, Callable, Mapping

from hwd.config.testbed.secrets import resolve
from hwd.model.testbed import Switch
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.errors import LinkError, StartingError
from hwd_drivers.devices import registry
from hwd_drivers.devices.abilities import Device
from hwd_drivers.transports.dial import Dialer

TWIN_LOGIN = "twin"
"""User and password where the testbed file gives none: a twin takes any."""

OpenSwitch = Callable[[Switch, Sink], Awaitable[Device]]


def opener(
    *,
    dialer: Dialer,
    clock: Clock,
    twin_address: Callable[[str], str | None],
    environment: Mapping[str, str],
    rack_starting: Callable[[], int | None] = lambda: None,
    testbed_file: str = "TESTBED",
) -> OpenSwitch:
    """A function that opens one session with a switch.

    `twin_address`: the address of a twin, None while its rack is down. `rack_starting`: the pid of our rack while it
    starts, else None. `testbed_file`: for the command that starts the rack. Secrets are read at each session, so that
    a new one takes effect.
    """

    async def open_switch(switch: Switch, sink: Sink) -> Device:
        address = switch.address if switch.twin is None else twin_address(switch.name)
        if address is None:
            if (pid := rack_starting()) is not None:
                raise StartingError(f"{switch.name}: its twin rack is starting (pid {pid})")
            raise LinkError(f"{switch.name}: its twin rack is not up. Start it with `hwd twin up {testbed_file}`")
        spec = registry.find(switch.driver)
        password = None
        if switch.login_password is not None:
            password = resolve(switch.login_password, environment=environment)
        elif switch.twin is not None:
            password = TWIN_LOGIN
        return await registry.open_device(
            spec,
            registry.OpenContext(
                name=switch.name,
                address=address,
                dialer=dialer,
                clock=clock,
                sink=sink,
                user=TWIN_LOGIN if switch.twin is not None and switch.login_user is None else switch.login_user,
                password=password,
                options=spec.options.model_validate(dict(switch.options)),
                capabilities=switch.capabilities,
            ),
        )

    return open_switch
