"""Sections of testbed files: interlocks, jobs, modules; what is read, and what others are told of it."""

from collections.abc import Callable

from hwd.bus.module_timings import declared_timings
from hwd.config.yaml.file_problem import Loaded
from hwd.model import testbed_diff as diff
from hwd.model.interlock import InterlockName, InterlockRules
from hwd.model.plane import CommunicationGroup, Rank
from hwd.model.testbed import ModuleStandard, Testbed
from hwd.twin.agent_config import agent_config
from hwd_agents.process.config import ModuleTiming, SourcesConfig, TwinConfig
from hwd_drivers.core.values import Crossconnect

from ..conftest import said

Load = Callable[[str], Loaded[Testbed]]

SOUND = """testbed: small
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, address: 10.0.0.5}
  tx0: {driver: osw, model: 1x4, owner: h0, address: /dev/ttyUSB0}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}}}
  h1: {nics: {eth0: {module: 100g-lr4}}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h1.eth0 <-> ocs1.2
"""


def test_all_keys_are_read_and_without_the_section_no_limit_is_set_and_nothing_can_be_overridden(load: Load) -> None:
    assert load(SOUND).require().interlocks == InterlockRules()
    assert load(SOUND + "interlocks:\n").require().interlocks == InterlockRules()
    rules = (
        load(
            SOUND
            + """
interlocks:
  input-power: {max_dbm: {ocs1: 17, tx0: 24.5}}
  loss-budget: {override: allowed}
  overload: {override: never}
  port-state: {override: allowed}
  wear: {moves: {ocs1: 1000000}, moves_per_hour: {ocs1: 600}, override: allowed}
  rate: {changes: {ocs1: 30}, per_s: 20}
  forbidden-pair: {pairs: {h1.eth0 <-> h0.eth0: other tenants, "ocs1:4B-3A": bad mirror}}
"""
        )
        .require()
        .interlocks
    )
    assert rules.overridable == {InterlockName.LOSS_BUDGET, InterlockName.PORT_STATE, InterlockName.WEAR}
    assert rules.input_max_dbm == {"ocs1": 17.0, "tx0": 24.5}
    assert (rules.moves_max, rules.moves_per_hour_max) == ({"ocs1": 1_000_000}, {"ocs1": 600})
    assert (rules.changes_max, rules.rate_s) == ({"ocs1": 30}, 20.0)
    assert {tuple(sorted(map(str, pair))): why for pair, why in rules.forbidden_ports.items()} == {
        ("h0.eth0", "h1.eth0"): "other tenants"
    }
    assert rules.forbidden_crossconnects == {("ocs1", Crossconnect.parse("3A-4B")): "bad mirror"}
    allowed = "".join(f"  {name}: {{override: allowed}}\n" for name in InterlockName)
    assert load(f"{SOUND}interlocks:\n{allowed}").require().interlocks.overridable == {*InterlockName}


OF_TWO_HOSTS = """testbed: small
switches: {ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal}}}
hosts:
  h0: {twin: {}, nics: {eth0: {module: 100g-lr4}}}
  h1: {twin: {}, nics: {eth0: {module: 100g-lr4}}}
"""
JOB = "  train: {command: [/usr/bin/true], user: lab, hosts: [h0, h1], plane: static}\n"
WITH_JOB = f"{OF_TWO_HOSTS}jobs:\n{JOB}"


def job(keys: str) -> str:
    """A file whose job has these keys too, or instead, each on a line of its own from line 8 on."""
    own = {"command": "[/usr/bin/true]", "user": "lab", "hosts": "[h0, h1]", "plane": "static"}
    stated = "".join(f"    {line}\n" for line in keys.splitlines())
    names = {line.partition(":")[0] for line in keys.splitlines()}
    rest = "".join(f"    {key}: {value}\n" for key, value in own.items() if key not in names)
    return f"{OF_TWO_HOSTS}jobs:\n  train:\n{stated}{rest}"


def mistakes(loaded: Loaded[Testbed]) -> list[str]:
    return [one for one in said(loaded) if ": warning: " not in one]


def test_job_has_one_rank_on_each_host_in_the_group_world_and_asks_for_all(load: Load) -> None:
    entry = load(WITH_JOB).require().jobs["train"]
    assert entry.ranks == (Rank(number=0, host="h0"), Rank(number=1, host="h1"))
    assert entry.groups == {"world": CommunicationGroup(name="world", ranks=(0, 1))}
    assert (entry.command, entry.user, entry.shim) == (("/usr/bin/true",), "lab", "ask")
    assert (entry.plane, entry.plane_arguments) == ("static", {})
    assert (entry.arguments, entry.fallback) == (False, False)
    assert (entry.within_s, entry.arrive_within_s, entry.answer_within_s) == (3600.0, 60.0, 60.0)
    assert entry.ready_within_s == 30.0
    assert str(entry) == "train: 2 ranks of /usr/bin/true as lab, plane static"


