"""The unit of the daemon, judged by systemd's own tools, and the command that writes it."""

import grp
import json
import pwd
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hwd.cli.commands.service import obstacles
from hwd.cli.run_command import run
from hwd.daemon.installed_drivers import load_text
from hwd.daemon.service_unit import ServiceUnit, is_ours
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError

MOST_EXPOSED = 1.5
"""Of 10, as `systemd-analyze security` counts it."""


def bed_of(switch: str = "address: '10.0.0.5:3082'", more: str = "") -> Testbed:
    login = "login: {user: admin, password: {env: OCS1_PASSWORD}}"
    return load_text(
        f"testbed: lab\nswitches:\n  ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 8x8, {switch}, {login}}}\n"
        f"hosts: {{}}\nfibres: []\n{more}",
        file="lab.yaml",
    ).require()


def unit(bed: Testbed | None = None, *, program: Path = Path("/opt/hwd/bin/hwd"), **more: object) -> ServiceUnit:
    values = {"file": Path("/etc/hwd/lab.yaml"), "http": "127.0.0.1:8642", **more}
    return ServiceUnit(testbed=bed or bed_of(), program=program, **values)  # type: ignore[arg-type]


def values(text: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


def analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze. As root: apt-get install systemd")
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, timeout=30, check=False)


def test_systemd_finds_nothing_wrong_with_it_and_that_it_may_do_little(tmp_path: Path) -> None:
    program, path = tmp_path / "hwd", tmp_path / "hwd-lab.service"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for user in (None, "root"):
        path.write_text(unit(bed_of(), program=program, user=user).text)
        said = analyze("verify", "--man=no", str(path))
        assert [line for line in said.stderr.splitlines() if "hwd-lab" in line] == []
    path.write_text(unit().text)
    said = analyze("security", "--offline=yes", "--no-pager", str(path))
    found = re.search(r"exposure level for hwd-lab.service: ([\d.]+)", said.stdout)
    assert found is not None, said.stderr
    assert float(found.group(1)) <= MOST_EXPOSED


def test_a_serial_line_is_the_only_device_that_it_opens_and_the_group_of_the_token_passes_the_data_folder() -> None:
    plain = unit().text
    serial = unit(bed_of("address: 'serial:/dev/ttyUSB0'")).text
    assert (values(plain, "PrivateDevices"), values(plain, "DeviceAllow")) == (["yes"], [])
    assert (values(serial, "PrivateDevices"), values(serial, "DeviceAllow")) == ([], ["/dev/ttyUSB0 rw"])
    assert values(serial, "SupplementaryGroups") == ["dialout"]
    text = unit(bed_of(more="access_group: root\n"), user="lab").text
    assert (values(text, "Group"), values(text, "StateDirectoryMode")) == (["root"], ["0710"])
    assert values(unit().text, "StateDirectoryMode") == ["0700"]


def test_bytes_that_mean_something_to_systemd_are_kept_and_a_line_break_is_refused() -> None:
    """A folder of `ReadWritePaths` with `$$` in its name would be another one, and the service could write nowhere."""
    text = unit(file=Path("/etc/hwd/50% of $HOME/lab.yaml")).text
    assert 'serve "/etc/hwd/50%% of $$HOME/lab.yaml" --data' in values(text, "ExecStart")[0]
    text = unit(program=Path("/opt/$x/hwd"), data=Path("/srv/50% $x"), user="lab").text
    assert values(text, "ReadWritePaths") == ['"/srv/50%% $x"']
    assert values(text, "ExecStart")[0].startswith("/opt/$x/hwd serve ")
    assert '--data "/srv/50%% $$x" ' in values(text, "ExecStart")[0]
    places: list[dict[str, Any]] = [{"file": Path("/etc/hwd/a\nUser=root")}, {"http": "127.0.0.1\n:80"}]
    for place in places:
        with pytest.raises(ConfigError, match="a systemd unit takes no such character"):
            _ = unit(**place).text


