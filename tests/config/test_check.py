"""Files of every kind: which it is, what is wrong in it, and no traceback whatever stands there."""

import contextlib
import importlib.util
import itertools
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwd.config import shipped_file as module
from hwd.config.check import check_file, check_files
from hwd.config.json_schema import json_schema
from hwd.config.playbook.playbook import load_playbook, load_playbook_text
from hwd.config.scenario import load_scenario
from hwd.config.shipped_file import shipped_file
from hwd.config.testbed.equipment import DriverSpecLike
from hwd.config.testbed.testbed import load_testbed
from hwd.config.testbed.topology_file import load_topology
from hwd.config.yaml.file_problem import Loaded
from hwd.config.yaml.tree import Reading, parse_tree, read_tree
from hwd.daemon.installed_drivers import load_text
from hwd.model.fault import Fault
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError

from ..answers import check_answers

Specs = dict[str, DriverSpecLike]
WorkOf = Callable[[Callable[[], object]], int]


TOPS = {
    "testbed: t\nhost: {}\n": "2: host: unknown key; did you mean hosts?",
    "playbook: p\nsteps: []\n": "2: steps: must not be empty",
    "topology: t\nlinks: [h0.eth0 <-> h7.eth0]\n": (
        "2: links[0]: h7.eth0: no such NIC port in testbed opus-testbed; did you mean h3.eth0?"
    ),
    "test_bed: t\n": (
        "1: is no testbed, playbook, topology or scenario: the key at its top names the kind (did you mean testbed?)"
    ),
    "": "1: the file is empty",
}


def test_kind_of_a_file_is_told_by_its_top(tmp_path: Path, specs: Specs, opus: Testbed) -> None:
    path = tmp_path / "f.yaml"
    for text, said in TOPS.items():
        path.write_text(text)
        reading = read_tree(path)
        found = load_testbed(reading, specs).problems if text.startswith("testbed:") else check_file(reading, opus)
        assert [str(problem) for problem in found] == [f"{path}:{said}"]


def test_a_testbed_is_loaded_once_whatever_stands_beside_it(tmp_path: Path, specs: Specs) -> None:
    (tmp_path / "t.yaml").write_text(_star(2, 2))
    (tmp_path / "p.yaml").write_text("topology: t\nlinks: [h0.eth0 <-> h9.eth0]\n")
    read: list[str] = []

    def load(reading: Reading) -> Loaded[Testbed]:
        read.append(reading.file)
        return load_testbed(reading, specs)

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
        load = partial(load_testbed, specs=specs)
        assert (not check_files([path], load)) == (what in ("sound", "each fibre with a loss of its own"))
        return work_of(lambda: check_files([path], load))

    one, four = checked(20), checked(80)
    assert four < 4.6 * one, f"{four / one:.2f} times the work for four times the ports"


def test_a_misspelt_key_is_reported_without_its_consequences_and_with_what_is_wrong_in_its_section(
    tmp_path: Path, specs: Specs
) -> None:
    path = tmp_path / "t.yaml"

    def said(text: str) -> list[str]:
        path.write_text(text)
        return [str(one).removeprefix(f"{path}:") for one in check_files([path], partial(load_testbed, specs=specs))]

    text = _star(3, 2)
    for section, wrong in (("fibres", "fibers"), ("hosts", "host"), ("switches", "swiches")):
        line = 1 + text[: text.index(f"\n{section}:")].count("\n") + 1
        found = said(text.replace(f"{section}:", f"{wrong}:"))
        assert found == [f"{line}: {wrong}: unknown key; did you mean {section}?"]
    first, second = said(text.replace("fibres:", "fibers:").replace("h0.eth0 <-> ocs1.1", "h0.eth0 <-> ocs1.999"))
    assert first.endswith("fibers: unknown key; did you mean fibres?")
    assert "fibres[0]: ocs1.999: switch ocs1" in second
    (only,) = said(_star(2, 4).replace("    nics:", "    nic:", 1))
    assert only.endswith(": unknown key; did you mean nics?")


