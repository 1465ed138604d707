from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwd.config.testbed.equipment import DriverSpecLike
from hwd.config.testbed.testbed import Loaded, load_testbed
from hwd.model.testbed import RetentionRules, SecretRef, Setting
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.devices import registry

Load = Callable[[str], Loaded]
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))

SWITCH = "switches: {ocs1: {driver: polatis-tl1, model: polatis-6000, address: 10.0.0.5}}"
SOUND = f"""testbed: small
{SWITCH}
hosts:
  h0: {{nics: {{eth0: {{module: 100g-lr4}}}}}}
  h1: {{nics: {{eth0: {{module: 100g-lr4}}}}}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h1.eth0 <-> ocs1.2
"""


def said(loaded: Loaded) -> list[str]:
    """Problems without the name of the file."""
    return [str(problem).partition("testbed.yaml:")[2] for problem in loaded.problems]


def test_sound_file_has_no_problem(load: Load) -> None:
    loaded = load(SOUND)
    assert said(loaded) == []
    testbed = loaded.require()
    assert [str(strand) for strand in testbed.strands] == [
        "h0.eth0.tx - ocs1.1A",
        "ocs1.1B - h0.eth0.rx",
        "h1.eth0.tx - ocs1.2A",
        "ocs1.2B - h1.eth0.rx",
    ]
    assert testbed.strands[2].source.endswith("testbed.yaml:8")
    assert testbed.switches["ocs1"].address == "10.0.0.5:3082"


def test_all_keys_of_a_testbed_file_are_read(load: Load) -> None:
    testbed = load(
        """
testbed: two-rails
switches:
  ocs1:
    driver: polatis-tl1
    model: polatis-6000
    address: 10.0.0.5:3083
    size: 32x32
    login: {user: admin, password: {env: OCS1_PASSWORD}}
    options: {poll_s: 0.5}
  sel0: {driver: osw, model: 1x4, address: /dev/ttyUSB0, owner: h0}
packet_switches: {sn3700: {ports: 32}}
passives: {pp1: {kind: panel, ports: 96, loss_db: 0.3}}
hosts:
  h0:
    ssh: root@10.0.0.10
    region: r0
    groups: [dp0, pp0]
    gpus: {0: {numa: 0}, 1: {numa: 1}}
    nics:
      eth0: {match: {pci: "0000:41:00.0", port: 1}, rdma: mlx5_0, rail: 0, numa: 0, gpus: [0], ip: 10.1.0.1/32,
             rate_mbit_s: 40000,
             module: {type: 100g-lr4, tx_min_dbm: -4.0, tx_max_dbm: 4.5, rx_min_dbm: -10.6, rx_max_dbm: 4.5}}
      eth1: {module: 100g-psm4}
      eth3: {module: 100g-dr1}
  h1:
    twin: {kernel: true, timing: opus-cx6dx, seed: 3, clock: {offset_s: 5, drift_ppm: 50}}
fibres:
  - h0.eth0 <-> ocs1.1
  - ocs1.9B -> sel0.in
  - {from: h0.eth1/2.tx, to: ocs1.3A, via: [pp1.17], length_m: 5, loss_db: 0.4, label: C0117}
  - {from: ocs1.3B, to: h0.eth1/2.rx}
  - h0.eth1/1 <-> ocs1.4
  - h0.eth1/3 <-> ocs1.5
  - h0.eth1/4 <-> ocs1.6
  - h0.eth3 <-> sn3700.1
ports: {ocs1.31: {state: spare}, ocs1.32: {state: maintenance, why: dirty, until: 2027-01-10}}
"""
    ).require()
    ocs1, sel0 = testbed.switches.values()
    assert (ocs1.address, ocs1.login_user, ocs1.login_password) == (
        "10.0.0.5:3083",
        "admin",
        SecretRef(kind="env", name="OCS1_PASSWORD"),
    )
    assert dict(ocs1.options) == {"poll_s": 0.5, "tid": ""}
    assert (sel0.address, sel0.owner) == ("/dev/ttyUSB0", "h0")
    h0, h1 = testbed.hosts.values()
    assert (str(h0.ssh), h0.region, h0.groups) == ("root@10.0.0.10", "r0", ("dp0", "pp0"))
    eth0 = h0.ports[0]
    assert (eth0.interface, eth0.ip, eth0.rdma, eth0.rail, eth0.numa, eth0.gpus, eth0.rate_mbit_s) == (
        "eth0",
        "10.1.0.1/32",
        "mlx5_0",
        0,
        0,
        (0,),
        40_000,
    )
    assert dict(eth0.match) == {"pci": "0000:41:00.0", "port": 1}
    assert eth0.module.budget_db == pytest.approx(6.6)
    assert h1.twin is not None
    assert (h1.twin.kernel, h1.twin.timing, h1.twin.seed, h1.twin.clock_offset_s, h1.twin.clock_drift_ppm) == (
        True,
        "opus-cx6dx",
        3,
        5.0,
        50.0,
    )
    labelled = next(strand for strand in testbed.strands if strand.label)
    assert (str(labelled), labelled.length_m, labelled.loss_db, [str(end) for end in labelled.via]) == (
        "h0.eth1/2.tx - ocs1.3A",
        5.0,
        0.4,
        ["pp1.17"],
    )
    assert [(note.port, note.state, note.why, note.until) for note in testbed.port_notes] == [
        ("31", "spare", "", None),
        ("32", "maintenance", "dirty", "2027-01-10"),
    ]


