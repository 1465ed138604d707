"""What is installed, and `check`: what would be refused later, by a driver, a plane or a job, is said with its line."""

from pathlib import Path

import pytest

from hwd.config.shipped_file import shipped_file
from hwd.daemon.installed_drivers import check, load
from hwd_drivers.devices import registry

JOB = """\
testbed: lab
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal}}
PACKETS
hosts:
  h0: {twin: {timing: ideal}, nics: {eth0: {module: 100g-lr4}, eth1: {module: 100g-lr4}}}
  h1: {twin: {timing: ideal}, nics: {eth0: {module: 100g-lr4}, eth1: {module: 100g-lr4}}}
fibres: [h0.eth0 <-> ocs1.1, h1.eth0 <-> ocs1.2ELECTRICAL]
jobs:
  train: {command: [/bin/true], user: lab, hosts: [h0, h1], plane: "PLANE"}
"""
ALL_OPTICAL = {"PACKETS\n": "", "ELECTRICAL": ", h0.eth1 <-> ocs1.3, h1.eth1 <-> ocs1.4"}
WITH_PACKETS = {"PACKETS": "packet_switches: {sn1: {ports: 4}}", "ELECTRICAL": ", h0.eth1 <-> sn1.1, h1.eth1 <-> sn1.2"}


def problems(text: str, tmp_path: Path, environment: dict[str, str] | None = None) -> list[str]:
    (tmp_path / "lab.yaml").write_text(text)
    found = check([tmp_path / "lab.yaml"], environment or {})
    return [str(one).removeprefix(f"{tmp_path}/") for one in found]


def job(plane: str, rack: dict[str, str]) -> str:
    text = JOB.replace("PLANE", plane)
    for before, after in rack.items():
        text = text.replace(before, after)
    return text


REFUSED_PLANES: list[tuple[str, dict[str, str], str]] = [
    ("mfabric", WITH_PACKETS, "layers=: is the number of layers with experts"),
    ("mfabric layers=many", WITH_PACKETS, "layers=many: is the number of layers with experts"),
    ("mfabric layers=4", ALL_OPTICAL, "h0, h1: no NIC port on a packet switch"),
    ("static topology=nonsense", ALL_OPTICAL, "'nonsense' is no topology"),
    ("static topology=torus", ALL_OPTICAL, "torus: needs dims=4x2"),
    ("static", WITH_PACKETS, "ring: needs 2 NIC ports on optical switches a host; h0 has 1"),
    ("static topology=ring topology=pairs", ALL_OPTICAL, "argument topology is named twice"),
]


def test_plane_that_refuses_its_job_is_said_with_its_line_and_one_that_takes_it_is_no_problem(tmp_path: Path) -> None:
    for plane, rack, why in REFUSED_PLANES:
        text = job(plane, rack)
        line = next(at for at, line in enumerate(text.splitlines(), start=1) if "plane:" in line)
        (found,) = problems(text, tmp_path)
        assert found.startswith(f"lab.yaml:{line}: jobs.train.plane: ")
        assert why in found
    for plane, rack in (("mfabric layers=4", WITH_PACKETS), ("static", ALL_OPTICAL)):
        assert problems(job(plane, rack), tmp_path) == []


def switch(driver: str, model: str, more: str) -> str:
    size = registry.find(driver).sizes.get(model)
    sized = "" if size is None else f"size: '{size}', "
    entry = f"{{driver: {driver}, model: {model}, {sized}{more}}}"
    return f"testbed: lab\nswitches:\n  s: {entry}\nhosts: {{}}\nfibres: []\n"


def test_model_of_another_driver_is_said_for_each_driver(tmp_path: Path) -> None:
    for driver in registry.names():
        other = "polatis-6000" if "polatis-6000" not in registry.find(driver).models else "mxs-9100"
        found = problems(switch(driver, other, "twin: {timing: ideal}"), tmp_path)
        said = f"lab.yaml:3: switches.s.model: driver {driver} has no model '{other}'"
        assert [one for one in found if said in one], driver


WITH_LOGIN = ("calient-rest", "calient-tl1", "polatis-netconf", "polatis-restconf", "polatis-tl1", "sonic-ocs")


def test_driver_that_opens_no_session_without_a_login_says_so(tmp_path: Path) -> None:
    for driver in WITH_LOGIN:
        model = next(iter(registry.find(driver).models))
        for login in ("", ", login: {user: ada}"):
            found = problems(switch(driver, model, f"address: '10.0.0.5:99'{login}"), tmp_path)
            said = f"lab.yaml:3: switches.s: driver {driver}: needs a login: write login: "
            assert said in "\n".join(found), driver
        complete = switch(driver, model, "address: '10.0.0.5:99', login: {user: ada, password: {env: P}}")
        assert problems(complete, tmp_path, {"P": "x"}) == []
        assert problems(switch(driver, model, "twin: {timing: ideal}"), tmp_path) == []


def test_key_takes_the_place_of_a_password_and_wiring_for_another_number_of_parts_is_said(tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    with_key = "address: '10.0.0.5:99', login: {user: ada}, options: {key_file: KEY}"
    text = switch("sonic-ocs", "sonic-ocs", with_key)
    assert problems(text.replace("KEY", f"{tmp_path}/key"), tmp_path) == []
    (found,) = problems(text.replace("KEY", "/nowhere/key"), tmp_path)
    assert "switches.s.options.key_file: warning: /nowhere/key: there is no such file here" in found
    wired = "address: /dev/gpiochip0, options: {parts: [{level: 1, contacts: [2, 3]}]}"
    (found,) = problems(switch("ttl", "2x2", wired), tmp_path)
    assert found == "lab.yaml:3: switches.s: driver ttl: parts in options.parts: 1, elements of the switch: 2"


TOPOLOGY = "topology: t\nlinks:\n  - h0.eth0 <-> h9.eth0\n"


def test_shipped_testbeds_fit_what_is_installed_and_a_timing_that_nobody_has_is_a_problem(tmp_path: Path) -> None:
    for name in ("opus-testbed", "mfabric-testbed"):
        loaded = load(shipped_file("examples", name))
        assert loaded.value is not None
        assert [str(problem) for problem in loaded.problems if not problem.warning] == []
    text = shipped_file("examples", "opus-testbed").read_text().replace("polatis-opus", "polatis-warp")
    (tmp_path / "bad.yaml").write_text(text)
    assert any("polatis-warp" in problem.text for problem in load(tmp_path / "bad.yaml").problems)
    (tmp_path / "t.yaml").write_text(TOPOLOGY)
    opus = shipped_file("examples", "opus-testbed")
    assert check([tmp_path / "t.yaml"]) == ()
    [problem] = check([tmp_path / "t.yaml", opus])
    assert (problem.line, "h9.eth0" in problem.text) == (3, True)


def test_a_driver_that_is_installed_and_cannot_be_loaded_is_told_with_what_is_wrong_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hwd-acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hwd.drivers]\nacme-x1 = acme_half_done:driver\n")
    (tmp_path / "acme_half_done.py").write_text("import os\n\ndriver = Nothing\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = "testbed: t\nswitches:\n  ocs1: {driver: acme-x1, model: x1, address: 10.0.0.5}\n"
    (tmp_path / "t.yaml").write_text(text)
    for told in (load(tmp_path / "t.yaml").problems, check([tmp_path / "t.yaml"])):
        (problem,) = told
        assert problem.line == 3
        assert "name 'Nothing' is not defined" in problem.text
        assert f"{tmp_path / 'acme_half_done.py'}:3. Mend hwd-acme" in problem.text
        assert "not installed" not in problem.text