def test_a_secret_that_is_not_there_is_a_warning_once(tmp_path: Path, specs: Specs) -> None:
    login = "login: {user: admin, password: {env: RACK_PASSWORD}}"
    switches = "\n".join(
        f"  ocs{number}: {{driver: polatis-tl1, model: polatis-6000, size: 8x8, address: 10.0.0.{number}, {login}}}"
        for number in range(1, 8)
    )
    path = tmp_path / "t.yaml"
    path.write_text(f"testbed: t\nswitches:\n{switches}\n")
    (problem,) = check_files([path], partial(load_testbed, specs=specs, environment={}))
    assert problem.warning
    assert str(problem) == (
        f"{path}:3: switches.ocs1.login.password: warning: secret env:RACK_PASSWORD: the environment variable is not "
        f"set. "
        "Set it where the daemon runs; without it no session with ocs1, ocs2, ocs3, ocs4 and 3 more is opened"
    )
    assert check_files([path], partial(load_testbed, specs=specs, environment={"RACK_PASSWORD": "x"})) == ()


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


LOADS: dict[str, Callable[[Path], Any]] = {
    "testbed": lambda path: load_testbed(path, {}),
    "playbook": load_playbook,
    "topology": load_topology,
    "scenario": load_scenario,
}
COMMANDS = {
    "testbed": "serve it with `hwd serve",
    "playbook": "run it with `hwd run",
    "topology": "apply it with `hwd apply",
    "scenario": "play it with `hwd twin up TESTBED --scenario",
}


def test_another_kind_is_one_problem_with_the_command_for_it(tmp_path: Path) -> None:
    path = tmp_path / "my file.yaml"
    for kind, other in itertools.product(LOADS, LOADS):
        path.write_text(f"# made here\n{other}: x\nnonsense: 1\n")
        with pytest.raises(ConfigError) as refused:
            LOADS[kind](path).require()
        if kind == other:
            assert "nonsense: unknown key" in str(refused.value)
        else:
            assert str(refused.value) == f"{path}:2: is a {other}, not a {kind}: {COMMANDS[other]} '{path}'`"
    path.write_text("scenario: x\nplaybook: p\nsteps: [dwell: {for_s: 1}]\n")  # of the right kind, with another's key
    with pytest.raises(ConfigError, match="scenario: unknown key"):
        load_playbook(path).require()


KEYS: Mapping[str, str] = {
    "testbed": "testbed switches hosts fibres ports passives packet_switches h0 ocs1 nics eth0 module type twin clock "
    "driver model kind login password gpus from to via options x",
    "playbook": "playbook steps parameters report lease apply wait repeat times topology pairs ports for_s for "
    "within_s by n hosts sweep parallel note host fault assert include set file with from to step switch mtu "
    "last.links",
    "scenario": "scenario faults every_s shows at_s fault ends switch seconds",
}
TEXTS: Mapping[str, list[str]] = {
    "testbed": ["polatis-tl1", "polatis-6000", "100g-lr4", "h0.eth0 <-> ocs1.1", "panel", "10.0.0.1"],
    "playbook": ["ring", "all", "ready", "ocs1:1A-2B", "{{ n }}", "{{", "h0", "n > last.links", "slow", "p.yaml"],
    "scenario": ["slow", "clear", "x"],
}
ITEMS: Mapping[str, str] = {"testbed": "fibres", "playbook": "steps", "scenario": "faults"}
"""The key whose value is a list of mappings."""


def files(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    keys = st.sampled_from(KEYS[kind].split())
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(TEXTS[kind]) | st.text()
    trees = st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5), max_leaves=25
    )
    items = st.lists(st.dictionaries(keys, trees, max_size=3), max_size=4)
    return st.builds(
        lambda items, more: {kind: "x", ITEMS[kind]: items} | more, items, st.dictionaries(keys, trees, max_size=6)
    )


@pytest.mark.parametrize("kind", KEYS)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_tree_of_our_keys_gives_problems_and_no_traceback(kind: str, data: st.DataObject, opus: Testbed) -> None:
    read: Mapping[str, Callable[[str], object]] = {
        "testbed": lambda text: load_text(text, file="t.yaml").require(),
        "playbook": lambda text: load_playbook_text(text, file="p.yaml", testbed=opus),
        "scenario": lambda text: load_scenario(parse_tree(text, file="s.yaml"), switch="ocs1").require(),
    }
    with contextlib.suppress(ConfigError):
        read[kind](yaml.safe_dump(data.draw(files(kind))))


# --- scenario files: faults in their order, and everything that is wrong in one, with its line


SOUND = """\
scenario: dying-mirror
shows: what a driver makes of it
faults:
  - {at_s: 90, fault: stick, ends: [3A]}
  - {at_s: 10.5, fault: drift, ends: [3A], loss_db: 6, over_s: 60}
  - at_s: 120
    fault: clear
every_s: 150
"""


def problems(text: str, *, switch: str | None = "ocs1", check: Callable[[Fault], None] | None = None) -> list[str]:
    return [
        str(problem) for problem in load_scenario(parse_tree(text, file="s.yaml"), switch=switch, check=check).problems
    ]