@pytest.mark.parametrize(
    ("added", "problem"),
    [
        ("hostz: {}", "9: hostz: unknown key; did you mean hosts?"),
        ("ports: {ocs1.1: {state: spare, wy: x}}", "9: ports.ocs1.1.wy: unknown key; did you mean why?"),
        (
            "ports: {ocs1.99: {state: spare}}",
            "9: ports.ocs1.99: switch ocs1 (polatis-6000) has no port '99'; name both sides at once, such as ocs1.31",
        ),
        ("ports: {ocs.1: {state: spare}}", "9: ports.ocs.1: ocs is no switch (write ocs1.31); did you mean ocs1?"),
        ("  - ocs1.1A <-> ocs1.3B", "9: fibres[2]: ocs1.1A has a fibre already, of line 7; a fibre end takes one"),
        ("  - ocs2.1 <-> ocs1.3", "9: fibres[2]: ocs2.1: nothing is named ocs2; did you mean ocs1?"),
        (
            "  - ocs1.99 <-> ocs1.3",
            "9: fibres[2]: ocs1.99: switch ocs1 (polatis-6000) has no port 99; it has 64 ends from 1A to 32B",
        ),
        ("  - h0.eth7 <-> ocs1.3", "9: fibres[2]: h0.eth7: host h0 has no NIC port eth7; did you mean eth0?"),
        (
            "  - h0.eth0/2 <-> ocs1.3",
            "9: fibres[2]: h0.eth0/2: module 100g-lr4 has all lanes on one fibre: omit the lane",
        ),
        (
            "  - h0.eth0.tx <-> h1.eth0.tx",
            "9: fibres[2]: h0.eth0.tx and h1.eth0.tx are both transmitters: no light can pass from one to the other",
        ),
        (
            "  - h0.eth0.rx -> ocs1.3A",
            "9: fibres[2]: h0.eth0.rx -> ocs1.3A: light goes from a tx to an rx; swap the two",
        ),
        (
            "  - h0.eth0 -> ocs1.3",
            "9: fibres[2]: h0.eth0 -> ocs1.3: -> is one fibre; name the ends (h0.eth0.tx -> ocs1.3A), or write <->",
        ),
        (
            "  - h0.eth0.tx <-> ocs1.3",
            "9: fibres[2]: h0.eth0.tx is one fibre and ocs1.3 is 2: name the end, such as ocs1.3B or ocs1.3A",
        ),
        (
            "  - {from: ocs1.3B, to: ocs1.3A, via: [pp1.1]}",
            "9: fibres[2]: via pp1.1: pp1 is no patch panel; there is none",
        ),
        ("  - {from: ocs1.3B, too: ocs1.3A}", "9: fibres[2].to: is missing"),
        (
            "  - {from: ocs1.3B, to: ocs1.3A, loss_db: -1}",
            "9: fibres[2].loss_db: must be greater than or equal to 0, not -1",
        ),
        ("  - what", "9: fibres[2]: 'what' is no fibre; write h0.eth0 <-> ocs1.1, or ocs1.9B -> sel0.in"),
        (
            "packet_switches: {h0: {ports: 2}}",
            "9: packet_switches.h0: name h0 is used by hosts.h0; each part needs its own",
        ),
        (
            "passives: {p p: {kind: tap, loss_db: 0.5}}",
            "9: passives.p p: name 'p p' must begin with a letter and go on with letters, digits, - and _",
        ),
        (
            "passives: {sp: {kind: splitter, loss_db: 3.5}}",
            "9: passives.sp.ports: is missing: a splitter has as many as it says",
        ),
        (
            "host_actions: [mtu, speed]",
            "9: host_actions[1]: must be 'mtu', 'autoneg', 'fec', 'address', 'neighbour' or 'route', not 'speed'",
        ),
        ("host_actions: mtu", "9: host_actions: must be a list, not 'mtu'"),
        ("retention: {history_days: 0}", "9: retention.history_days: must be greater than or equal to 1, not 0"),
        (
            "drift: restore\nleases: {required: true}",
            "9: drift: restore acts under no lease, and `leases: {required: true}` refuses that. "
            "Use `report` and `hwd restore`, or leave out `required`: others' leases refuse all the same",
        ),
        (
            "passives: {sp: {kind: spliter, ports: 2, loss_db: 3.5}}",
            "9: passives.sp.kind: must be 'panel', 'splitter', 'tap', 'circulator' or 'attenuator', not 'spliter'",
        ),
    ],
)
def test_problem_is_told_with_its_place(load: Load, added: str, problem: str) -> None:
    loaded = load(SOUND + added + "\n")
    assert problem in said(loaded)
    assert loaded.testbed is None
    with pytest.raises(ConfigError, match=r"testbed\.yaml:\d"):
        loaded.require()


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (
            "driver: polatis, model: polatis-6000, address: a",
            ".driver: driver 'polatis' is not installed; did you mean polatis-tl1?",
        ),
        (
            "driver: polatis-tl1, model: polatis-600, address: a",
            ".model: driver polatis-tl1 has no model 'polatis-600'; did you mean polatis-6000?",
        ),
        (
            "driver: polatis-tl1, model: polatis-6000, address: a, size: 400x400",
            ".size: 400 is over the 64 ports a side of this model",
        ),
        (
            "driver: polatis-tl1, model: polatis-6000, address: a, options: {pol_s: 1}",
            ".options.pol_s: driver polatis-tl1 has no such option; did you mean poll_s?",
        ),
        (
            "driver: polatis-tl1, model: polatis-6000, address: a, options: {poll_s: often}",
            ".options.poll_s: must be a number, not 'often'",
        ),
        ("driver: polatis-tl1, model: polatis-6000, address: a, owner: h7", ".owner: h7 is no host; known: h0, h1"),
        ("driver: polatis-tl1, model: polatis-6000", ": a switch needs exactly one of address and twin"),
        (
            "driver: polatis-tl1, model: polatis-6000, twin: {timing: polatis-opsu}",
            ".twin.timing: timing 'polatis-opsu' is not known; did you mean polatis-opus?",
        ),
        (
            "driver: polatis-tl1, model: polatis-6000, twin: {options: {in_sue: deny}}",
            ".twin.options.in_sue: unknown key; did you mean in_use?",
        ),
        (
            "driver: polatis-tl1, model: polatis-6000, twin: {options: {in_use: drop}}",
            ".twin.options.in_use: must be 'move' or 'deny', not 'drop'",
        ),
        (
            "driver: osw, model: 1x4, twin: {options: {pol_s: 1}}",
            ".twin.options.pol_s: a twin of driver osw has no such option; did you mean poll_s?",
        ),
        (
            "driver: polatis-tl1, model: polatis-6000, address: a, login: {user: u, password: {env: A, file: b}}",
            ".login.password: name one place of the secret: {env: NAME} or {file: PATH}",
        ),
        ("driver: polatis-tl1, model: polatis-6000, adress: a", ".adress: unknown key; did you mean address?"),
    ],
)
def test_problem_of_a_switch_is_told(load: Load, entry: str, problem: str) -> None:
    told = said(load(SOUND.replace(SWITCH, f"switches: {{ocs1: {{{entry}}}}}")))
    assert f"2: switches.ocs1{problem}" in told


