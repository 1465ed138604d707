"""`hwd twin up` and `hwd twin serve` with a scenario, and what can be set of a twin: processes of their own."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hwd.config.run_files.places import rack_of, racks

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
WITHIN_S = 30.0
Hwd = Any


@contextmanager
def running(*words: str, log: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "hwd.cli", "twin", *words]
    with log.open("w") as said, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def set_in(hwd: Hwd, *, name: str) -> list[str]:
    """What is set in a rack when something is."""

    async def main() -> list[str]:
        async with asyncio.timeout(WITHIN_S):
            while True:
                if rack_of(name) and (present := hwd("fault", "--testbed", name, "--json").json):
                    return [one["fault"] for one in present]
                await asyncio.sleep(0.02)

    return asyncio.run(main())


def scenario(folder: Path, text: str) -> str:
    path = folder / "scenario.yaml"
    path.write_text(f"scenario: s\nfaults:\n  - {text}\n")
    return str(path)


def test_rack_plays_a_scenario(hwd: Hwd, places: Path, tmp_path: Path) -> None:
    path = scenario(tmp_path, "{at_s: 0, switch: ocs1, fault: slow, seconds: 0.5}")
    command = ("up", str(EXAMPLE), "--process-hosts", "--no-agents", "--scenario", path)
    with running(*command, log=tmp_path / "log"):
        assert set_in(hwd, name="two-hosts") == ["slow"]
        rack = rack_of("two-hosts")
        assert rack is not None
        assert rack.protocols == {"ocs1": {"tl1": rack.addresses["ocs1"]}}


def test_twin_alone_plays_a_scenario_and_is_found_by_its_name(hwd: Hwd, places: Path, tmp_path: Path) -> None:
    path = scenario(tmp_path, "{at_s: 0, fault: slow, seconds: 0.5}")
    alone = ("serve", "polatis-6000", "--listen", "127.0.0.1:0", "--set", "size=4x4", "--json")
    with (
        running(*alone, "--scenario", path, log=tmp_path / "one.log") as one,
        running(*alone, "--name", "ocs7", log=tmp_path / "other.log") as other,
    ):
        assert one.stdout is not None
        assert other.stdout is not None
        said = json.loads(one.stdout.readline())
        assert (said["name"], said["model"], said["driver"]) == ("polatis-6000", "polatis-6000", "polatis-tl1")
        assert said["addresses"] == {"tl1": said["address"]}
        assert set_in(hwd, name="polatis-6000") == ["slow"]
        assert json.loads(other.stdout.readline())["name"] == "ocs7"
        assert hwd("fault", "ocs7", "silent").out == "ocs7: ocs7 silent on=on\n"
        assert hwd("fault", "--testbed", "polatis-6000").out == "polatis-6000 slow seconds=0.5\n"
        several = hwd("fault", "clear")
        assert (several.status, "several twin racks are up: ocs7, polatis-6000" in several.err) == (2, True)
    assert racks() == ()


@pytest.mark.parametrize("driver", [(), ("--driver", "polatis-tl1")])
def test_settings_of_a_model_are_listed(hwd: Hwd, driver: tuple[str, ...]) -> None:
    listed = {row["setting"]: row["default"] for row in hwd("twin", "settings", "polatis-6000", *driver, "--json").json}
    assert (listed["timing"], listed["in_use"], listed["user"]) == ("ideal", "move", "")
    assert hwd("twin", "settings", "polaris").status == 2
