"""What is done on a host, in a folder of this machine: each step whole or not at all, and back again."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from hwd.rollout.host_program import make_program
from hwd.rollout.layout import Layout
from hwd.rollout.onhost import program as onhost
from hwd.rollout.onhost.facts import BEFORE, COMPLETE, journal, look, reach
from hwd.rollout.onhost.programs import Failure


class Place:
    """A host's paths below a folder, with environments that are there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.layout = asdict(Layout(prefix=str(folder / "host"), unit=""))
        self.root = Path(self.layout["root"])
        self.config = Path(self.layout["config"])
        self.state = Path(self.layout["state"])
        self.root.mkdir(parents=True)

    def environment(self, id: str, *, complete: bool = True) -> Path:
        path = self.root / id
        path.mkdir()
        (path / "file").write_text(id)
        if complete:
            (path / COMPLETE).write_text(json.dumps({"id": id, "version": "0.1.0", "python": "3.11.2", "wheels": []}))
        return path

    def settled(self, *steps: tuple[str, str]) -> None:
        """Switched to these environments and agent files, one after the other, each of which ran."""
        for id, agent_file in steps:
            self.environment(id)
            self.switch(id, agent_file)
            self.settle()

    def switch(self, id: str, agent_file: str) -> list[str]:
        staging = self.folder / "staging"
        staging.mkdir(exist_ok=True)
        (staging / "agent.yaml").write_text(agent_file)
        changed: list[str] = onhost.switch(self.layout, str(staging), id)["changed"]
        return changed

    def settle(self) -> None:
        onhost.settle(self.layout, str(self.folder / "staging"))

    @property
    def now(self) -> tuple[str, str]:
        return os.readlink(self.root / "current"), self.config.read_text()

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_switch_puts_all_in_place_and_a_second_one_changes_nothing(place: Place) -> None:
    place.environment("a")
    assert place.switch("a", "one") == ["agent file", "environment"]
    assert place.now == ("a", "one")
    assert place.config.stat().st_mode & 0o777 == 0o600
    assert place.switch("a", "one") == []


def test_the_way_back_leads_to_what_was_before_the_switch_also_past_a_try_that_was_cut_off(place: Place) -> None:
    place.settled(("a", "one"))
    for id in ("b", "c"):
        place.environment(id)
    assert place.switch("b", "two") == ["agent file", "environment"]
    onhost.back(place.layout)
    assert place.now == ("a", "one")
    onhost.replace(place.config, b"two", 0o600)  # and the power fails
    place.switch("b", "two")
    onhost.back(place.layout)
    assert place.now == ("a", "one"), "a switch that was done again still knows the good one"
    place.switch("b", "two")  # and the operator's machine dies
    place.switch("c", "three")
    onhost.back(place.layout)
    assert place.now == ("a", "one")


def test_one_environment_before_stays_and_the_way_back_from_an_agent_file_alone_leaves_both(place: Place) -> None:
    place.settled(("a", "a"), ("b", "b"), ("c", "c"))
    assert place.names == ["b", "c", "current", "previous"]
    assert os.readlink(place.root / "previous") == "b"
    assert [path.name for path in place.config.parent.iterdir()] == ["agent.yaml"]
    assert place.switch("c", "two") == ["agent file"]
    onhost.back(place.layout)
    assert place.now == ("c", "c")