@pytest.mark.parametrize(
    ("nic", "problem"),
    [
        (
            "{module: 100g-lr5}",
            ".module.type: module type '100g-lr5' is not known, and some of its values (lanes, parallel, tx_min_dbm, "
            "tx_max_dbm, rx_min_dbm, rx_max_dbm) are missing; did you mean 100g-lr4?",
        ),
        ("{module: {type: 100g-lr4, tx_min_dbm: 9.0}}", ".module: tx_min_dbm is over tx_max_dbm (9.00 over 4.50 dBm)"),
        ("{module: 100g-lr4, ip: 10.0.0}", ".ip: '10.0.0' is no IP address; write 10.1.0.1/32"),
        ("{module: 100g-lr4, gpus: [3]}", ".gpus: host h0 has no GPU 3; there is none"),
        ("{module: 100g-lr4, rail: first}", ".rail: must be a whole number, not 'first'"),
        ("{rail: 0}", ".module: is missing"),
        ("{module: 100g-lr4, rate_mbit_s: 0}", ".rate_mbit_s: must be greater than or equal to 1, not 0"),
    ],
)
def test_problem_of_a_nic_port_is_told(load: Load, nic: str, problem: str) -> None:
    told = said(load(SOUND.replace("{module: 100g-lr4}", nic, 1)))
    assert f"4: hosts.h0.nics.eth0{problem}" in told