def test_faults_are_in_the_order_of_their_times_and_of_the_switch_or_the_rack_that_is_meant() -> None:
    scenario = load_scenario(parse_tree(SOUND, file="s.yaml"), switch="ocs1").require()
    assert (scenario.name, scenario.every_s) == ("dying-mirror", 150)
    assert [(one.at_s, str(one.fault), one.source) for one in scenario.faults] == [
        (10.5, "ocs1 drift ends=3A loss_db=6.0 over_s=60.0", "s.yaml:5"),
        (90, "ocs1 stick ends=3A", "s.yaml:4"),
        (120, "ocs1 clear", "s.yaml:6"),
    ]
    text = "scenario: s\nfaults:\n  - {at_s: 0, fault: cut, port: h0.eth0}\n  - {at_s: 1, fault: clear}\n"
    scenario = load_scenario(parse_tree(text, file="s.yaml")).require()
    assert [str(one.fault) for one in scenario.faults] == ["h0.eth0 cut strand=both", "clear"]


def test_every_mistake_is_told_with_its_place() -> None:
    def of(switch: str | None) -> Callable[[str], list[str]]:
        return lambda text: [one.removeprefix("s.yaml:") for one in problems(f"{text}\n", switch=switch)]

    golden = Path(__file__).with_name("scenario_refusals.txt")
    check_answers(golden, {"scenario of ocs1": of("ocs1"), "scenario of a rack": of(None)})


def test_what_cannot_be_set_is_told_with_its_place_and_a_scenario_is_a_kind_of_file_that_is_checked(
    tmp_path: Path,
) -> None:
    def check(fault: Fault) -> None:
        raise ConfigError(f"fault: {fault.subject} has no port 3A")

    told = problems(SOUND, check=check)
    assert "s.yaml:4: faults[0].fault: ocs1 has no port 3A" in told
    assert len(told) == 3
    path = tmp_path / "s.yaml"
    path.write_text(SOUND.replace("stick", "stuck"))
    assert [str(problem).partition("s.yaml")[2] for problem in check_file(read_tree(path))] == [
        ":4: faults[0].fault: 'stuck' is no fault; did you mean stick?"
    ]


def test_schema_of_a_scenario_lets_the_switch_be_left_out_and_no_time() -> None:
    validator = jsonschema.Draft202012Validator(json_schema("scenario"))
    good = {"scenario": "s", "faults": [{"at_s": 1, "fault": "slow", "seconds": 1}, {"at_s": 2, "fault": "clear"}]}
    assert validator.is_valid(good)
    for bad in ({"fault": "slow", "seconds": 1}, {"at_s": 1, "fault": "slow"}, {"at_s": 1, "fault": "cut"}):
        assert not validator.is_valid({"scenario": "s", "faults": [bad]})


# --- files that come with hwd, found in a checkout and in what a wheel installs


TREE = Path(__file__).parents[2]


@pytest.fixture
def installed(tmp_path: Path) -> ModuleType:
    """The module as site-packages has it: the files inside the package, nothing beside it but other packages."""
    package = tmp_path / "site-packages" / "hwd"
    (package / "config").mkdir(parents=True)
    copy = package / "config" / "shipped_file.py"
    shutil.copy(str(module.__file__), copy)
    for kind in ("playbooks", "examples"):
        shutil.copytree(TREE / kind, package / f"_{kind}")
    spec = importlib.util.spec_from_file_location("installed_shipped", copy)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_a_file_is_found_with_and_without_its_suffix_and_a_wrong_name_says_which_there_are(
    installed: ModuleType,
) -> None:
    for kind, name in (("playbooks", "smoke"), ("examples", "two-hosts")):
        assert shipped_file(kind, name) == shipped_file(kind, f"{name}.yaml") == TREE / kind / f"{name}.yaml"
        for path in (TREE / kind).glob("*.yaml"):
            found = installed.shipped_file(kind, path.stem)
            assert found.read_bytes() == path.read_bytes()
            assert found.parent.name == f"_{kind}"
    for find in (shipped_file, installed.shipped_file):
        with pytest.raises(
            ConfigError, match=r"x: no such file here, and none .* playbooks .*reconfiguration-timeline, .*smoke"
        ):
            find("playbooks", "x")
    for name in ("smok", "smok.yaml"):
        with pytest.raises(ConfigError, match=f"^{name}: no such file here, .*; did you mean smoke\\?$"):
            shipped_file("playbooks", name)