def test_a_unit_that_somebody_changed_is_not_ours_and_a_group_of_devices_that_does_not_exist_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = unit().text
    assert is_ours(text)
    assert not is_ours(text.replace("NoNewPrivileges=yes", "NoNewPrivileges=no"))
    assert not is_ours("[Service]\n")
    # A machine without GPIO has no such group as a rule; here none has any.
    monkeypatch.setattr(grp, "getgrnam", {}.__getitem__)
    bed = bed_of("address: 'serial:/dev/ttyUSB0'")
    assert "addgroup --system dialout" in " ".join(obstacles(unit(bed, user="root")))
    assert "addgroup" not in " ".join(obstacles(unit(user="root")))


# --- the command

FILE = """\
testbed: lab
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, address: '10.0.0.5:3082'}
hosts: {}
fibres: []
"""


class Machine:
    """A folder in place of a machine's /etc."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.units = folder / "units"
        self.units.mkdir()
        self.file = folder / "lab.yaml"
        self.file.write_text(FILE)
        self.unit = self.units / "hwd-lab.service"

    def install(self, *more: str) -> tuple[int, str, str]:
        """What the command ends with, and says on both of its streams."""
        status = run(["install-service", str(self.file), "--units", str(self.units), *more])
        return status, *self.capsys.readouterr()


@pytest.fixture
def machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Machine:
    return Machine(tmp_path, capsys)


def test_what_a_service_would_not_see_or_start_is_named_before_anything_is_written(machine: Machine) -> None:
    status, out, err = machine.install("--dry-run")
    assert status == 2
    assert out.startswith("# Written by `hwd install-service`")
    assert f"{machine.file}: a service does not see this folder" in err or "may not pass" in err
    assert not machine.unit.exists()
    machine.file.write_text(FILE.replace("address: '10.0.0.5:3082'", "twin: {timing: ideal, seed: 1}"))
    status, _, err = machine.install()
    assert (status, machine.unit.exists()) == (2, False)
    assert "ocs1 of testbed lab are twins" in err


def test_a_file_that_it_did_not_write_is_left_alone_and_an_enabled_service_is_not_removed(machine: Machine) -> None:
    machine.unit.write_text("[Service]\nExecStart=/bin/true\n")
    status, _, err = machine.install("--uninstall")
    assert (status, machine.unit.read_text()) == (3, "[Service]\nExecStart=/bin/true\n")
    assert "did not write it" in err
    machine.unit.write_text(unit().text)
    wants = machine.units / "multi-user.target.wants"
    wants.mkdir()
    (wants / "hwd-lab.service").symlink_to(machine.unit)
    status, _, err = machine.install("--uninstall")
    assert (status, machine.unit.exists()) == (3, True)
    assert "systemctl disable --now hwd-lab" in err
    (wants / "hwd-lab.service").unlink()
    status, out, _ = machine.install("--uninstall", "--json")
    assert (status, machine.unit.exists()) == (0, False)
    assert json.loads(out)["data"] == "/var/lib/hwd/lab"


def test_a_user_that_does_not_exist_and_a_data_folder_that_it_could_not_use_are_named(
    machine: Machine, tmp_path: Path
) -> None:
    status, _, err = machine.install("--user", "nobody-of-that-name", "--data", str(machine.units))
    assert (status, machine.unit.exists()) == (2, False)
    assert "--user nobody-of-that-name: there is no such user here" in err
    assert "Make it (adduser --system --group nobody-of-that-name)" in err
    assert "--user root" not in machine.install("--user", "root")[2]
    assert "--user 0" not in machine.install("--user", "0")[2]


def test_a_data_folder_that_its_user_could_not_use_is_named(machine: Machine, tmp_path: Path) -> None:
    away = machine.install("--user", "root", "--data", str(tmp_path / "none"))[2]
    assert f"--data {tmp_path / 'none'}: there is no such folder. Make it: install -d -m 700 -o root" in away
    others = next(one.pw_name for one in pwd.getpwall() if one.pw_uid != tmp_path.stat().st_uid)
    foreign = machine.install("--user", others, "--data", str(tmp_path))[2]
    assert f"--data {tmp_path}: does not belong to {others}. Change that: chown -R {others} {tmp_path}" in foreign
