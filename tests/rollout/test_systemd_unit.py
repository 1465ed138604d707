"""The systemd unit, judged by systemd's own tools."""

import shutil
import subprocess
from pathlib import Path

import pytest

from hwd.rollout.agent_files import make_unit
from hwd.rollout.layout import Layout
from hwd_drivers.core.errors import ConfigError


def values(unit: bytes, key: str) -> list[str]:
    return [line.partition("=")[2] for line in unit.decode().splitlines() if line.startswith(f"{key}=")]


@pytest.mark.parametrize("tools", [(), ("mlxlink",)])
@pytest.mark.parametrize("prefix", ["", "/srv/hwd"])
def test_systemd_finds_nothing_wrong_with_it(prefix: str, tools: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze. As root: apt-get install systemd")
    unit = make_unit(Layout(prefix=prefix), tools=tools, sets_group=False)
    program = tmp_path / "hwd-agent"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = tmp_path / "hwd-agent.service"
    path.write_bytes(unit.replace(f"{prefix}/opt/hwd-agent/current/bin/hwd-agent".encode(), str(program).encode()))
    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, timeout=30
    )
    assert [line for line in said.stderr.splitlines() if "hwd-agent" in line] == []


def test_a_host_may_do_no_more_than_its_tools_and_its_own_switches_want() -> None:
    (plain,) = values(make_unit(Layout(), tools=(), sets_group=False), "CapabilityBoundingSet")
    (with_tool,) = values(make_unit(Layout(), tools=("mstlink",), sets_group=False), "CapabilityBoundingSet")
    assert "CAP_SYS_RAWIO" not in plain
    assert with_tool.split()[-2:] == ["CAP_SYS_RAWIO", "CAP_SYS_ADMIN"]
    assert values(make_unit(Layout(), tools=(), sets_group=False), "ReadWritePaths") == []
    assert values(make_unit(Layout(), tools=("mstlink",), sets_group=False), "ReadWritePaths") == ["/sys/devices"]
    without, owner = (make_unit(Layout(), tools=(), sets_group=switches) for switches in (False, True))
    assert "CAP_CHOWN" in values(owner, "CapabilityBoundingSet")[0]
    assert "CAP_CHOWN" not in values(without, "CapabilityBoundingSet")[0]
    assert values(owner, "SystemCallFilter")[-1].startswith("@chown ")


def test_a_prefix_moves_all_that_it_reads_and_writes_and_one_that_it_would_not_see_or_could_not_have_is_refused() -> (
    None
):
    unit = make_unit(Layout(prefix="/srv/hwd"), tools=(), sets_group=False)
    assert values(unit, "ExecStart") == [
        "/srv/hwd/opt/hwd-agent/current/bin/hwd-agent --config /srv/hwd/etc/hwd/agent.yaml"
    ]
    assert values(unit, "ReadWritePaths") == ["/srv/hwd/var/lib/hwd-agent"]
    assert values(unit, "StateDirectory") == []
    for prefix in ("/home/lab", "/root", "/tmp/x"):
        with pytest.raises(ConfigError, match=r"the unit cannot see /home, .* such as /srv/hwd, or use --no-start"):
            Layout(prefix=prefix)
        assert Layout(prefix=prefix, unit="").root == f"{prefix}/opt/hwd-agent"
    for prefix in ("srv", "/srv/../etc", "/srv/a b", "/srv/%h", '/srv/"'):
        with pytest.raises(ConfigError, match=r"--prefix "):
            Layout(prefix=prefix)
