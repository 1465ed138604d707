"""The twin of a SONiC optical switch: its help, and what OpenSSH's own client makes of its shell; see `lines.txt`."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.families.sonic.cli import CommandLine
from hwd_drivers.families.sonic.help import COMMANDS
from hwd_drivers.transports.dial import TcpDialer

from ...parts import openssh
from ...stage import Stage

PASSWORD = "YourPaSsWoRd"
WORDS = "config ocs cross-connect add 1A-1B update ; && ' show port delete .. , 1A..2A-3B..4B state sudo"


def shell() -> CommandLine:
    return CommandLine(Stage("sonic-ocs", dialer=TcpDialer()).make().unit)


async def test_each_command_has_a_help_page_and_the_status_before_is_known() -> None:
    for path in COMMANDS:
        printed = shell().run(" ".join([*path, "1A-1B", "--help"]))
        assert printed.out.startswith(f"Usage: {' '.join(word for word in path if word != 'sudo')} [OPTIONS]"), path
        assert (printed.err, printed.status) == ("", 0)
    assert shell().run("echo $?", status=130).out == "130\n"


@given(st.text(max_size=200) | st.lists(st.sampled_from(WORDS.split()), max_size=12).map(" ".join))
async def test_any_line_is_answered(line: str) -> None:
    assert 0 <= shell().run(line).status <= 255


@pytest.fixture
async def twin() -> AsyncIterator[Any]:
    """One that listens at a TCP port."""
    if shutil.which("ssh") is None:
        pytest.skip("openssh-client is not installed")
    login = {"user": "admin", "password": PASSWORD, "hostname": "l1"}
    async with Stage("sonic-ocs", "sonic-ocs", "8x8", dialer=TcpDialer(), options={**login}) as stage:
        yield await stage.start()


async def ssh(twin: Any, home: Path, *words: str, password: str = PASSWORD, **more: Any) -> tuple[int | None, str, str]:
    return await openssh(twin.addresses["ssh"], twin.fronts["ssh"].host_key, home, *words, password=password, **more)


async def test_single_commands_have_their_exit_status_and_a_wrong_password_is_refused(
    twin: Any, tmp_path: Path
) -> None:
    said = await ssh(twin, tmp_path, "sudo config ocs cross-connect add 1A..2A-3B..4B")
    assert said == (0, "Add cross-connect succeeded\n", "")
    assert [str(each) for each in twin.unit.configured] == ["1A-3B", "2A-4B"]
    said = await ssh(twin, tmp_path, "config ocs cross-connect add 1A-5B safe")
    assert said[:2] == (1, "Error: Cross-connect 1A-5B conflicts with existing cross-connect 1A-3B\n")
    assert await ssh(twin, tmp_path, "reboot") == (127, "", "bash: reboot: command not found\n")
    status, _, err = await ssh(twin, tmp_path, "show version", password="toor")
    assert (status, "Permission denied" in err) == (255, True)


async def test_a_shell_at_a_terminal_prompts_echoes_and_edits(twin: Any, tmp_path: Path) -> None:
    keys = b"show ocs cross-connect confug\x7f\x7fig\rtypo\x03false\x04exit\r"
    typed = b"config ocs cross-connect add 1A-2B\r" + keys
    status, out, _ = await ssh(twin, tmp_path, stdin=typed, terminal=True)
    assert status == 127  # of false, which this shell has not: the last one before exit
    assert out.startswith("admin@l1:~$ config ocs cross-connect add 1A-2B\r\nAdd cross-connect succeeded\r\n")
    assert "1A-2B  1A        2B\r\n" in out
    assert "typo^C\r\nadmin@l1:~$ " in out
    lines = b"show ocs cross-connect config\n"
    status, out, _ = await ssh(twin, tmp_path, stdin=lines)
    assert status == 0
    assert out.splitlines() == ["id     a_side    b_side", "-----  --------  --------", "1A-2B  1A        2B"]

    @pytest.mark.skipif(shutil.which("expect") is None, reason="expect is not installed")
    async def test_it_is_driven_by_expect_as_test_programs_drive_real_ones(twin: Any, tmp_path: Path) -> None:
        host, port = twin.addresses["ssh"].split(":")
        (tmp_path / "known_hosts").write_text(f"[{host}]:{port} {twin.fronts['ssh'].host_key}\n")
        script = tmp_path / "drive.exp"
        script.write_text(
            f"""set timeout 15
spawn ssh -F/dev/null -oUserKnownHostsFile={tmp_path}/known_hosts -oStrictHostKeyChecking=yes -p {port} admin@{host}
expect "assword:" {{ send "YourPaSsWoRd\\r" }} timeout {{ exit 2 }} eof {{ exit 3 }}
expect "admin@l1:~$ " {{ send "sudo config ocs cross-connect add 1a..2a-3b..4b\\r" }} timeout {{ exit 4 }}
expect "cross-connect succeeded" {{}} timeout {{ exit 5 }}
expect "admin@l1:~$ " {{ send "show ocs cross-connect status\\r" }} timeout {{ exit 6 }}
expect -re {{2A-4B +2A +4B +tuned +tuned}} {{}} timeout {{ exit 7 }}
expect "admin@l1:~$ " {{ send "show ocs port-mapping --help\\r" }} timeout {{ exit 8 }}
expect "Usage: show ocs port-mapping" {{}} timeout {{ exit 9 }}
expect "admin@l1:~$ " {{ send "exit\\r" }} timeout {{ exit 10 }}
expect eof
"""
        )
        process = await asyncio.create_subprocess_exec(
            "expect", str(script), env=dict(os.environ, HOME=str(tmp_path)), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, said.decode()
        assert [str(each) for each in twin.unit.configured] == ["1A-3B", "2A-4B"]