def test_a_file_that_is_replaced_is_never_readable_by_others(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    replace = os.replace

    def look(source: Path, target: Path) -> None:
        seen.append(Path(source).stat().st_mode & 0o777)
        replace(source, target)

    monkeypatch.setattr(os, "replace", look)
    onhost.write(place.config, b"secret", 0o600)
    assert seen == [0o600]
    assert [path.name for path in place.config.parent.iterdir()] == ["agent.yaml"]
    place.environment("a")
    place.config.chmod(0o644)
    place.switch("a", "two")
    assert Path(f"{place.config}{BEFORE}").stat().st_mode & 0o777 == 0o600, "nor what is kept for the way back"


def test_a_program_that_outlives_a_killed_verb_is_waited_for_and_a_host_without_room_is_not_touched(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = place.folder / "pip-1.whl/pip"
    pip.parent.mkdir()
    os.mkfifo(fifo := place.folder / "goes on")
    pip.write_text(f"open({str(fifo)!r}).read()")
    words = {"staging": str(place.folder), "id": "a", "spec": [], "version": "0.1.0"}
    command = [sys.executable, "-c", make_program().decode(), "install", json.dumps({"layout": place.layout, **words})]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as verb:
        gate = os.open(fifo, os.O_WRONLY)  # pip has opened it
        verb.kill()
    place.environment("b")
    with monkeypatch.context() as patch, pytest.raises(Failure, match="an interrupted one is completing its step"):
        patch.setattr(onhost, "ENDING_ROUNDS", 1)
        place.switch("b", "one")

    def end(step: str) -> None:  # with the removal of the folder
        shutil.rmtree(place.root)
        os.close(gate)

    with monkeypatch.context() as patch:
        patch.setattr(onhost, "say", end)
        assert place.switch("b", "one") == ["agent file", "environment"]
    monkeypatch.setattr(onhost, "NEEDED_BYTES", 1 << 60)
    with pytest.raises(Failure, match=r"MB are free, and .* MB are needed\. Free some"):
        onhost.install(place.layout, str(place.folder), "new", [], "0.1.0")
    assert place.names == ["current"]


def test_what_an_install_left_that_was_cut_off_or_does_not_run_any_more_is_taken_away(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.environment("good")
    place.environment("half", complete=False)
    (place.folder / "staging").mkdir()
    for id, said in (("new", "half, which is incomplete"), ("good", "good, which does not run any more")):
        with pytest.raises(ValueError, match="not enough values"):  # there is no pip to install with
            onhost.install(place.layout, str(place.folder / "staging"), id, ["hwd-agents"], "0.1.0")
        assert f'{{"step": "removing {said}"}}' in capsys.readouterr().out
        assert place.names == (["good"] if id == "new" else []), "nor does what has just failed stay"


def test_removal_leaves_nothing_and_names_what_went_and_keeps_the_spool_where_it_shall(place: Place) -> None:
    place.environment("a")
    place.switch("a", "one")
    (place.state / "events").write_text("events")
    onhost.remove(place.layout, keep_spool=True, leave_settings=False)
    assert [path.name for path in (place.folder / "host").rglob("*") if path.is_file()] == ["events"]
    place.root.mkdir(parents=True)
    place.environment("a")
    place.switch("a", "one")
    told = onhost.remove(place.layout, keep_spool=False, leave_settings=False)
    assert told["removed"] == [str(place.config), str(place.state), str(place.root)]
    assert list((place.folder / "host").rglob("*")) == []
    assert onhost.remove(place.layout, keep_spool=False, leave_settings=False)["removed"] == []


def test_what_a_roll_out_copied_that_was_cut_off_goes_with_the_next_and_with_the_removal(place: Place) -> None:
    """It may hold the broker's password."""
    place.environment("a")
    place.switch("a", "one")
    for take_away in (place.settle, lambda: onhost.remove(place.layout, keep_spool=False, leave_settings=False)):
        left = Path(place.layout["staging"]) / "left"
        left.mkdir(parents=True)
        (left / "agent.yaml").write_text("secret")
        take_away()
        assert not left.exists()


def test_removal_stops_where_settings_cannot_be_put_back(place: Place) -> None:
    """Nobody would know any more what was there before."""
    program = place.environment("a") / "bin" / "hwd-agent"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho eth0 mtu: no such interface >&2\nexit 1\n")
    program.chmod(0o755)
    place.switch("a", "one")
    (place.state / "settings").write_text("something")
    with pytest.raises(Failure, match=r"not restored: eth0 mtu: no such interface\. .*--leave-settings"):
        onhost.remove(place.layout, keep_spool=False, leave_settings=False)
    assert place.now == ("a", "one")
    program.unlink()
    with pytest.raises(Failure, match=r"not restored: .*hwd-agent: No such file or directory\. .*--leave-settings"):
        onhost.remove(place.layout, keep_spool=False, leave_settings=False)
    onhost.remove(place.layout, keep_spool=False, leave_settings=True)
    assert list((place.folder / "host").rglob("*")) == []


def test_a_look_tells_of_this_machine_and_of_the_journal_the_agents_own_words_and_those_before_it(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.environment("a")
    place.environment("half", complete=False)
    place.switch("a", "one")
    facts = look(place.layout)
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert set(facts["interfaces"]) <= set(os.listdir("/sys/class/net"))
    assert facts["interfaces"]["lo"] == "up"
    assert (facts["current"], facts["current_runs"], facts["config_mode"]) == ("a", False, "600")
    assert facts["environments"]["half"] is None
    assert facts["environments"]["a"]["version"] == "0.1.0"
    assert reach(place.layout, "127.0.0.1", 1) == {"why": "Connection refused"}
    (tmp_path / "text").write_text(JOURNAL)
    (tmp_path / "journalctl").write_text(f"#!/bin/sh\ncat {tmp_path}/text\n")
    (tmp_path / "journalctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    log, ended = journal()
    assert [line.split()[-1] for line in ended] == ["denied", "status=2/INVALIDARGUMENT"]
    assert log == [*ended, "host hwd-agent[8]: INFO hwd-agent 0.1.0 for h0"]
    (tmp_path / "text").write_text("host hwd-agent[8]: INFO hwd-agent 0.1.0 for h0\n")
    assert journal() == (["host hwd-agent[8]: INFO hwd-agent 0.1.0 for h0"], [])


JOURNAL = """\
host systemd[1]: Starting hwd-agent.service - hwd agent...
host hwd-agent[7]: hwd-agent: bad input: spool.directory: Permission denied
host systemd[1]: hwd-agent.service: Main process exited, code=exited, status=2/INVALIDARGUMENT
host systemd[1]: hwd-agent.service: Consumed 3.671s CPU time.
host systemd[1]: hwd-agent.service: Scheduled restart job, restart counter is at 1.
host systemd[1]: hwd-agent.service: Deactivated successfully.
host systemd[1]: Stopped hwd-agent.service - hwd agent.
host systemd[1]: Starting hwd-agent.service - hwd agent...
host hwd-agent[8]: INFO hwd-agent 0.1.0 for h0
host systemd[1]: Started hwd-agent.service - hwd agent.
"""


def test_the_program_says_one_json_object_a_line_and_a_failure_in_words(place: Place) -> None:
    words = json.dumps({"layout": place.layout, "keep_spool": False, "leave_settings": False})
    source = make_program()
    (place.folder / "host/etc/hwd").mkdir(parents=True)
    done = ask("remove", words, source)
    assert done["done"]["removed"] == [str(place.root)]
    Path(place.layout["root"]).parent.mkdir(parents=True, exist_ok=True)
    Path(place.layout["root"]).write_text("no folder")
    failed = ask("settle", json.dumps({"layout": place.layout, "staging": ""}), source)["failed"]
    assert failed == f"{place.root}: File exists"


def ask(verb: str, words: str, source: bytes) -> Any:
    said = subprocess.run([sys.executable, "-I", "-B", "-", verb, words], input=source, capture_output=True, timeout=30)
    return json.loads(said.stdout.splitlines()[-1])
