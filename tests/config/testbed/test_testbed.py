import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwd.config.testbed.secrets import resolve
from hwd.config.testbed.testbed import load_testbed
from hwd.config.yaml.file_problem import Loaded
from hwd.model.rules import RetentionRules
from hwd.model.testbed import SecretRef, Setting, Testbed
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.devices import registry

from ..conftest import said

Load = Callable[[str], Loaded[Testbed]]
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
    assert testbed.switches["ocs1"].address == "10.0.0.5:3082", "the port of its driver"
    assert (testbed.host_actions, testbed.retention) == ((), RetentionRules(documents_days=None, history_days=None))
    more = load(f"{SOUND}host_actions: [mtu, autoneg, mtu]\nretention: {{documents_days: 90}}\n").require()
    assert more.host_actions == (Setting.MTU, Setting.AUTONEG)
    assert more.retention == RetentionRules(documents_days=90, history_days=None)


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
    assert (eth0.interface, eth0.ip, eth0.rdma, eth0.rail) == ("eth0", "10.1.0.1/32", "mlx5_0", 0)
    assert (eth0.numa, eth0.gpus, eth0.rate_mbit_s) == (0, (0,), 40_000)
    assert dict(eth0.match) == {"pci": "0000:41:00.0", "port": 1}
    assert eth0.module.budget_db == pytest.approx(6.6)
    assert h1.twin is not None
    assert (h1.twin.kernel, h1.twin.timing, h1.twin.seed) == (True, "opus-cx6dx", 3)
    assert (h1.twin.clock_offset_s, h1.twin.clock_drift_ppm) == (5.0, 50.0)
    labelled = next(strand for strand in testbed.strands if strand.label)
    assert (str(labelled), labelled.length_m, labelled.loss_db) == ("h0.eth1/2.tx - ocs1.3A", 5.0, 0.4)
    assert [str(end) for end in labelled.via] == ["pp1.17"]
    assert [(note.port, note.state, note.why, note.until) for note in testbed.port_notes] == [
        ("31", "spare", "", None),
        ("32", "maintenance", "dirty", "2027-01-10"),
    ]


def test_every_problem_comes_at_once_in_the_order_of_the_file(load: Load) -> None:
    text = SOUND.replace("polatis-tl1", "polatis").replace("100g-lr4", "100g-lr9", 1) + "  - nowhere\nhostz: {}\n"
    lines = [int(text.partition(":")[0]) for text in said(load(text))]
    assert lines == sorted(lines)
    assert set(lines) == {2, 4, 9, 10}


def test_examples_are_sound_and_have_the_ports_of_their_racks() -> None:
    ports = {"two-hosts": 4, "soft-roce": 4, "mixed-rack": 8, "own-switches": 2, "mfabric-training": 28}
    for path in EXAMPLES:
        loaded = load_testbed(path, registry.installed().specs)
        assert loaded.problems == (), path
        testbed = loaded.require()
        assert len(list(testbed.ports())) == ports.get(path.stem, 16), path
        assert all(port.ip for port in testbed.ports()), path
        far = [strand.other(strand.ends[0]).owner for strand in testbed.strands if strand.ends[0].owner.startswith("h")]
        if path.stem == "mfabric-testbed":
            assert (far.count("ocs1"), far.count("eps1")) == (12, 4)
        if path.stem == "opus-testbed":
            assert far.count("ocs1") == len(testbed.strands) / 2 == 16
            assert [port.rail for port in testbed.hosts["h0"].ports] == [0, 0, 1, 1]


LINES = EXAMPLES[0].with_name("opus-testbed.yaml").read_text().splitlines()
MARKS = ["{", "}", "[", ": ", "- ", "&a ", "*a", "!!python/object:os.system ", "\t", "'", "|", "? ", "<<: ", "---\n"]
SCRAPS = st.sampled_from([*MARKS, "0x", "null", "9" * 400, "ocs1.1A", " -> ", "ÿ", "\x00"])


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
    assert loaded.value is not None or loaded.problems
    assert all(problem.line >= 1 for problem in loaded.problems)


