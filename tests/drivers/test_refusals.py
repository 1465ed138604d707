"""What drivers refuse when they open a session or are asked for what cannot be, and the abilities that they have."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hwd_drivers.core.errors import BugError, ConfigError, LoginError
from hwd_drivers.devices import registry
from hwd_drivers.devices.abilities import Attenuators, CrossConnects, Device, PortOverrides, PowerReadings
from hwd_drivers.devices.registry import NoOptions, check_login
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.twins.virtual_time import run_virtual

from .stage import Session, Stage, Tapped

SPECS = [registry.find(name) for name in registry.names() if registry.distribution_of(name) == "hwd-drivers"]
ALL = [spec.name for spec in SPECS]
WITH_LOGIN = [spec.name for spec in SPECS if spec.check is check_login]


def on_stage(stage: Stage, story: Callable[[], Awaitable[None]]) -> None:
    """In virtual time, where the driver has no threads."""

    async def main() -> None:
        async with stage:
            await story()

    (asyncio.run if stage.spec.threads else run_virtual)(main())


def with_session(driver: str, story: Callable[[Stage, Session], Awaitable[None]], dialer: Dialer | None = None) -> None:
    """A twin of the driver's first model, and a session."""
    stage = Stage(driver, dialer=dialer)

    async def begin() -> None:
        await stage.start()
        await story(stage, await stage.open())

    on_stage(stage, begin)


@pytest.mark.parametrize("driver", ALL)
def test_other_options_and_a_change_of_nothing_are_bugs(driver: str) -> None:
    async def story(stage: Stage, switch: Session) -> None:
        if stage.spec.options is not NoOptions:
            with pytest.raises(BugError, match=f"not {stage.spec.options.__name__}"):
                await stage.open(stage.context(options=NoOptions()))
        with pytest.raises(BugError, match="no crossconnect"):
            await switch.change()

    with_session(driver, story)


@pytest.mark.parametrize(
    ("driver", "finding"),
    [
        *((f"polatis-{protocol}", "8x8") for protocol in ("tl1", "scpi", "restconf", "netconf")),
        ("calient-tl1", "the switch has ports 1 to 8"),
        ("calient-rest", "the switch has ports 1 to 8"),
        ("dicon-mxs", "a unit of 8x8 has no such port"),
    ],
)
def test_a_port_that_there_is_not_is_refused_before_anything_is_sent(driver: str, finding: str) -> None:
    dialer = Tapped()

    async def story(stage: Stage, switch: Session) -> None:
        sent = len(dialer.said)
        for pair in ("999A-1B", "1A-999B", "1-2"):
            with pytest.raises(ConfigError, match=finding):
                await switch.change(add=pair)
        assert len(dialer.said) == sent

    with_session(driver, story, dialer)


@pytest.mark.parametrize("driver", WITH_LOGIN)
def test_a_login_is_needed_and_does_not_show(driver: str) -> None:
    stage = Stage(driver, login=("admin", "geheim"))

    async def story() -> None:
        await stage.start()
        assert "geheim" not in repr(stage.context())
        with pytest.raises(ConfigError, match="needs a login"):
            await stage.open(stage.context(user=None))

    on_stage(stage, story)


@pytest.mark.parametrize(
    ("driver", "finding"),
    [
        ("polatis-tl1", "ocs1: .*login of admin: DENY PICC"),
        ("polatis-restconf", "ocs1: .*401 Unauthorized: access-denied"),
        ("polatis-netconf", "ocs1: .*refuses the login of admin"),
        ("calient-tl1", "ocs1: .*login of admin: DENY PIUI"),
        ("calient-rest", r"ocs1: GET /rest/ports/\?id=summary: the device answered 401"),
        ("sonic-ocs", "ocs1: .*refuses the login of admin"),
    ],
)
def test_a_wrong_password_is_a_login_error_without_the_password_and_leaves_no_session(
    driver: str, finding: str
) -> None:
    stage = Stage(driver, login=("admin", "geheim"))

    async def story() -> None:
        twin = await stage.start(user="admin", password="other")
        for _ in range(2):
            with pytest.raises(LoginError, match=finding) as refused:
                await stage.open()
            assert "geheim" not in str(refused.value)
        await asyncio.sleep(0.1)
        fronts = getattr(twin, "fronts", {}).values()
        assert {front.sessions for front in fronts if hasattr(front, "sessions")} <= {0}

    on_stage(stage, story)


@pytest.mark.parametrize(
    ("driver", "model", "finding"),
    [
        ("polatis-tl1", "polatis-6000", "the switch has 8x8 ports, the testbed says 16x16"),
        ("polatis-scpi", "polatis-6000", "the switch has 8x8 ports, the testbed says 16x16"),
        ("polatis-restconf", "polatis-6000", "the switch has 16 ports, the testbed says 16x16"),
        ("polatis-netconf", "polatis-6000", r"the switch has 8x8 \(16 ports\), the testbed says 16x16"),
        ("calient-tl1", "calient-s160", "the switch has 8 ports, the testbed says 16"),
        ("calient-rest", "calient-s320", "the switch has 8 ports, the testbed says 16"),
        ("sonic-ocs", "sonic-ocs", "the switch has 16 ports, 1A to 8B; the testbed says 32, 1A to 16B"),
    ],
)
def test_another_size_than_the_testbed_says_is_a_config_error(driver: str, model: str, finding: str) -> None:
    of_calient = driver.startswith("calient")
    stage = Stage(driver, model, "8" if of_calient else "8x8")

    async def story() -> None:
        await stage.start()
        stage.size = "16" if of_calient else "16x16"
        switch = await stage.open()
        with pytest.raises(ConfigError, match=f"ocs1: {finding}"):
            await switch.capabilities()

    on_stage(stage, story)


@pytest.mark.parametrize(
    ("driver", "abilities"),
    [
        ("polatis-tl1", (PowerReadings, PortOverrides, Attenuators)),
        ("polatis-scpi", (PowerReadings, PortOverrides)),
        ("polatis-restconf", (PowerReadings, PortOverrides, Attenuators)),
        ("polatis-netconf", (PowerReadings, PortOverrides, Attenuators)),
        ("calient-tl1", (PowerReadings,)),
        ("calient-rest", (PowerReadings,)),
        ("dicon-mxs", ()),
        ("sonic-ocs", (PortOverrides,)),
        ("ttl", ()),
    ],
)
def test_a_driver_has_the_abilities_that_its_protocol_gives(driver: str, abilities: tuple[type, ...]) -> None:
    async def story(stage: Stage, switch: Session) -> None:
        known = (Device, CrossConnects, PowerReadings, PortOverrides, Attenuators)
        assert {one for one in known if isinstance(switch.device, one)} == {Device, CrossConnects, *abilities}

    with_session(driver, story)