def test_all_that_a_job_states_is_in_its_entry(load: Load) -> None:
    stated = "plane: static topology=pairs, shim: go, arguments: true, fallback: true, within_s: 5.0"
    times = "arrive_within_s: 6.0, answer_within_s: 7.0, ready_within_s: 8.0"
    entry = load(job(f"{stated}, {times}".replace(", ", "\n"))).require().jobs["train"]
    assert (entry.plane, entry.plane_arguments, entry.shim) == ("static", {"topology": "pairs"}, "go")
    assert (entry.arguments, entry.fallback) == (True, True)
    assert (entry.within_s, entry.arrive_within_s, entry.answer_within_s) == (5.0, 6.0, 7.0)
    assert entry.ready_within_s == 8.0


def test_ranks_of_one_host_have_a_gpu_each_and_groups_are_those_of_the_file_in_their_order(load: Load) -> None:
    entry = load(job("ranks_per_host: 2")).require().jobs["train"]
    places = [(rank.number, rank.host, rank.gpu) for rank in entry.ranks]
    assert places == [(0, "h0", 0), (1, "h0", 1), (2, "h1", 0), (3, "h1", 1)]
    assert entry.groups["world"].ranks == (0, 1, 2, 3)
    entry = load(job("groups: {dp0: [1, 0], pp: {ranks: [0], dimension: pp}}")).require().jobs["train"]
    assert entry.groups == {
        "dp0": CommunicationGroup(name="dp0", ranks=(1, 0)),
        "pp": CommunicationGroup(name="pp", ranks=(0,), dimension="pp"),
    }


def test_job_of_more_ranks_than_one_may_have_is_a_mistake(load: Load) -> None:
    hosts = ", ".join(f"h{number}" for number in range(5))
    more = "".join(f"  h{number}: {{twin: {{}}, nics: {{eth0: {{module: 100g-lr4}}}}}}\n" for number in range(2, 5))
    text = job(f"hosts: [{hosts}]\nranks_per_host: 52").replace("jobs:", f"{more}jobs:")
    assert mistakes(load(text)) == ["10: jobs.train: 260 ranks, over the 256 that a job may have"]


def test_jobs_are_a_rule_that_a_running_daemon_takes_in(load: Load) -> None:
    before, after = load(OF_TWO_HOSTS).require(), load(WITH_JOB).require()
    (change,) = diff.testbed_diff(before, after)
    assert str(change) == "job train added: 2 ranks of /usr/bin/true as lab, plane static"
    assert (change.ports, change.switches, change.obstacle) == (frozenset(), frozenset(), "")


def of_modules(*modules: str) -> str:
    nics = ", ".join(f"eth{number}: {{module: {module}}}" for number, module in enumerate(modules))
    return f"""testbed: small
switches: {{ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {{timing: ideal}}}}}}
hosts:
  h0: {{twin: {{timing: ideal}}, nics: {{{nics}}}}}
"""


OURS = "{type: ours, lanes: LANES, parallel: true, tx_min_dbm: -3, tx_max_dbm: 3, rx_min_dbm: -9, rx_max_dbm: 3}"
STANDARDS = {
    "100g-lr4": ModuleStandard.SFF_8636,
    "25g-lr": ModuleStandard.SFF_8472,
    "10g-lr": ModuleStandard.SFF_8472,
    "400g-fr4": ModuleStandard.CMIS,
    "800g-dr8": ModuleStandard.CMIS,
    "{type: 100g-fr1, memory: cmis}": ModuleStandard.CMIS,
    "{type: 100g-dr1, memory: sff-8472}": ModuleStandard.SFF_8472,
    OURS.replace("LANES", "4"): ModuleStandard.SFF_8636,
    OURS.replace("LANES", "8"): ModuleStandard.CMIS,
}


def test_memory_is_that_of_the_form_factor_where_nothing_else_is_said(load: Load) -> None:
    found = {module: load(of_modules(module)).require().hosts["h0"].ports[0].module.standard for module in STANDARDS}
    assert found == STANDARDS


def test_agents_are_told_how_late_each_part_is_and_nothing_of_what_is_not_known(load: Load) -> None:
    testbed = load(
        of_modules(
            "{type: 100g-lr4, part: Q1, los_s: 0.1}",
            "{type: 100g-lr4, part: Q1, los_s: 0.1}",
            "{type: 25g-lr, part: S1, los_s: 0.1, monitor_s: 0.05}",
            "{type: 25g-lr, part: S2}",
            "100g-lr4",
        )
    ).require()
    declared = {"Q1": ModuleTiming(los_s=0.1), "S1": ModuleTiming(los_s=0.1, monitor_s=0.05)}
    assert declared_timings(testbed.hosts["h0"]) == declared
    sources = SourcesConfig(twin=TwinConfig(address="mem:h0"))
    prompt = ModuleTiming(los_s=0.0, monitor_s=0.0)
    told = agent_config(testbed, "h0", broker="mqtt://127.0.0.1", sources=sources).modules
    assert told == {**declared, "S2": prompt, "100g-lr4": prompt}
