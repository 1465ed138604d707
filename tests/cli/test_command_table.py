"""The commands against a daemon and a switch twin that are processes of their own."""

import getpass
import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hwd.cli.commands.apply import drive_plan
from hwd.cli.output import Output
from hwd.client import Client
from hwd.client.wanted import Wanted
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import StalePlanError

from .conftest import HWD, seen_on_a_terminal
from .test_program import completed

PAIR = "ocs1:1A-2B"
PLAYBOOK = """\
playbook: to-and-fro
shows: that it moves
parameters: {times: 1}
steps:
  - repeat: {times: "{{ times }}"}
    steps:
      - apply: {pairs: "ocs1:1A-2B"}
      - apply: {pairs: "ocs1:1A-3B"}
"""

pytestmark = pytest.mark.usefixtures("daemon")


@pytest.fixture
def playbook(tmp_path: Path) -> str:
    (tmp_path / "fro.yaml").write_text(PLAYBOOK)
    return str(tmp_path / "fro.yaml")


def test_status_fits_a_screen(hwd: Any) -> None:
    said = hwd("status")
    assert said.status == 0
    assert said.out.startswith("testbed desk, hwd ")
    assert "ocs1    up     Polatis" in said.out
    assert said.err == ""


def test_a_plan_is_printed_and_applied_by_its_hash(hwd: Any) -> None:
    plan = hwd("plan", "ocs1:4A-4B", "--json")
    assert "ocs1: +4A-4B (0 kept)" in plan.err
    applied = hwd("apply", plan.json["hash"])
    assert applied.status == 0
    assert "confirmed" in applied.out
    again = hwd("plan", "ocs1:4A-4B")
    assert "nothing moves" in again.out
    assert "Apply it with" not in again.out
    assert f"Apply it with: hwd apply {plan.json['hash']}\n" in plan.err


def test_an_apply_says_its_plan_then_its_steps_then_its_result() -> None:
    command = (*HWD, "apply", "ocs1:7A-7B", "--steps", "-y")
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
    lines = ("plan ", "  expected: ", "step 1 of 1 begins: makes no link, dark meanwhile none", "step 1 of 1 is done")
    places = [said.find(f"\n{line}") for line in lines[1:]] + [said.find(") confirmed")]
    assert said.startswith("plan ")
    assert -1 not in places, said
    assert places == sorted(places), said