def test_address_used_twice_is_told_with_its_first_owner(load: Load) -> None:
    told = said(load(SOUND.replace("{module: 100g-lr4}", "{module: 100g-lr4, ip: 10.1.0.1/32}")))
    assert told == ["5: hosts.h1.nics.eth0.ip: 10.1.0.1 is the address of h0.eth0 already"]


def test_lane_without_strand_is_told(load: Load) -> None:
    text = SOUND.replace("module: 100g-lr4", "module: 100g-psm4", 1).replace(
        "h0.eth0 <-> ocs1.1", "h0.eth0/1 <-> ocs1.1"
    )
    told = said(load(text))
    assert told == [
        "4: hosts.h0.nics.eth0: no fibre at h0.eth0/2.tx, h0.eth0/3.tx, h0.eth0/4.tx, h0.eth0/2.rx, h0.eth0/3.rx, "
        "h0.eth0/4.rx, "
        "while the other lanes of h0.eth0 have one"
    ]


def test_parallel_module_cannot_be_patched_as_one_fibre(load: Load) -> None:
    told = said(load(SOUND.replace("module: 100g-lr4", "module: 100g-psm4", 1)))
    assert told == ["7: fibres[0]: h0.eth0 has 4 fibres each way: write one entry a lane, such as h0.eth0/1 <-> ..."]


def test_parallel_modules_are_joined_lane_by_lane(load: Load) -> None:
    testbed = load(
        """testbed: t
packet_switches: {eps1: {ports: 4}}
hosts:
  h0: {nics: {eth0: {module: 100g-psm4}, eth1: {module: 100g-psm4}}}
  h1: {nics: {eth0: {module: 100g-psm4}}}
fibres: [h0.eth0 <-> h1.eth0, h0.eth1 <-> eps1.2]
"""
    ).require()
    assert [str(strand) for strand in testbed.strands][::4] == [
        "h0.eth0/1.tx - h1.eth0/1.rx",
        "h1.eth0/1.tx - h0.eth0/1.rx",
        "h0.eth1/1.tx - eps1.2/1.rx",
        "eps1.2/1.tx - h0.eth1/1.rx",
    ]


def test_port_without_fibre_is_a_warning(load: Load) -> None:
    loaded = load(SOUND.replace("  - h1.eth0 <-> ocs1.2\n", ""))
    assert said(loaded) == ["5: hosts.h1.nics.eth0: warning: h1.eth0 has no fibre; no link can use it"]
    assert loaded.testbed is not None


