"""A twin alone: it answers over TCP, is told to misbehave over its control socket, and plays its scenario."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hwd.config.run_files.places import rack_of, racks
from hwd.model.fault import parse_fault
from hwd.twin.control import ask, ask_present
from hwd.twin.single import RunningTwin, serve_single
from hwd.twin.twin_settings import TwinSettings
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.devices import registry

LOGIN = b"ACT-USER::admin:1::root;"
MODELS = [(driver, model) for driver in registry.names() for model in registry.find(driver).models]
pytestmark = pytest.mark.usefixtures("run_home")


@asynccontextmanager
async def serving(
    *settings: str,
    model: str = "polatis-6000",
    driver: str | None = None,
    name: str | None = None,
    scenario: Path | None = None,
) -> AsyncIterator[RunningTwin]:
    twin = TwinSettings.parse(model, settings or ["size=4x4"], driver=driver)
    up: asyncio.Future[RunningTwin] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve_single(twin, up.set_result, listen="127.0.0.1:0", name=name, scenario=scenario))

    def ended(task: asyncio.Task[None]) -> None:
        if not up.done():
            up.set_exception(task.exception() or AssertionError("it ended"))

    task.add_done_callback(ended)
    try:
        yield await up
    finally:
        task.cancel()
        await asyncio.wait([task])


async def talk(address: str, *commands: bytes) -> str:
    """What it answers, one command after the other; ends at the end of the session."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    said = b""
    try:
        for command in commands:
            writer.write(command)
            said += await asyncio.wait_for(reader.readuntil(b";\r\n"), 5)
    except (asyncio.IncompleteReadError, ConnectionError):
        said += b"<end>"
    finally:
        writer.close()
    return said.decode()


async def test_it_answers_and_says_where_and_light_that_comes_in_is_read_by_its_monitors_less_the_loss() -> None:
    async with serving() as twin:
        assert twin.name == "polatis-6000"
        assert (twin.addresses, twin.others) == ({"tl1": twin.address}, {})
        assert "M  1 COMPLD" in await talk(twin.address, LOGIN)
        place = rack_of("polatis-6000")
        assert place is not None
        assert place.addresses == {"polatis-6000": twin.address}
    assert racks() == ()
    async with serving("size=4x4", "light=-3") as twin:
        said = await talk(twin.address, LOGIN, b"RTRV-PORT-POWER::5:2:;", b"ENT-PATCH::1,5:3:;")
        assert '"5:-60.00"' in said
        await asyncio.sleep(0.15)  # monitors average over 100 ms
        said = await talk(twin.address, LOGIN, b"RTRV-PORT-POWER::5:2:;")
        power_dbm = float(said.partition('"5:')[2].partition('"')[0])
        assert -3 - 2.7 - 0.05 <= power_dbm <= -3 - 0.2


@pytest.mark.parametrize(("driver", "model"), MODELS, ids=["-".join(each) for each in MODELS])
async def test_every_model_that_is_installed_says_where_it_listens_and_does(driver: str, model: str) -> None:
    size = registry.find(driver).sizes.get(model)
    async with serving(*([f"size={size}"] if size else ["seed=0"]), model=model, driver=driver) as twin:
        assert twin.name == model
        assert twin.address in twin.addresses.values()
        assert rack_of(model) is not None
        host, _, port = twin.address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()


async def test_several_of_a_model_have_names_of_their_own() -> None:
    async with serving() as one, serving() as other, serving(name="ocs7") as third:
        assert [one.name, other.name, third.name] == ["polatis-6000", "polatis-6000-2", "ocs7"]
        with pytest.raises(RefusedError, match="ocs7: its twin rack runs already"):
            async with serving(name="ocs7"):
                raise AssertionError("it was held")


async def test_it_is_told_to_misbehave_while_it_runs_and_after_a_reboot_comes_back_at_the_same_place() -> None:
    async with serving(name="ocs7") as twin:
        place = rack_of("ocs7")
        assert place is not None
        control = Path(place.control)
        blocking = asyncio.get_running_loop().run_in_executor
        await blocking(None, ask, control, parse_fault({"switch": "ocs7", "fault": "deny", "code": "SROF"}))
        await blocking(None, ask, control, parse_fault({"switch": "ocs7", "fault": "fail", "ends": ["2A"]}))
        assert [str(fault) for fault in await blocking(None, ask_present, control)] == [
            "ocs7 deny code=SROF text=",
            "ocs7 fail ends=2A",
        ]
        assert "DENY\r\n   SROF" in await talk(twin.address, LOGIN, b"ENT-PATCH::1,5:2:;")
        assert [str(fault) for fault in await blocking(None, ask_present, control)] == ["ocs7 fail ends=2A"]
        for data, error in (
            ({"switch": "ocs8", "fault": "reset"}, "no ocs8 here; there is only the switch ocs7"),
            ({"port": "h0.eth0", "fault": "unplug"}, "there is only the switch ocs7 here"),
            ({"switch": "ocs7", "fault": "stick", "ends": ["9A"]}, "ocs7 has no port 9A"),
        ):
            with pytest.raises(ConfigError, match=error):
                await blocking(None, ask, control, parse_fault(data))
        await blocking(None, ask, control, parse_fault({"fault": "clear"}))
        assert await blocking(None, ask_present, control) == ()
        fault = parse_fault({"switch": "ocs7", "fault": "reboot", "seconds": 0.3})
        assert "COMPLD" in await talk(twin.address, LOGIN, b"ENT-PATCH::1,5:2:;")
        await blocking(None, ask, control, fault)
        with pytest.raises(ConnectionRefusedError):
            await talk(twin.address, LOGIN)
        async with asyncio.timeout(5):
            said = ""
            while not said:
                try:
                    said = await talk(twin.address, LOGIN, b"RTRV-PATCH:::3:;")
                except ConnectionRefusedError:
                    await asyncio.sleep(0.01)
        assert '"1,5"' not in said
        assert "M  3 COMPLD" in said


async def test_scenario_goes_on_while_it_runs_and_one_with_a_mistake_starts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "scenario: s\nfaults:\n  - {at_s: 0, fault: deny, code: SROF}\n  - {at_s: 0, fault: deny, code: SABT}\n"
    )
    async with serving(scenario=path) as twin:
        assert "DENY\r\n   SABT" in await talk(twin.address, LOGIN, b"ENT-PATCH::1,5:2:;"), "the later one"
    path.write_text("scenario: s\nfaults:\n  - {at_s: 0, fault: stick, ends: [5A]}\n")
    with pytest.raises(ConfigError, match=r"s\.yaml:3: faults\[0\]\.fault: polatis-6000 has no port 5A"):
        async with serving(scenario=path):
            raise AssertionError("it was started")
    assert racks() == ()
