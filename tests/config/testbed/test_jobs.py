"""The key `jobs` of testbed files: what is filled in, and each finding at its place in the file."""

from collections.abc import Callable

from hwd.config.testbed.testbed import Loaded
from hwd.model import testbed_diff as diff
from hwd.model.plane import CommunicationGroup, Rank

Load = Callable[[str], Loaded]

HEAD = """testbed: small
switches: {ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal}}}
hosts:
  h0: {twin: {}, nics: {eth0: {module: 100g-lr4}}}
  h1: {twin: {}, nics: {eth0: {module: 100g-lr4}}}
"""
JOB = "  train: {command: [/usr/bin/true], user: lab, hosts: [h0, h1], plane: static}\n"
SOUND = f"{HEAD}jobs:\n{JOB}"


def job(keys: str) -> str:
    """A file whose job has these keys too, or instead, each on a line of its own from line 8 on."""
    own = {"command": "[/usr/bin/true]", "user": "lab", "hosts": "[h0, h1]", "plane": "static"}
    stated = "".join(f"    {line}\n" for line in keys.splitlines())
    names = {line.partition(":")[0] for line in keys.splitlines()}
    rest = "".join(f"    {key}: {value}\n" for key, value in own.items() if key not in names)
    return f"{HEAD}jobs:\n  train:\n{stated}{rest}"


def said(loaded: Loaded) -> list[str]:
    found = [str(problem).partition("testbed.yaml:")[2] for problem in loaded.problems]
    return [one for one in found if ": warning: " not in one]


def test_job_has_one_rank_on_each_host_in_the_group_world_and_asks_for_all(load: Load) -> None:
    entry = load(SOUND).require().jobs["train"]
    assert entry.ranks == (Rank(number=0, host="h0"), Rank(number=1, host="h1"))
    assert entry.groups == {"world": CommunicationGroup(name="world", ranks=(0, 1))}
    assert (entry.command, entry.user, entry.shim) == (("/usr/bin/true",), "lab", "ask")
    assert (entry.plane, entry.plane_arguments) == ("static", {})
    assert (entry.arguments, entry.fallback) == (False, False)
    assert (entry.within_s, entry.arrive_within_s, entry.answer_within_s) == (3600.0, 60.0, 60.0)
    assert entry.ready_within_s == 30.0
    assert str(entry) == "train: 2 ranks of /usr/bin/true as lab, plane static"


def test_all_that_a_job_states_is_in_its_entry(load: Load) -> None:
    stated = [
        "plane: static topology=pairs",
        "shim: go",
        "arguments: true",
        "fallback: true",
        "within_s: 5.0",
        "arrive_within_s: 6.0",
        "answer_within_s: 7.0",
        "ready_within_s: 8.0",
    ]
    entry = load(job("\n".join(stated))).require().jobs["train"]
    assert (entry.plane, entry.plane_arguments, entry.shim) == ("static", {"topology": "pairs"}, "go")
    assert (entry.arguments, entry.fallback) == (True, True)
    assert (entry.within_s, entry.arrive_within_s, entry.answer_within_s) == (5.0, 6.0, 7.0)
    assert entry.ready_within_s == 8.0


def test_ranks_of_one_host_have_a_gpu_each(load: Load) -> None:
    entry = load(job("ranks_per_host: 2")).require().jobs["train"]
    places = [(rank.number, rank.host, rank.gpu) for rank in entry.ranks]
    assert places == [(0, "h0", 0), (1, "h0", 1), (2, "h1", 0), (3, "h1", 1)]
    assert entry.groups["world"].ranks == (0, 1, 2, 3)


def test_groups_are_those_of_the_file_in_their_order(load: Load) -> None:
    entry = load(job("groups: {dp0: [1, 0], pp: {ranks: [0], dimension: pp}}")).require().jobs["train"]
    assert entry.groups == {
        "dp0": CommunicationGroup(name="dp0", ranks=(1, 0)),
        "pp": CommunicationGroup(name="pp", ranks=(0,), dimension="pp"),
    }


def test_job_of_more_ranks_than_one_may_have_is_a_mistake(load: Load) -> None:
    hosts = ", ".join(f"h{number}" for number in range(5))
    more = "".join(f"  h{number}: {{twin: {{}}, nics: {{eth0: {{module: 100g-lr4}}}}}}\n" for number in range(2, 5))
    text = job(f"hosts: [{hosts}]\nranks_per_host: 52").replace("jobs:", f"{more}jobs:")
    assert said(load(text)) == ["10: jobs.train: 260 ranks, over the 256 that a job may have"]


def test_jobs_are_a_rule_that_a_running_daemon_takes_in(load: Load) -> None:
    before, after = load(HEAD).require(), load(SOUND).require()
    (change,) = diff.testbed_diff(before, after)
    assert str(change) == "job train added: 2 ranks of /usr/bin/true as lab, plane static"
    assert (change.ports, change.switches, change.obstacle) == (frozenset(), frozenset(), "")