def test_a_plan_that_nobody_looked_at_is_made_again_where_the_switches_have_changed(
    hwd: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted: Wanted = {"what": "ocs1:2A-6B"}
    with Client.find() as client:
        plan = client.plan(**wanted)
        assert hwd("apply", "ocs1:3A-5B", "--no-ready").status == 0
        with pytest.raises(StalePlanError, match="the switches differ from what it was made for"):
            drive_plan(client, Output(json=False), plan, wanted=wanted, yes=True, attempts=1)
        done = drive_plan(client, Output(json=False), plan, wanted=wanted, yes=True)
    assert done.outcome == "confirmed"
    assert done.hash != plan.hash
    said = capsys.readouterr()
    assert said.err.startswith(f"plan {plan.hash}: the switches have changed meanwhile; planned again\n")
    assert said.out.startswith(f"plan {done.hash}: ocs1:2A-6B")


def test_what_is_not_confirmed_goes_back(hwd: Any) -> None:
    applied = hwd("apply", "ocs1:5A-5B", "--confirm-within", "60", "--json")
    assert applied.json["state"] == "awaiting-confirm"
    assert "unless: hwd confirm" in applied.err
    back = hwd("rollback")
    assert back.status == 0
    assert "rolled-back: roll-back asked for" in back.out
    assert hwd("confirm").status == 3


def test_a_collision_is_refused_in_safe_mode(hwd: Any) -> None:
    assert hwd("apply", "ocs1:6A-6B").status == 0
    said = hwd("apply", "ocs1:6A-7B", "--mode", "safe")
    assert said.status == 3
    assert "6A already carries 6A-6B" in said.err


def test_a_plan_that_an_interlock_refuses_is_shown_and_exits_as_refused(hwd: Any) -> None:
    refused = "interlock forbidden-pair refused: ocs1:1A-8B: the testbed file forbids it (bad mirror). "
    said = hwd("plan", "ocs1:1A-8B")
    assert said.status == 3
    assert "ocs1: +1A-8B (0 kept)" in said.out
    assert f"  {refused}" in said.out
    assert "Apply it with" not in said.out
    assert said.err.startswith(f"hwd: refused: {refused}")
    assert said.err.endswith(", or override it by --override forbidden-pair=REASON\n")
    told = hwd("plan", "ocs1:1A-8B", "--json")
    assert (told.status, told.json["interlocks"][0]["state"]) == (3, "refused")
    assert refused in told.err
    applied = hwd("apply", "ocs1:1A-8B", "-y")
    assert (applied.status, applied.err) == (3, said.err)
    assert "ocs1: +1A-8B (0 kept)" in applied.out, "what was refused is shown"


def test_an_interlock_is_overridden_by_its_name_with_a_reason(hwd: Any) -> None:
    plan = hwd("plan", "ocs1:1A-8B", "--override", "forbidden-pair=tested in the dark")
    assert plan.status == 0
    assert "(bad mirror). Ask for another pair. Overridden: tested in the dark" in plan.out
    applied = hwd("apply", "ocs1:1A-8B", "--override", "forbidden-pair=tested in the dark", "--confirm-within", "60")
    assert applied.status == 0
    assert hwd("rollback").status == 0
    assert hwd("apply", "ocs1:1A-8B", "--override", "overload=x").status == 3, "the testbed does not allow that"


def test_a_roll_back_of_what_is_under_way_takes_no_option_of_a_plan_and_moves_nothing(hwd: Any) -> None:
    applied = hwd("apply", "ocs1:5A-5B", "--confirm-within", "60", "--json").json["reconfiguration"]
    for option in ("--dry-run", "--lease L", "--confirm-within 5", "--no-ready", "--steps"):
        said = hwd("rollback", *option.split())
        assert said.status == 2, option
        assert f"{option.split()[0]}: it is for the way back to a state of the history" in said.err
    assert hwd("rollback", applied).status == 0, "it still awaits its confirm"


def test_leases_keep_others_out(hwd: Any) -> None:
    lease = hwd("lease", "take", "ocs1.8", "--for", "60", "--holder", "night shift", "--json").json["lease"]
    assert "night shift" in hwd("lease", "list").out
    assert hwd("apply", "ocs1:8A-8B").status == 3
    assert hwd("apply", "ocs1:8A-8B", "--lease", lease).status == 0
    assert hwd("lease", "renew", lease, "--for", "600").status == 0
    assert hwd("lease", "release", lease).status == 0
    assert hwd("lease", "kick", lease).status == 3
    assert hwd("lease", "list").out == "no leases\n"


def test_status_lists_leases_that_wait_and_that_are_reserved(hwd: Any) -> None:
    reserved = hwd("lease", "take", "ocs1.7", "--at", "23:59", "--json").json["lease"]
    held = hwd("lease", "take", "ocs1.8", "--json").json["lease"]
    with Client.find() as client:
        waits = client.take_lease(holder="ben", ports=["ocs1.8"], for_s=60, queue=True).id
    said = hwd("status").out
    assert re.search(rf"^{reserved} .* from .* 23:59:00 [+-]\d{{4}} for 10 min +ocs1.7$", said, re.MULTILINE), said
    assert re.search(rf"^{waits} +ben +waits, place 1 +ocs1.8$", said, re.MULTILINE), said
    for lease in (reserved, waits, held):
        assert hwd("lease", "release", lease).status == 0


def test_a_run_is_followed_shown_and_reported(hwd: Any, playbook: str, tmp_path: Path) -> None:
    ran = hwd("run", playbook, "-D", "times=2", "--json")
    assert ran.status == 0
    assert ran.json["outcome"] == "succeeded"
    assert "step 4 of 4: apply ocs1:1A-3B" in ran.err
    run = ran.json["run"]
    assert run in hwd("runs").out
    shown = hwd("show", run[:5])
    assert shown.out.startswith(f"run {run} succeeded")
    assert "parameters times=2" in shown.out
    assert [step["state"] for step in hwd("show", run, "--json").json["steps"]] == ["done"] * 4
    report = tmp_path / "report.html"
    assert hwd("report", run, "-o", str(report)).status == 0
    assert report.read_text().startswith("<!doctype html>")
    table = tmp_path / "stages.csv"
    assert hwd("export", run, "--as", "csv", "-o", str(table)).status == 0
    assert table.read_text().startswith("run,playbook,")


def test_records_are_read_without_the_daemon_too(hwd: Any, playbook: str, places: Path) -> None:
    run = hwd("run", playbook, "--json").json["run"]
    data = str(places / "state" / "hwd" / "desk")
    assert run in hwd("runs", "--data", data).out
    assert hwd("show", run, "--data", data).out == hwd("show", run).out


def test_watch_shows_what_happened(hwd: Any) -> None:
    hwd("apply", "ocs1:7A-7B")
    said = hwd("watch", "--after", "0", "--kind", "daemon.", "--count", "1", "--json")
    assert said.status == 0
    assert said.json["kind"] == "daemon.started"
    assert "switch.up switch=ocs1" in hwd("watch", "--after", "0", "--kind", "switch.up", "--count", "1").out


def watching(*words: str) -> "subprocess.Popen[str]":
    command = [*HWD, "watch", *words, "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.timeout(60)
def test_watch_since_begins_with_what_has_happened_and_ends_after_so_many(hwd: Any) -> None:
    before_ns = SystemClock().wall_ns()
    assert hwd("apply", "ocs1:1A-2B", "--no-ready").status == 0
    begin_ns = SystemClock().wall_ns()
    said = hwd("watch", "--kind", "reconfiguration.state", "--since", "1m", "--count", "1", "--json")
    assert said.status == 0
    assert before_ns - 60 * 10**9 <= json.loads(said.out)["wall_ns"] < begin_ns
    with watching("--kind", "reconfiguration.", "--since", "0s", "--count", "1") as process:
        while process.poll() is None:
            assert hwd("apply", "ocs1:none", "--no-ready").status == 0
            assert hwd("apply", "ocs1:1A-2B", "--no-ready").status == 0
        assert process.stdout is not None
        assert json.loads(process.stdout.read())["wall_ns"] > begin_ns, "what happened before is left out"
    now_ns = SystemClock().wall_ns()
    lines = hwd("watch", "--since", "1m", "--count", "3", "--json").out.splitlines()
    assert len(lines) == 3, "those of the past count"
    assert all(json.loads(line)["wall_ns"] < now_ns for line in lines)
    with watching("--kind", "reconfiguration.ended", "--since", "1m", "--count", "500") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["kind"] == "reconfiguration.ended"
        assert process.poll() is None, "there are fewer yet, and it waits for the rest"
        process.kill()


def test_a_second_daemon_is_refused_with_the_pid_of_the_first(testbed: Path, daemon: int) -> None:
    command = [sys.executable, "-m", "hwd.cli", "serve", str(testbed)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 3
    assert f"pid {daemon}" in ended.stderr


def test_ctrl_c_aborts_the_run(hwd: Any, playbook: str) -> None:
    command = [sys.executable, "-m", "hwd.cli", "run", playbook, "-D", "times=10000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "step 2 of" not in (line := process.stderr.readline()):
            assert line, process.communicate()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "aborted: by" in out
    assert not hwd("status", "--json").json["runs"]


def test_runs_are_queued_paused_resumed_and_taken_out(hwd: Any, playbook: str, tmp_path: Path) -> None:
    slow = tmp_path / "slow.yaml"
    slow.write_text(PLAYBOOK + "  - wait: {for_s: 3}\n  - wait: {for_s: 0.1}\n")
    assert hwd("queue").out == "no run waits\n"
    running = hwd("run", str(slow), "--detach", "--json").json
    paused = hwd("pause", running["run"][:5], "--json").json  # before its next step, whenever that is
    assert paused["run"] == running["run"]
    waiting = hwd("run", playbook, "--queue", "--json").json
    late = hwd("run", playbook, "--in", "3600", "--detach", "--json").json
    assert [run["state"] for run in (running, waiting, late)] == ["running", "queued", "queued"]
    rows = hwd("queue").out.splitlines()
    assert f"run {running['run']}" in rows[1]
    assert "its due time" in rows[2]
    assert "2 more in the queue: hwd queue" in hwd("runs").out
    assert hwd("runs", "--json").json[0]["state"] in ("running", "paused")
    assert hwd("resume", running["run"]).out == f"run {running['run']} continues\n"
    assert hwd("abort", late["run"], "--json").json["outcome"] == "aborted"
    assert hwd("run", playbook, "--json").json["outcome"] == "succeeded", "it waits for those before it"
    assert {run["state"] for run in hwd("runs", "--json").json[:3]} == {"succeeded", "aborted"}
    assert hwd("pause", running["run"]).status == 3


def test_reader_that_goes_changes_neither_what_is_applied_nor_the_exit_status(hwd: Any) -> None:
    words = f"{sys.executable} -P -m hwd.cli apply ocs1:6A-6B -y | true; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", words], capture_output=True, text=True, timeout=50, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False)
    assert "6A-6B" in hwd("status", "--json").out


def test_restore_of_a_rack_as_desired_says_so_and_touches_nothing(hwd: Any) -> None:
    assert hwd("apply", "ocs1:7A-7B").status == 0
    said = hwd("restore")
    assert (said.status, said.out) == (0, "nothing to restore: desired state\n")
    dry = hwd("restore", "ocs1.7", "--dry-run", "--json")
    assert (dry.status, dry.json["empty"], dry.json["what"]) == (0, True, "desired state of ocs1.7")
    unnamed = hwd("restore", "ocs9")
    assert unnamed.status == 2
    assert "ocs9 is no port and no switch" in unnamed.err


def test_history_names_the_user_of_the_command_line_and_rollback_goes_before_any_of_it(hwd: Any) -> None:
    assert hwd("apply", "ocs1:8A-none,8B-none").status == 0
    first = hwd("apply", "ocs1:8A-8B", "--json").json["reconfiguration"]
    assert hwd("apply", "ocs1:8A-none").status == 0
    newest, older = hwd("history", "--port", "ocs1.8", "--limit", "2", "--json").json
    assert (newest["what"], older["reconfiguration"]) == ("ocs1:8A-none", first)
    said = hwd("history", "--limit", "1")
    assert f"{getpass.getuser()}@{socket.gethostname()} (unverified)" in " ".join(said.out.split())
    dry = hwd("rollback", "--to", newest["reconfiguration"], "--dry-run")
    assert dry.status == 0
    assert "ocs1: +8A-8B (0 kept)" in dry.out
    assert hwd("history", "--limit", "1", "--json").json[0]["reconfiguration"] == newest["reconfiguration"]
    back = hwd("rollback", "--to", newest["reconfiguration"], "--json")
    assert (back.status, back.json["outcome"]) == (0, "confirmed")
    assert hwd("rollback", "--to", first, "--yes").status == 0
    assert hwd("rollback", "--to", "nobody00").status == 3
    assert hwd("rollback", first, "--to", first).status == 2


def test_an_apply_says_what_it_applies_and_how_to_stop_it() -> None:
    seen = seen_on_a_terminal("apply", "ocs1:7A-6B", "-y")
    assert b"; Ctrl-C rolls back" in seen
    assert seen.index(b"; Ctrl-C rolls back") < seen.rindex(b"applying ")


def test_live_names_are_offered(hwd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client.find() as client:
        lease = client.take_lease(holder="me", ports=["ocs1.1"], for_s=60).lease
        try:
            assert completed(hwd, monkeypatch, "hwd lease release ") == [lease]
        finally:
            client.release_lease(lease)
    assert completed(hwd, monkeypatch, "hwd lease release ") == []
    assert completed(hwd, monkeypatch, "hwd fault oc") == ["ocs1"]
    with Client.find() as client:
        run = client.start_run(text="playbook: n\nsteps:\n  - note: a\n", file="n.yaml").run
    assert run in completed(hwd, monkeypatch, "hwd show ")
    assert completed(hwd, monkeypatch, f"hwd show {run[:-1]}") == [run]


def test_a_switch_that_a_daemon_drives_is_left_alone(hwd: Any, testbed: Path, tmp_path: Path) -> None:
    rack = tmp_path / "rack.yaml"
    rack.write_text(testbed.read_text() + "ports: {ocs1.7: {state: spare}, ocs1.8: {state: spare}}\n")
    said = hwd("driver", "check", "polatis-tl1", "--rack", str(rack))
    assert said.status == 3
    assert "testbed desk: its daemon is up and drives the switches. Stop it first" in said.err
