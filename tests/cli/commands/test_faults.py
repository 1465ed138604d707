"""`hwd fault` against a twin rack that runs as a process of its own."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hwd.cli.commands.faults import parse_words
from hwd.config.run_files.places import rack_of
from hwd_drivers.core.errors import ConfigError

from ...answers import check_answers

EXAMPLE = Path(__file__).parents[3] / "examples" / "two-hosts.yaml"
WITHIN_S = 30.0


@pytest.fixture(scope="module")
def rack(places: Path) -> Iterator[str]:
    """The name of the testbed whose rack is up."""
    command = [sys.executable, "-m", "hwd.cli", "twin", "up", str(EXAMPLE), "--process-hosts", "--no-agents"]
    with (places / "rack.log").open("wb") as words, subprocess.Popen(command, stderr=words) as process:
        try:
            asyncio.run(_until_up(process))
            yield "two-hosts"
        finally:
            process.terminate()


async def _until_up(process: "subprocess.Popen[bytes]") -> None:
    async with asyncio.timeout(WITHIN_S):
        while rack_of("two-hosts") is None:
            assert process.poll() is None
            await asyncio.sleep(0.02)


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
            return msgspec.json.encode(found).decode()
        except ConfigError as error:
            return str(error)

    check_answers(Path(__file__).with_name("faults.txt"), {"words": fault})
