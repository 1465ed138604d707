"""`hwd-agent` as a process: exit statuses, one agent a spool, its priority, and an end in order."""

import asyncio
import os
import signal
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from hwd_agents.process.version import own_version

GOOD = """
testbed: tb
host: h0
broker: {{from: {folder}/daemon.json}}
spool: {{directory: {folder}/spool}}
ports: {{eth0: {{interface: eth0, ip: 10.1.0.1}}}}
sources: {{twin: {{address: "unix:{folder}/h0.sock"}}}}
"""
COMMAND = ("-c", "from hwd_agents.process.main import main; main()", "--config")


async def start(path: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, *COMMAND, str(path), stderr=asyncio.subprocess.PIPE)


async def read_until(process: asyncio.subprocess.Process, words: str) -> str:
    assert process.stderr is not None
    text = ""
    while words not in text:
        line = await process.stderr.readline()
        assert line, text
        text += line.decode()
    return text


async def test_one_agent_a_spool_which_is_its_users_alone_and_sigterm_ends_it_in_order(tmp_path: Path) -> None:
    path, spool = tmp_path / "agent.yaml", tmp_path / "spool"
    path.write_text(GOOD.format(folder=tmp_path))
    before = os.umask(0)
    try:
        first = await start(path)
        await read_until(first, "boot")
        made = {one.name: one.stat().st_mode & 0o777 for one in spool.iterdir()}
        assert made == dict.fromkeys(("events", "lock", "settings"), 0o600)
        assert spool.stat().st_mode & 0o777 == 0o700
        second = await start(path)
        _, err = await second.communicate()
        assert second.returncode == 3
        assert f"the agent with pid {first.pid} holds this spool" in err.decode()
        first.send_signal(signal.SIGTERM)
        _, err = await first.communicate()
        assert first.returncode == 0
        assert "Traceback" not in err.decode()
    finally:
        os.umask(before)


def test_a_bad_file_ends_with_2_however_the_options_are_parsed_and_what_only_servers_need_is_not_imported(
    tmp_path: Path,
) -> None:
    """Each of the modules takes one to three megabytes of every host."""
    path = tmp_path / "agent.yaml"
    path.write_text("testbed: tb\n")
    look = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); " + COMMAND[1]
    plain, parsed, unknown = (
        subprocess.run([sys.executable, "-c", look, *options], capture_output=True, text=True, check=False)
        for options in (["--config", str(path)], ["--log", "warning", f"--config={path}"], ["--config", "--help"])
    )
    assert plain.returncode == parsed.returncode == unknown.returncode == 2
    assert plain.stderr == parsed.stderr
    assert f"hwd-agent: bad input: {path}: " in plain.stderr
    assert "Traceback" not in unknown.stderr
    loaded = set(plain.stdout.split())
    assert "hwd_agents.process.agent" in loaded
    assert not loaded & {"typer", "importlib.metadata", "pyverbs", "hwd_drivers.devices.registry"}


async def test_files_of_the_spool_are_its_users_alone(tmp_path: Path) -> None:
    path, spool = tmp_path / "agent.yaml", tmp_path / "spool"
    path.write_text(GOOD.format(folder=tmp_path))
    spool.mkdir()
    spool.chmod(0o750)  # as version 0.1 left them
    for name in ("events", "lock", "settings"):
        (spool / name).touch(0o640)
    agent = await start(path)
    await read_until(agent, "boot")
    agent.send_signal(signal.SIGTERM)
    await agent.communicate()
    left = {one.name: one.stat().st_mode & 0o777 for one in spool.iterdir()}
    assert left == dict.fromkeys(("events", "lock", "settings"), 0o600)
    assert spool.stat().st_mode & 0o777 == 0o700


@pytest.mark.root
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("ro,size=64k", "Read-only file system. Mount its file system writable again"),
        ("size=64k,nr_inodes=2", "No space left on device. Free space on its file system"),
    ],
)
def test_a_spool_that_cannot_be_opened_ends_with_2_and_the_remedy(tmp_path: Path, how: str, words: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: a tmpfs is mounted")
    folder = tmp_path / "spool"
    folder.mkdir()
    path = tmp_path / "agent.yaml"
    path.write_text(GOOD.format(folder=tmp_path))
    subprocess.run(["mount", "-t", "tmpfs", "-o", how, "hwd-test", folder], check=True)
    try:
        ended = subprocess.run([sys.executable, *COMMAND, str(path)], stderr=subprocess.PIPE, text=True, check=False)
    finally:
        subprocess.run(["umount", folder], check=True)
    assert ended.returncode == 2
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def priority_after(first: str) -> str:
    """What a process answers, and which policy it has then, after it did `first`."""
    code = (
        f"import os, resource; from hwd_agents.process.priority import ask_for_real_time as ask; {first}; "
        "print(ask(), os.sched_getscheduler(0))"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.root
def test_with_the_right_it_runs_before_others() -> None:
    assert priority_after("pass") == f"True {os.SCHED_RR | os.SCHED_RESET_ON_FORK}"


@pytest.mark.root
def test_without_the_right_it_goes_on_as_it_is() -> None:
    assert (
        priority_after("resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0)); os.setuid(65534)")
        == f"False {os.SCHED_OTHER}"
    )


# --- its own version is what importlib.metadata says, wherever it is installed


def test_it_is_that_of_the_distribution() -> None:
    assert own_version() == version("hwd-agents")


def test_the_first_on_the_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "hwd_agents-7.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: hwd-agents\nVersion: 7.1.0\n\nVersion: of words\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert own_version() == version("hwd-agents") == "7.1.0"


def test_one_that_is_not_installed_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(PackageNotFoundError):
        own_version()
