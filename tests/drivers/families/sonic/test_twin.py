"""The twin of a SONiC optical switch: its command line, its shell, and what OpenSSH's own client makes of it."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, PortSide
from hwd_drivers.families.sonic.cli import CommandLine, Printed
from hwd_drivers.families.sonic.help import COMMANDS
from hwd_drivers.families.sonic.models import sonic_ocs
from hwd_drivers.families.sonic.options import TwinOptions
from hwd_drivers.families.sonic.unit import Unit
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.twins.faults import Denial
from hwd_drivers.twins.timing import find_timing

from ...stage import Stage


def unit_of(timing: str = "ideal", **options: object) -> Unit:
    return Unit(
        name="ocs1",
        capabilities=sonic_ocs("8x8"),
        timing=find_timing(timing),
        draws=Draws(1),
        clock=SystemClock(),
        options=TwinOptions.model_validate(options),
    )


class TestCommandLine:
    def run(self, *lines: str, unit: Unit | None = None) -> Printed:
        """What the last of these lines prints."""
        command_line = CommandLine(unit or unit_of())
        printed = [command_line.run(line) for line in lines]
        return printed[-1]

    def test_without_a_mode_ports_in_use_are_refused_or_replaced_by_option(self) -> None:
        assert self.run("config ocs cross-connect add 1A-1B", "config ocs cross-connect add 1A-2B").status == 1
        moved = unit_of(default_mode="update")
        assert (
            self.run("config ocs cross-connect add 1A-1B", "config ocs cross-connect add 1A-2B", unit=moved).status == 0
        )
        assert moved.configured == [Crossconnect.parse("1A-2B")]

    def test_a_line_may_join_its_outputs_and_ask_for_the_status_before(self) -> None:
        line = "show nothing 2>&1; echo $?; show ocs cross-connect config 2>&1 && echo $?; 2>&1"
        printed = self.run(line)
        out = printed.out.splitlines()
        assert (out[0], out[1], out[-1]) == ('Error: No such command "nothing".', "2", "0")
        assert (printed.err, printed.status) == ("", 0)
        assert CommandLine(unit_of()).run("echo $?", status=130).out == "130\n"
        for other in ("show version > file", "show version >& 2", "show version 2>& file"):
            assert "syntax error" in self.run(other).err

    def test_a_stale_entry_cannot_be_deleted_but_added_and_then_deleted(self) -> None:
        unit = unit_of()
        unit.faults.panel((), [Crossconnect.parse("1A-1B")])
        assert "1A-1B" not in self.run("show ocs cross-connect config", unit=unit).out
        assert "1A-1B  1A        1B" in self.run("show ocs cross-connect status", unit=unit).out
        refused = self.run("config ocs cross-connect delete 1A-1B", unit=unit)
        assert (refused.status, refused.out) == (1, "Error: Cross-connect 1A-1B does not exist\n")
        done = self.run("config ocs cross-connect add 1A-1B update && config ocs cross-connect delete 1A-1B", unit=unit)
        assert done.status == 0
        assert unit.rows() == []

    def test_a_list_is_done_whole_or_not_at_all(self) -> None:
        unit = unit_of()
        for bad in ("1A-1B,2A-9B", "1A-1B,1A-2B", "1A-1B,2A-1B", "1A-1B,2A"):
            assert self.run(f"config ocs cross-connect add {bad} update", unit=unit).status == 1
        self.run("config ocs cross-connect add 1A-1B update", unit=unit)
        assert self.run("config ocs cross-connect delete 1A-1B,2A-2B", unit=unit).status == 1
        assert unit.configured == [Crossconnect.parse("1A-1B")]

    def test_it_is_tuning_and_then_tuned(self) -> None:
        unit = unit_of("polatis-opus")
        assert (
            "tuning           tuning"
            in self.run("config ocs cross-connect add 1A-1B", "show ocs cross-connect status", unit=unit).out
        )
        unit.mirror.advance(unit.mirror.next_ns() or 0)
        assert [row.state for row in unit.rows()] == ["tuned"]

    def test_ports_may_be_in_lower_case(self) -> None:
        unit = unit_of()
        added = self.run("config ocs cross-connect add 1a-2b,3a..4A-5b..6b update", unit=unit)
        assert (added.out, added.status) == ("Add cross-connect succeeded\n", 0)
        assert [str(pair) for pair in unit.configured] == ["1A-2B", "3A-5B", "4A-6B"]
        assert self.run("config ocs cross-connect delete 1a-2B", unit=unit).status == 0
        assert self.run("config ocs port state 7a force_blocked", unit=unit).status == 0
        assert unit.override(PortSide.parse("7A")) == "force-blocked"

    @pytest.mark.parametrize(
        ("pair", "message"),
        [
            ("1B-2A", "Invalid port '1B': it is on side B, the first one is on side A"),
            ("1A-2A", "Invalid port '2A': it is on side A, the second one is on side B"),
            ("1A..2B-1B..2B", "Invalid port '2B': it is on side B, the first one is on side A"),
            ("x-1B", "Invalid port 'x', one such as 1A is needed"),
            ("1A..-1B", "Invalid port '', one such as 1A is needed"),
        ],
    )
    def test_a_wrong_port_has_its_reason(self, pair: str, message: str) -> None:
        printed = self.run(f"config ocs cross-connect add {pair}")
        assert (printed.out, printed.status) == (f"Error: {message}\n", 1)

    def test_the_mapping_of_ports_is_in_the_design_s_form(self) -> None:
        lines = self.run("show ocs port-mapping").out.splitlines()
        assert lines[0].split() == ["Faceplate", "Port", "#", "Engine", "Port", "#"] * 4
        assert lines[1].split() == ["8x8", "Port", "#"] * 8
        assert lines[2] == "  ".join(["-" * 17 + "  " + "-" * 14] * 4)
        assert lines[3].split() == ["1A", "A-1", "5A", "A-5", "1B", "B-1", "5B", "B-5"]
        assert lines[6].split() == ["4A", "A-4", "8A", "A-8", "4B", "B-4", "8B", "B-8"]
        assert len(lines) == 7

    def test_each_command_has_a_help_page_and_does_nothing_then(self) -> None:
        for path in [*COMMANDS, ("sudo", "config", "ocs", "cross-connect", "add")]:
            for asked in ("--help", "-h", "-?"):
                unit = unit_of()
                printed = self.run(" ".join([*path, "1A-1B", asked]), unit=unit)
                command = [word for word in path if word != "sudo"]
                assert printed.out.startswith(f"Usage: {' '.join(command)} [OPTIONS]"), path
                assert "Show this message and exit." in printed.out
                assert (printed.err, printed.status) == ("", 0)
                assert unit.configured == []

    def test_a_group_lists_its_commands(self) -> None:
        for line in ("show ocs --help", "show ocs"):
            printed = self.run(line)
            assert printed.status == 0
            assert printed.out.startswith("Usage: show ocs [OPTIONS] COMMAND [ARGS]...")
            names = [line.split()[0] for line in printed.out.partition("Commands:\n")[2].splitlines()]
            assert names == ["cross-connect", "factory-insertion-loss", "port", "port-mapping"]
        assert self.run("config ocs nothing --help").status == 2

    def test_port_status_names_the_port_at_the_other_end(self) -> None:
        out = self.run("config ocs cross-connect add 2A-5B", "show ocs port status").out
        rows = {line.split()[0]: line.split() for line in out.splitlines()[2:]}
        assert rows["2A"] == ["2A", "LC", "UPC", "2", "5B", "tuned"]
        assert rows["5B"] == ["5B", "LC", "UPC", "1", "2A", "tuned"]
        assert rows["2B"] == ["2B", "LC", "UPC", "1", "blocked"]

    def test_losses_are_those_of_the_mirror(self) -> None:
        unit = unit_of()
        line = self.run("show ocs factory-insertion-loss", unit=unit).out.splitlines()[2]
        assert line.split()[0] == "1A-1B"
        assert float(line.split()[3]) == pytest.approx(unit.mirror.loss_db(Crossconnect.parse("1A-1B")), abs=0.005)

    def test_a_label_and_a_state_are_in_the_table_of_ports(self) -> None:
        said = self.run(
            "config ocs port label 1A 'to host 1'", "config ocs port state 1A force_blocked", "show ocs port config"
        )
        assert "1A    to host 1  force_blocked" in said.out
        assert said.status == 0

    @pytest.mark.parametrize(
        ("line", "status"),
        [
            ("foo", 127),
            ("show foo", 2),
            ("config ocs cross-connect add", 2),
            ("config ocs cross-connect add 1A-1B sideways", 2),
            ("config ocs cross-connect add 1A-1B update now", 2),
            ("config ocs port state 9A normal", 1),
            ("config ocs port state 1A dark", 2),
            ("show version | grep HwSKU", 2),
            ("echo 'a", 2),
            ("true && ", 2),
            ("sudo", 1),
            ("foo; true", 0),
            ("foo && true", 127),
            ("", 0),
        ],
    )
    def test_lines_and_their_exit_status(self, line: str, status: int) -> None:
        assert self.run(line).status == status

    def test_config_can_need_sudo(self) -> None:
        unit = unit_of(sudo_needed=True, error_status=7)
        assert "Root privileges" in self.run("config ocs cross-connect add 1A-1B", unit=unit).out
        assert self.run("sudo config ocs cross-connect add 1A-1B", unit=unit).status == 0
        assert self.run("sudo -n config ocs cross-connect delete 2A-2B", unit=unit).status == 7

    def test_denial_and_partial_batch(self) -> None:
        unit = unit_of()
        unit.faults.deny_next = Denial(code="3", text="not now")
        denied = self.run("config ocs cross-connect add 1A-1B", unit=unit)
        assert (denied.status, denied.out) == (3, "Error: not now\n")
        unit.faults.partial_next = 1
        assert self.run("config ocs cross-connect add 1A-1B,2A-2B", unit=unit).status == 0
        assert [str(row.pair) for row in unit.rows()] == ["1A-1B"]
        assert len(unit.configured) == 2

    @given(st.text(max_size=200))
    def test_any_line_is_answered(self, line: str) -> None:
        assert 0 <= self.run(line).status <= 255

    @given(
        st.lists(
            st.sampled_from(
                [
                    "config",
                    "ocs",
                    "cross-connect",
                    "add",
                    "1A-1B",
                    "update",
                    ";",
                    "&&",
                    "'",
                    "show",
                    "port",
                    "delete",
                    "..",
                    ",",
                    "1A..2A-3B..4B",
                    "state",
                    "sudo",
                ]
            ),
            max_size=12,
        )
    )
    def test_any_words_are_answered(self, words: list[str]) -> None:
        assert 0 <= self.run(" ".join(words)).status <= 255


class TestUnit:
    def test_after_a_restart_it_restores_the_configuration(self) -> None:
        async def main(startup: str) -> list[str]:
            unit = unit_of(startup=startup)
            CommandLine(unit).run("config ocs cross-connect add 1A-1B; config ocs port state 2A force_blocked")
            unit.faults.panel((), [Crossconnect.parse("3A-3B")])
            up = asyncio.Event()
            unit.faults.on_reboot.append(up.set)
            unit.faults.reboot(0.0)
            await up.wait()
            return [str(row.pair) for row in unit.rows()] + [str(end) for end in unit.mirror.blocked]

        assert asyncio.run(main("config")) == ["1A-1B", "2A"]
        assert asyncio.run(main("dark")) == []

    def test_a_blocked_port_is_dark(self) -> None:
        unit = unit_of()
        CommandLine(unit).run("config ocs cross-connect add 1A-1B; config ocs port state 1B force_blocked")
        assert [row.state for row in unit.rows()] == ["blocked"]
        assert unit.mirror.blocked == {PortSide.parse("1B")}


@pytest.fixture
async def twin() -> AsyncIterator[Any]:
    """One that listens at a TCP port."""
    login = {"user": "admin", "password": "YourPaSsWoRd", "hostname": "l1"}
    async with Stage("sonic-ocs", "sonic-ocs", "8x8", dialer=TcpDialer(), options={**login}) as stage:
        yield await stage.start()


async def test_options_that_it_does_not_know_are_refused() -> None:
    with pytest.raises(ConfigError, match="colour"):
        Stage("sonic-ocs", "sonic-ocs", "8x8").make(colour="red")


@pytest.mark.skipif(shutil.which("ssh") is None, reason="openssh-client is not installed")
class TestOpenSsh:
    """OpenSSH's own client is the judge: strict host keys, password by askpass."""

    async def ssh(
        self, twin: Any, home: Path, *words: str, stdin: bytes = b"", password: str = "YourPaSsWoRd"
    ) -> tuple[int | None, str, str]:
        ask = home / "askpass"
        ask.write_text(f"#!/bin/sh\necho {password}\n")
        ask.chmod(0o700)
        host, port = twin.addresses["ssh"].split(":")
        (home / "known_hosts").write_text(f"[{host}]:{port} {twin.host_key}\n")
        options = ["-F/dev/null", f"-oUserKnownHostsFile={home}/known_hosts", "-oStrictHostKeyChecking=yes"]
        options += ["-oNumberOfPasswordPrompts=1", "-p", port]
        environment = dict(os.environ, HOME=str(home), SSH_ASKPASS=str(ask), SSH_ASKPASS_REQUIRE="force", TERM="xterm")
        terminal = ["-tt"] if words[:1] == ("-tt",) else []
        process = await asyncio.create_subprocess_exec(
            "ssh", *options, *terminal, f"admin@{host}", *words[len(terminal) :],
            env=environment,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(stdin), 20)
        return process.returncode, out.decode(), err.decode()

    async def test_single_commands_with_their_exit_status(self, twin: Any, tmp_path: Path) -> None:
        status, out, err = await self.ssh(twin, tmp_path, "sudo config ocs cross-connect add 1A..2A-3B..4B")
        assert (status, out, err) == (0, "Add cross-connect succeeded\n", "")
        assert [str(each) for each in twin.unit.configured] == ["1A-3B", "2A-4B"]
        status, out, err = await self.ssh(twin, tmp_path, "config ocs cross-connect add 1A-5B safe")
        assert (status, out) == (1, "Error: Cross-connect 1A-5B conflicts with existing cross-connect 1A-3B\n")
        status, out, err = await self.ssh(twin, tmp_path, "reboot")
        assert (status, out, err) == (127, "", "bash: reboot: command not found\n")

    async def test_a_wrong_password_is_refused(self, twin: Any, tmp_path: Path) -> None:
        status, _, err = await self.ssh(twin, tmp_path, "show version", password="toor")
        assert status == 255
        assert "Permission denied" in err

    async def test_a_shell_at_a_terminal_prompts_echoes_and_edits(self, twin: Any, tmp_path: Path) -> None:
        keys = b"show ocs cross-connect confug\x7f\x7fig\rtypo\x03false\x04exit\r"
        status, out, _ = await self.ssh(twin, tmp_path, "-tt", stdin=b"config ocs cross-connect add 1A-2B\r" + keys)
        assert status == 127  # of false, which this shell has not: the last one before exit
        assert out.startswith("admin@l1:~$ config ocs cross-connect add 1A-2B\r\nAdd cross-connect succeeded\r\n")
        assert "1A-2B  1A        2B\r\n" in out
        assert "typo^C\r\nadmin@l1:~$ " in out

    @pytest.mark.skipif(shutil.which("expect") is None, reason="expect is not installed")
    async def test_it_is_driven_by_expect_as_test_programs_drive_real_ones(self, twin: Any, tmp_path: Path) -> None:
        host, port = twin.addresses["ssh"].split(":")
        (tmp_path / "known_hosts").write_text(f"[{host}]:{port} {twin.host_key}\n")
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

    async def test_a_shell_without_a_terminal_runs_its_lines(self, twin: Any, tmp_path: Path) -> None:
        lines = b"config ocs cross-connect add 1A-2B\nshow ocs cross-connect config\n"
        status, out, _ = await self.ssh(twin, tmp_path, stdin=lines)
        assert status == 0
        assert out.splitlines() == [
            "Add cross-connect succeeded",
            "id     a_side    b_side",
            "-----  --------  --------",
            "1A-2B  1A        2B",
        ]