def test_pair_that_can_never_meet_its_budget_is_a_warning(load: Load) -> None:
    loaded = load(SOUND.replace("- h1.eth0 <-> ocs1.2", "- {from: h1.eth0, to: ocs1.2, loss_db: 4.0}"))
    assert loaded.testbed is not None
    assert said(loaded) == [
        f"{line}: hosts.{one}.nics.eth0: warning: {one}.eth0 can never meet its loss budget with {other}.eth0: the way "
        f"to "
        f"{other}.eth0 loses up to 6.7 dB, the budget is 6.3 dB; such links will be refused"
        for line, one, other in ((4, "h0", "h1"), (5, "h1", "h0"))
    ]


def test_secret_in_clear_is_told_and_never_printed(load: Load) -> None:
    loaded = load(
        SOUND.replace(
            "address: 10.0.0.5", "address: 10.0.0.5, login: {user: admin, password: hunter2}, options: {token: hunter2}"
        )
    )
    assert "2: switches.ocs1.login.password: a secret in clear; write {env: NAME} or {file: PATH}" in said(loaded)
    assert "hunter2" not in "\n".join(said(loaded))


def test_panel_port_passed_twice_is_told(load: Load) -> None:
    text = SOUND + (
        "  - {from: ocs1.3B, to: ocs1.4A, via: [pp1.1]}\n  - {from: ocs1.4B, to: ocs1.3A, via: "
        "[pp1.1]}\npassives: {pp1: {kind: panel, ports: 2, loss_db: 0.3}}\n"
    )
    assert "10: fibres[3]: pp1.1A has a fibre already, of line 9; a fibre end takes one" in said(load(text))


def test_every_problem_comes_at_once_in_the_order_of_the_file(load: Load) -> None:
    text = SOUND.replace("polatis-tl1", "polatis").replace("100g-lr4", "100g-lr9", 1) + "  - nowhere\nhostz: {}\n"
    lines = [int(text.partition(":")[0]) for text in said(load(text))]
    assert lines == sorted(lines)
    assert set(lines) == {2, 4, 9, 10}


