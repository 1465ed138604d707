from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hwd.config.check import check_file, check_files
from hwd.config.testbed.equipment import DriverSpecLike
from hwd.config.testbed.testbed import Loaded, load_read
from hwd.config.yaml.tree import Reading, read_tree
from hwd.model.testbed import Testbed

Specs = dict[str, DriverSpecLike]
WorkOf = Callable[[Callable[[], object]], int]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("testbed: t\nhost: {}\n", "2: host: unknown key; did you mean hosts?"),
        ("playbook: p\nsteps: []\n", "2: steps: must not be empty"),
        (
            "topology: t\nlinks: [h0.eth0 <-> h7.eth0]\n",
            "2: links[0]: h7.eth0: no such NIC port in testbed opus-testbed; did you mean h3.eth0?",
        ),
        (
            "test_bed: t\n",
            "1: is no testbed, playbook, topology or scenario: the key at its top names the kind (did you mean "
            "testbed?)",
        ),
        ("", "1: the file is empty"),
    ],
)
def test_kind_of_a_file_is_told_by_its_top(tmp_path: Path, specs: Specs, opus: Testbed, text: str, said: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    reading = read_tree(path)
    found = load_read(reading, specs).problems if text.startswith("testbed:") else check_file(reading, opus)
    assert [str(problem) for problem in found] == [f"{path}:{said}"]


def test_a_testbed_is_loaded_once_whatever_stands_beside_it(tmp_path: Path, specs: Specs) -> None:
    (tmp_path / "t.yaml").write_text(_star(2, 2))
    (tmp_path / "p.yaml").write_text("topology: t\nlinks: [h0.eth0 <-> h9.eth0]\n")
    read: list[str] = []

    def load(reading: Reading) -> Loaded:
        read.append(reading.file)
        return load_read(reading, specs)

    problems = check_files([tmp_path / "p.yaml", tmp_path / "t.yaml"], load)
    assert read == [str(tmp_path / "t.yaml")]
    assert ["h9.eth0: no such NIC port in testbed star" in problem.text for problem in problems] == [True]


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("sound", lambda text: text),
        ("each fibre with a loss of its own", lambda text: _with_losses(text, 0.0)),
        ("each pair over its budget", lambda text: _with_losses(text, 5.0)),
        ("no fibre at all", lambda text: text.partition("fibres:")[0]),
        ("fibres of a switch that is not there", lambda text: text.replace("<-> ocs1.", "<-> ocs9.")),
    ],
)
def test_a_check_takes_work_in_line_with_the_ports(
    tmp_path: Path, specs: Specs, work_of: WorkOf, what: str, change: Callable[[str], str]
) -> None:
    def checked(hosts: int) -> int:
        path = tmp_path / f"{hosts}.yaml"
        path.write_text(change(_star(hosts, 4)))
        load = partial(load_read, specs=specs)
        assert (not check_files([path], load)) == (what in ("sound", "each fibre with a loss of its own"))
        return work_of(lambda: check_files([path], load))

    one, four = checked(40), checked(160)
    assert four < 4.6 * one, f"{four / one:.2f} times the work for four times the ports"


def test_a_misspelt_section_is_reported_without_its_consequences(tmp_path: Path, specs: Specs) -> None:
    text = _star(3, 2)
    for section, wrong in (("fibres", "fibers"), ("hosts", "host"), ("switches", "swiches")):
        path = tmp_path / f"{wrong}.yaml"
        path.write_text(text.replace(f"{section}:", f"{wrong}:"))
        line = 1 + path.read_text()[: path.read_text().index(f"\n{wrong}:")].count("\n") + 1
        problems = check_files([path], partial(load_read, specs=specs))
        assert [str(one) for one in problems] == [f"{path}:{line}: {wrong}: unknown key; did you mean {section}?"]


def test_what_is_wrong_in_a_misspelt_section_is_said_too(tmp_path: Path, specs: Specs) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(_star(3, 2).replace("fibres:", "fibers:").replace("h0.eth0 <-> ocs1.1", "h0.eth0 <-> ocs1.999"))
    first, second = (str(one) for one in check_files([path], partial(load_read, specs=specs)))
    assert first.endswith("fibers: unknown key; did you mean fibres?")
    assert "fibres[0]: ocs1.999: switch ocs1" in second


def test_a_host_with_misspelt_nics_is_said_once(tmp_path: Path, specs: Specs) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(_star(2, 4).replace("    nics:", "    nic:", 1))
    assert [one.text for one in check_files([path], partial(load_read, specs=specs))] == [
        "unknown key; did you mean nics?"
    ]


def test_a_secret_that_is_not_there_is_a_warning_once(tmp_path: Path, specs: Specs) -> None:
    login = "login: {user: admin, password: {env: RACK_PASSWORD}}"
    switches = "\n".join(
        f"  ocs{number}: {{driver: polatis-tl1, model: polatis-6000, size: 8x8, address: 10.0.0.{number}, {login}}}"
        for number in range(1, 8)
    )
    path = tmp_path / "t.yaml"
    path.write_text(f"testbed: t\nswitches:\n{switches}\n")
    (problem,) = check_files([path], partial(load_read, specs=specs, environment={}))
    assert problem.warning
    assert str(problem) == (
        f"{path}:3: switches.ocs1.login.password: warning: secret env:RACK_PASSWORD: the environment variable is not "
        f"set. "
        "Set it where the daemon runs; without it no session with ocs1, ocs2, ocs3, ocs4 and 3 more is opened"
    )
    assert check_files([path], partial(load_read, specs=specs, environment={"RACK_PASSWORD": "x"})) == ()


def _star(hosts: int, ports: int) -> str:
    """All NIC ports of some hosts on switches of 64 pairs, in order."""
    count = hosts * ports
    lines = ["testbed: star", "switches:"]
    lines += [
        f"  ocs{number}: {{driver: polatis-tl1, model: polatis-6000, size: 64x64, twin: {{}}}}"
        for number in range(1, 2 + (count - 1) // 64)
    ]
    lines.append("hosts:")
    for host in range(hosts):
        lines.append(f"  h{host}:\n    nics:")
        lines += [
            f"      eth{port}: {{module: 100g-lr4, ip: 10.{port}.{host // 256}.{host % 256}/32}}"
            for port in range(ports)
        ]
    lines.append("fibres:")
    for number in range(count):
        host, port = divmod(number, ports)
        lines.append(f"  - h{host}.eth{port} <-> ocs{1 + number // 64}.{1 + number % 64}")
    return "\n".join(lines) + "\n"


def _with_losses(text: str, least_db: float) -> str:
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if " <-> " in line:
            one, _, other = line.removeprefix("  - ").partition(" <-> ")
            lines[index] = f"  - {{from: {one}, to: {other}, loss_db: {least_db + index / 1e5:.5f}}}"
    return "\n".join(lines) + "\n"
