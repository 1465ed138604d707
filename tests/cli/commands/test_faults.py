"""`hwd fault` against twins that run as processes of their own, with a scenario; and what can be set of a twin."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hwd.cli.commands.faults import parse_words
from hwd.config.run_files.places import rack_of, racks
from hwd.model.fault import Clear
from hwd.twin.control import ask, ask_present
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.structs import to_json

from ...answers import check_answers

EXAMPLE = Path(__file__).parents[3] / "examples" / "two-hosts.yaml"
WITHIN_S = 30.0


@contextmanager
def twin(*words: str, log: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "hwd.cli", "twin", *words]
    with log.open("w") as said, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def scenario(folder: Path, text: str) -> tuple[str, str]:
    """The option of a scenario that sets this fault at once."""
    path = folder / "scenario.yaml"
    path.write_text(f"scenario: s\nfaults:\n  - {text}\n")
    return "--scenario", str(path)


async def set_in(name: str) -> list[str]:
    """What is set in a rack when something is."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            if (rack := rack_of(name)) and (present := ask_present(Path(rack.control))):
                return [str(one) for one in present]
            await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def rack(places: Path) -> Iterator[str]:
    """The name of the testbed whose rack is up; its scenario was played, and what that has set was cleared."""
    slow = scenario(places, "{at_s: 0, switch: ocs1, fault: slow, seconds: 0.5}")
    with twin("up", str(EXAMPLE), "--process-hosts", "--no-agents", *slow, log=places / "rack.log"):
        assert asyncio.run(set_in("two-hosts")) == ["ocs1 slow seconds=0.5"]
        place = rack_of("two-hosts")
        assert place is not None
        assert place.protocols == {"ocs1": {"tl1": place.addresses["ocs1"]}}
        ask(Path(place.control), Clear())
        yield "two-hosts"


def test_twin_alone_plays_a_scenario_and_is_found_by_its_name(hwd, rack: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    alone = ("serve", "polatis-6000", "--listen", "127.0.0.1:0", "--set", "size=4x4", "--json")
    slow = scenario(tmp_path, "{at_s: 0, fault: slow, seconds: 0.5}")
    with (
        twin(*alone, *slow, log=tmp_path / "one.log") as one,
        twin(*alone, "--name", "ocs7", log=tmp_path / "other.log") as other,
    ):
        assert one.stdout is not None
        assert other.stdout is not None
        said = json.loads(one.stdout.readline())
        assert (said["name"], said["model"], said["driver"]) == ("polatis-6000", "polatis-6000", "polatis-tl1")
        assert said["addresses"] == {"tl1": said["address"]}
        assert asyncio.run(set_in("polatis-6000")) == ["polatis-6000 slow seconds=0.5"]
        assert json.loads(other.stdout.readline())["name"] == "ocs7"
        assert hwd("fault", "ocs7", "silent").out == "ocs7: ocs7 silent on=on\n"
        assert hwd("fault", "--testbed", "polatis-6000").out == "polatis-6000 slow seconds=0.5\n"
        several = hwd("fault", "clear")
        assert several.status == 2
        assert f"several twin racks are up: ocs7, polatis-6000, {rack}" in several.err
    assert [one.testbed for one in racks()] == [rack]


@pytest.mark.parametrize("driver", [(), ("--driver", "polatis-tl1")])
def test_settings_of_a_model_are_listed(hwd, driver: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    listed = {row["setting"]: row["default"] for row in hwd("twin", "settings", "polatis-6000", *driver, "--json").json}
    assert (listed["timing"], listed["in_use"], listed["user"]) == ("ideal", "move", "")
    assert hwd("twin", "settings", "polaris").status == 2


def test_the_daemon_of_hwd_url_says_whose_rack_is_meant(hwd, rack: str, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """The one rack that is up is not that of another daemon."""
    monkeypatch.setenv("HWD_URL", "http://127.0.0.1:1")
    said = hwd("fault", "--json")
    assert (said.status, said.json["error"]["title"]) == (4, "unreachable")
    assert "daemon http://127.0.0.1:1: cannot be reached: Connection refused" in said.err
    assert hwd("fault", "--testbed", rack).status == 0


def test_faults_are_set_listed_and_cleared(hwd, rack: str) -> None:  # type: ignore[no-untyped-def]
    assert hwd("fault").out == ""
    assert hwd("fault").err == "two-hosts: no fault is set\n"
    said = hwd("fault", "ocs1", "slow", "seconds=0.5")
    assert (said.status, said.out) == (0, "two-hosts: ocs1 slow seconds=0.5\n")
    assert hwd("fault", "h0.eth0", "slow-firmware", "seconds=4", "--json").json == {
        "fault": "slow-firmware",
        "port": "h0.eth0",
        "seconds": 4.0,
    }
    assert hwd("fault", '{"host": "h1", "fault": "clock-step", "seconds": -2}', "--testbed", rack).status == 0
    assert hwd("fault").out.splitlines() == [
        "ocs1 slow seconds=0.5",
        "h0.eth0 slow-firmware seconds=4.0",
        "h1 clock-step seconds=-2.0",
    ]
    assert hwd("fault", "h0.eth0", "clear").status == 0
    assert [one["fault"] for one in hwd("fault", "--json").json] == ["slow", "clock-step"]
    assert hwd("fault", "clear").out == "two-hosts: clear\n"
    assert hwd("fault", "--json").json == []


def test_what_cannot_be_is_refused_with_the_reason(hwd, rack: str) -> None:  # type: ignore[no-untyped-def]
    missing = hwd("fault", "ocs9", "reset")
    assert (missing.status, "no switch ocs9 in testbed two-hosts; it has ocs1" in missing.err) == (2, True)
    refused = hwd("fault", "h0", "agent-killed")
    assert (refused.status, "this rack was started without agents" in refused.err) == (3, True)
    unknown = hwd("fault", "ocs1", "slw")
    assert (unknown.status, "'slw' is no fault; there are deny" in unknown.err) == (2, True)
    away = hwd("fault", "clear", "--testbed", "elsewhere")
    assert (away.status, "testbed elsewhere: no twin rack of it is up" in away.err) == (4, True)
    assert hwd("fault").out == ""


def test_words_are_a_fault_or_say_what_is_missing() -> None:
    def fault(asked: str) -> str:
        try:
            found = parse_words([asked] if asked.startswith("{") else asked.split(), {"h0"})
            return to_json(found).decode()
        except ConfigError as error:
            return str(error)

    check_answers(Path(__file__).with_name("faults.txt"), {"words": fault})