def test_lanes_of_parallel_modules_are_joined_one_by_one_and_one_without_a_strand_is_told(load: Load) -> None:
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
    text = SOUND.replace("module: 100g-lr4", "module: 100g-psm4", 1).replace("h0.eth0 <->", "h0.eth0/1 <->")
    assert said(load(text)) == [
        "4: hosts.h0.nics.eth0: no fibre at h0.eth0/2.tx, h0.eth0/3.tx, h0.eth0/4.tx, h0.eth0/2.rx, h0.eth0/3.rx, "
        "h0.eth0/4.rx, while the other lanes of h0.eth0 have one"
    ]


def test_twins_are_told_what_their_driver_lets_them_be_told_or_are_virtual_machines(load: Load) -> None:
    told = "timing: polatis-opus, options: {in_use: deny, user: admin, password: root}"
    switch = f"switches: {{ocs1: {{driver: polatis-tl1, model: polatis-6000, twin: {{{told}}}}}}}"
    text = SOUND.replace(SWITCH, switch).replace("h0: {nics", "h0: {twin: {machine: 10.0.2.2}, nics")
    testbed = load(text).require()
    twin, host = testbed.switches["ocs1"].twin, testbed.hosts["h0"].twin
    assert twin is not None
    assert twin.options == {"in_use": "deny", "user": "admin", "password": "root"}, "a twin's password is no secret"
    assert host is not None
    assert (host.machine, host.kernel) == ("10.0.2.2", False)


ADDRESSES = """\
/dev/ttyUSB0 /dev/serial/by-id/usb-Thorlabs_OSW22-if00 serial:/dev/ttyUSB0
serial:/dev/ttyUSB0?baud=57600&parity=E&rtscts=1 10.0.0.7:4001 unix:/run/sw1 ocs1.lab.example:3082 [fe80::1]:3082
"""


def test_an_address_that_says_all_stays_as_it_is(load: Load) -> None:
    for address in ADDRESSES.split():
        text = f'testbed: t\nswitches: {{sw1: {{driver: osw, model: 1x4, address: "{address}"}}}}\n'
        assert load(text).require().switches["sw1"].address == address


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


# ---


def test_secret_comes_from_the_environment_or_from_a_file_without_its_last_newline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert resolve(SecretRef(kind="env", name="PW"), environment={"PW": "hunter2"}) == "hunter2"
    path = tmp_path / "pw"
    path.touch(mode=0o600)
    path.write_text("hunter2\n")
    assert resolve(SecretRef(kind="file", name=str(path)), environment={}) == "hunter2"
    assert caplog.records == []


def test_file_that_others_may_read_is_warned_of_without_the_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "pw"
    path.write_text("hunter2")
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        assert resolve(SecretRef(kind="file", name=str(path)), environment={}) == "hunter2"
    assert caplog.messages == [f"secret file:{path} may be read by others (mode 644); chmod 600 it"]


def test_missing_secret_and_one_that_is_no_text_are_told_by_their_place(tmp_path: Path) -> None:
    path = tmp_path / "pw"
    path.write_bytes(b"\xffhunter2")
    refused = {
        SecretRef(kind="env", name="PW"): "env:PW: the environment variable is not set",
        SecretRef(kind="file", name="/none/pw"): "file:/none/pw: cannot be read: No such file or directory",
        SecretRef(kind="file", name=str(path)): f"file:{path}: not UTF-8: byte 0: invalid start byte. Save it as UTF-8",
    }
    for reference, why in refused.items():
        with pytest.raises(ConfigError) as caught:
            resolve(reference, environment={})
        assert str(caught.value).startswith(f"secret {why}")
        assert "hunter2" not in str(caught.value)
        assert reference.name != str(path) or caught.value.__cause__ is None