def test_part_with_problems_brings_no_further_ones_for_what_hangs_on_it(load: Load) -> None:
    told = said(load(SOUND.replace("polatis-tl1", "polatis")))
    assert told == ["2: switches.ocs1.driver: driver 'polatis' is not installed; did you mean polatis-tl1?"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_sound(path: Path) -> None:
    loaded = load_testbed(path, registry.installed().specs)
    assert loaded.problems == ()
    testbed = loaded.require()
    ports = {"two-hosts": 4, "soft-roce": 4, "mixed-rack": 8, "own-switches": 2, "mfabric-training": 28}
    assert len(list(testbed.ports())) == ports.get(path.stem, 16)
    assert all(port.ip for port in testbed.ports())


def test_opus_testbed_has_16_transceivers_and_32_fibres_on_two_rails(specs: dict[str, DriverSpecLike]) -> None:
    testbed = load_testbed(EXAMPLES[0].with_name("opus-testbed.yaml"), specs).require()
    assert len(testbed.strands) == 32
    assert [port.rail for port in testbed.hosts["h0"].ports] == [0, 0, 1, 1]
    assert len(testbed.switches["ocs1"].capabilities.ends) == 64


def test_mfabric_testbed_has_12_optical_and_4_electrical_ports(specs: dict[str, DriverSpecLike]) -> None:
    testbed = load_testbed(EXAMPLES[0].with_name("mfabric-testbed.yaml"), specs).require()
    far = [strand.other(strand.ends[0]).owner for strand in testbed.strands if strand.ends[0].owner.startswith("h")]
    assert (far.count("ocs1"), far.count("eps1")) == (12, 4)


LINES = EXAMPLES[0].with_name("opus-testbed.yaml").read_text().splitlines()
SCRAPS = st.sampled_from(
    [
        "{",
        "}",
        "[",
        ": ",
        "- ",
        "&a ",
        "*a",
        "!!python/object:os.system ",
        "\t",
        "'",
        "|",
        "? ",
        "<<: ",
        "0x",
        "null",
        "---\n",
        "9" * 400,
        "ocs1.1A",
        " -> ",
        "ÿ",
        "\x00",
    ]
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_testbed_file_gives_problems_and_no_traceback(load: Load, data: st.DataObject) -> None:
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        column = data.draw(st.integers(0, len(lines[at])))
        scrap = data.draw(SCRAPS)
        kept = data.draw(st.integers(0, 6))
        lines[at] = lines[at][:column] + scrap + lines[at][column + kept :]
    loaded = load("\n".join(lines))
    assert loaded.testbed is not None or loaded.problems
    assert all(problem.line >= 1 for problem in loaded.problems)


KEYS = st.sampled_from(
    [
        "testbed",
        "switches",
        "hosts",
        "fibres",
        "ports",
        "passives",
        "packet_switches",
        "h0",
        "ocs1",
        "nics",
        "eth0",
        "module",
        "type",
        "twin",
        "clock",
        "driver",
        "model",
        "kind",
        "login",
        "password",
        "gpus",
        "from",
        "to",
        "via",
        "options",
        "x",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["polatis-tl1", "polatis-6000", "100g-lr4", "h0.eth0 <-> ocs1.1", "panel", "10.0.0.1"])
    | st.text()
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=30
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=st.dictionaries(KEYS, TREES, max_size=6))
def test_any_tree_of_our_keys_gives_problems_and_no_traceback(load: Load, tree: dict[str, object]) -> None:
    load(yaml.safe_dump(tree))


def test_host_cannot_have_the_name_of_the_topic_of_runs(load: Load) -> None:
    loaded = load("testbed: t\nhosts:\n  runs: {nics: {}}\n")
    assert "3: hosts.runs: no host can be named runs: run states have that MQTT topic" in said(loaded)


def test_host_actions_are_allowed_once_each_and_none_by_default(load: Load) -> None:
    assert load(SOUND).require().host_actions == ()
    allowed = load(SOUND + "host_actions: [mtu, autoneg, mtu]\n").require().host_actions
    assert allowed == (Setting.MTU, Setting.AUTONEG)


def test_retention_is_for_ever_but_for_what_is_stated(load: Load) -> None:
    assert load(SOUND).require().retention == RetentionRules(documents_days=None, history_days=None)
    added = f"{SOUND}retention: {{documents_days: 90}}\n"
    assert load(added).require().retention == RetentionRules(documents_days=90, history_days=None)


def test_twin_is_told_what_its_driver_lets_it_be_told(load: Load) -> None:
    told = "timing: polatis-opus, options: {in_use: deny, user: admin, password: root}"
    testbed = load(
        SOUND.replace(SWITCH, f"switches: {{ocs1: {{driver: polatis-tl1, model: polatis-6000, twin: {{{told}}}}}}}")
    ).require()
    twin = testbed.switches["ocs1"].twin
    assert twin is not None
    assert twin.options == {"in_use": "deny", "user": "admin", "password": "root"}, "a twin's password is no secret"


def test_a_host_is_reached_through_another_with_a_key_of_its_own(load: Load) -> None:
    way = "{address: root@10.0.0.10, key: ~/lab, known_hosts: hosts, jump: me@gate:2222}"
    place = load(SOUND.replace("h0: {nics", f"h0: {{ssh: {way}, nics")).require().hosts["h0"].ssh
    assert place is not None
    assert place.jump is not None
    assert (str(place), place.key) == ("root@10.0.0.10", "~/lab")
    assert place.known_hosts is not None
    assert Path(place.known_hosts).is_absolute(), "it goes from the folder of the testbed file"
    assert Path(place.known_hosts).name == "hosts"
    assert (str(place.jump), place.jump.key) == ("me@gate:2222", "~/lab")


def test_what_is_no_ssh_place_is_refused_with_its_line(load: Load) -> None:
    assert said(load(SOUND.replace("h0: {nics", "h0: {ssh: root@, nics"))) == [
        "4: hosts.h0.ssh: 'root@' is no SSH place: write user@host or user@host:port, such as root@10.0.0.10"
    ]
