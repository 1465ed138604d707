"""What runs change of ports, kept on a disk, and put back by this life of the agent or the next."""

import asyncio
from pathlib import Path

import pytest

from hwd_agents.process.config import AgentConfig, PortConfig
from hwd_agents.settings.port_settings import Settings
from hwd_agents.settings.put_back import put_back_all
from hwd_agents.settings.setting_journal import JournalSetting, SettingJournal
from hwd_agents.settings.setting_limits import AGAIN_S, LOOK_S, SettingLimits
from hwd_agents.sources.setting_source import Setting, holds, parse_setting, restored, subject
from hwd_drivers.core.disk import FileDisk, MemoryDisk
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import FailedError, LinkError, RefusedError
from hwd_drivers.core.frames import decode_frames, encode_frame

from ..conftest import Ear, Stage

AUTONEG = {"autoneg": True, "speed": None, "duplex": None, "ours": "0", "bits": 0}
PORTS = {f"eth{number}": PortConfig(interface=f"eth{number}") for number in range(2)}


class Kept:
    """The settings of h0, a disk that outlives them, and how often they told of a change."""

    def __init__(self, one: Stage, disk: MemoryDisk) -> None:
        self.stage = one
        self.disk = disk
        self.host = one.hosts["h0"]
        self.changes = 0
        self.changed = asyncio.Event()
        self.life = "boot 1"
        self.settings = self.live()

    def live(self) -> Settings:
        """Another life of the agent."""
        self.settings = Settings(
            PORTS,
            self.stage.sources["h0"].settings,
            self.disk,
            clock=self.stage.clock,
            life=lambda: self.life,
            on_change=self._changed,
        )
        return self.settings

    def states(self) -> dict[tuple[str, str], Json]:
        return {(interface, setting): state for (interface, setting, _), state in self.host.states.items()}

    def _changed(self) -> None:
        self.changes += 1
        self.changed.set()


@pytest.fixture
def kept(one: Stage) -> Kept:
    one.hosts["h0"].plug("eth1")
    for interface in PORTS:
        one.hosts["h0"].states |= {(interface, "mtu", ""): 1500, (interface, "autoneg", ""): AUTONEG}
    return Kept(one, MemoryDisk())


async def test_setting_tells_both_states_and_is_put_back(kept: Kept) -> None:
    before = kept.states()
    assert await kept.settings.set("r1", "eth0", "mtu", 4200) == {"before": 1500, "after": 4200}
    await kept.settings.set("r1", "eth0", "mtu", 9000)
    told = await kept.settings.set("r1", "eth1", "autoneg", False)
    assert told == {"before": AUTONEG, "after": {**AUTONEG, "autoneg": False}}
    assert kept.states()["eth0", "mtu"] == 9000
    assert [(held.run, held.port, held.setting, held.before) for held in kept.settings.held] == [
        ("r1", "eth0", "mtu", 1500),
        ("r1", "eth1", "autoneg", AUTONEG),
    ]
    assert await kept.settings.put_back("r1") == {
        "back": [
            {"port": "eth1", "setting": "autoneg", "state": AUTONEG},
            {"port": "eth0", "setting": "mtu", "state": 1500},
        ],
        "left": [],
    }
    assert (kept.states(), kept.settings.held, kept.disk.size()) == (before, (), 0)
    assert await kept.settings.put_back("r1") == {"back": [], "left": []}
    assert kept.changes == 6  # each that was set: kept, then done; put back together


async def test_agent_that_is_killed_between_journal_and_change_does_no_harm(kept: Kept) -> None:
    setting = asyncio.ensure_future(kept.settings.set("r1", "eth0", "mtu", 4200))
    await kept.changed.wait()
    assert kept.states()["eth0", "mtu"] == 1500, "what was before is on the disk before anything is changed"
    setting.cancel()
    await asyncio.gather(setting, return_exceptions=True)
    kept.disk.crash()
    kept.live()
    assert (await kept.settings.put_back("r1"))["left"] == []
    assert kept.states()["eth0", "mtu"] == 1500


async def test_another_run_cannot_set_what_one_has_set(kept: Kept) -> None:
    await kept.settings.set("r1", "eth0", "mtu", 4200)
    with pytest.raises(RefusedError, match=r"eth0: mtu is set for run r1\. Put that back first"):
        await kept.settings.set("r2", "eth0", "mtu", 9000)
    await kept.settings.set("r2", "eth0", "autoneg", False)
    await kept.settings.put_back("r1")
    assert (await kept.settings.set("r2", "eth0", "mtu", 9000))["before"] == 1500


async def test_change_that_is_refused_or_without_effect_leaves_nothing_held(kept: Kept) -> None:
    with pytest.raises(RefusedError, match="fec: not supported"):
        await kept.settings.set("r1", "eth0", "fec", "rs")
    with pytest.raises(RefusedError, match="'speed' is not a setting that this agent knows"):
        await kept.settings.set("r1", "eth0", "speed", 100)
    kept.host.states = _Deaf(kept.host.states)
    with pytest.raises(FailedError, match="eth0: mtu was set to 4200, and is read back as 1500"):
        await kept.settings.set("r1", "eth0", "mtu", 4200)
    assert (kept.settings.held, kept.disk.size()) == ((), 0)


class _Deaf(dict[tuple[str, str, str], Json]):
    """A NIC that says yes and does nothing."""

    def __setitem__(self, key: tuple[str, str, str], value: Json) -> None:
        pass


async def test_full_disk_refuses_the_change_and_says_that_nothing_is_held_for_longer(kept: Kept) -> None:
    kept.disk.capacity_bytes = 20
    with pytest.raises(FailedError, match="its earlier state cannot be written: No space left"):
        await kept.settings.set("r1", "eth0", "mtu", 4200)
    assert (kept.states()["eth0", "mtu"], kept.settings.held) == (1500, ())
    kept.disk.capacity_bytes = None
    await kept.settings.set("r1", "eth0", "mtu", 4200)
    kept.disk.capacity_bytes = kept.disk.size()  # a frame without a limit is shorter than one with it
    with pytest.raises(FailedError, match="run r1: cannot hold what it set: the disk: No space left"):
        await kept.settings.hold("r1", 60)
    assert [held.run for held in kept.settings.held] == ["r1"]


async def test_port_that_is_gone_stays_held_until_it_is_back(kept: Kept) -> None:
    await kept.settings.set("r1", "eth0", "mtu", 4200)
    await kept.settings.set("r1", "eth1", "mtu", 4200)
    kept.host.unplug("eth0")
    told = await kept.settings.put_back("r1")
    assert [one["port"] for one in told["back"]] == ["eth1"]
    assert [(one["port"], one["why"]) for one in told["left"]] == [("eth0", "h0: there is no interface eth0")]
    kept.host.plug("eth0", ifindex=200)
    kept.host.states["eth0", "mtu", ""] = 9000
    assert (await kept.settings.put_back("r1"))["left"] == []
    assert kept.states()["eth0", "mtu"] == 1500


async def test_rack_that_is_away_and_host_without_a_way_to_set_anything_are_said(kept: Kept) -> None:
    await kept.stage.rack_down("h0")
    await asyncio.sleep(0.1)
    with pytest.raises(LinkError, match="its twin at mem:h0 is away"):
        await kept.settings.set("r1", "eth0", "mtu", 4200)
    assert kept.settings.held == ()
    settings = Settings(PORTS, None, MemoryDisk(), clock=kept.stage.clock, life=str, on_change=lambda: None)
    with pytest.raises(RefusedError, match="mtu: this host has no way to set it"):
        await settings.set("r1", "eth0", "mtu", 4200)


def test_torn_end_of_the_journal_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "settings"
    journal = SettingJournal(FileDisk(path))
    journal.add(JournalSetting(run="r1", port="eth0", setting="mtu", value=4200, before=1500))
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-3])
    journal = SettingJournal(FileDisk(path))
    assert [held.run for held in journal.held] == ["r1"]
    assert journal.damaged_bytes == len(whole) - 3
    journal.close()
    assert path.read_bytes() == whole


def test_frame_that_makes_no_sense_to_this_agent_stays_and_one_without_a_limit_is_never_due() -> None:
    disk = MemoryDisk()
    strange = [b'{"run":"r0","port":7}', b"\xff"]
    unlimited = b'{"run":"r0","port":"eth0","setting":"mtu","value":4200,"before":1500}'
    disk.append(b"".join(map(encode_frame, [*strange, unlimited])))
    journal = SettingJournal(disk)
    (held,) = journal.held
    assert (held.run, held.before, held.until_ns, held.life) == ("r0", 1500, None, "")
    assert journal.damaged_bytes == sum(map(len, strange))
    more = JournalSetting(run="r1", port="eth0", setting="mtu", value=4200, before=1500)
    journal.add(more)
    assert SettingJournal(disk).held == (held, more)
    journal.remove([held, more])
    assert decode_frames(disk.read()).payloads == tuple(strange)


async def test_what_nobody_holds_any_more_is_due_and_what_is_held_again_is_not(kept: Kept) -> None:
    await kept.settings.set("r1", "eth0", "mtu", 4200, for_s=60)
    await kept.settings.set("r2", "eth1", "mtu", 9000, for_s=100)
    await asyncio.sleep(59)
    assert await kept.settings.put_back_due() == {}
    assert await kept.settings.hold("r1", 60) == {"held": 1, "back": []}
    await asyncio.sleep(42)
    mtu = {"port": "eth1", "setting": "mtu", "state": 1500}
    assert await kept.settings.put_back_due() == {"r2": {"back": [mtu], "left": []}}
    assert (kept.states()["eth0", "mtu"], kept.states()["eth1", "mtu"]) == (4200, 1500)
    assert await kept.settings.hold("r2", 60) == {"held": 0, "back": [mtu]}, "whoever comes back is told"
    assert await kept.settings.hold("r2", 60) == {"held": 0, "back": []}, "once"


async def test_limit_is_that_of_a_run_and_not_of_each_of_its_settings_and_outlives_the_agent(kept: Kept) -> None:
    await kept.settings.set("r1", "eth0", "mtu", 4200, for_s=60)
    await asyncio.sleep(50)
    await kept.settings.set("r1", "eth1", "mtu", 4200, for_s=60)
    await asyncio.sleep(50)
    assert await kept.settings.put_back_due() == {}
    await kept.settings.hold("r1", 60)
    kept.disk.crash()
    kept.live()
    await asyncio.sleep(59)
    assert await kept.settings.put_back_due() == {}
    await asyncio.sleep(2)
    assert len((await kept.settings.put_back_due())["r1"]["back"]) == 2
    assert kept.states()["eth0", "mtu"] == 1500
    kept.disk.crash()
    assert kept.live().held == ()


async def test_host_that_was_started_anew_has_lost_its_kernels_settings_and_gets_those_of_its_firmware_back(
    kept: Kept,
) -> None:
    await kept.settings.set("r1", "eth0", "mtu", 4200, for_s=60)
    await kept.settings.set("r1", "eth1", "autoneg", False, for_s=60)
    kept.disk.crash()
    kept.life = "boot 2"
    kept.host.states["eth0", "mtu", ""] = 9000  # as somebody wrote into the host's files meanwhile
    kept.live()
    told = await kept.settings.put_back_due()
    assert told == {"r1": {"back": [{"port": "eth1", "setting": "autoneg", "state": AUTONEG}], "left": []}}
    assert (kept.states()["eth0", "mtu"], kept.states()["eth1", "autoneg"]) == (9000, AUTONEG)
    assert (kept.settings.held, kept.disk.size()) == ((), 0)


async def test_hold_that_is_none_is_refused(kept: Kept) -> None:
    for for_s in (0.0, -1.0, 8 * 86400.0, float("nan")):
        with pytest.raises(RefusedError, match=r"for_s .* is not above 0 and up to 604800 s"):
            await kept.settings.set("r1", "eth0", "mtu", 4200, for_s=for_s)
        with pytest.raises(RefusedError, match="for_s"):
            await kept.settings.hold("r1", for_s)
    assert kept.settings.held == ()


@pytest.mark.parametrize(
    ("setting", "value", "state", "held"),
    [
        ("mtu", 4200, 4200, True),
        ("mtu", 4200, 1500, False),
        ("autoneg", False, {**AUTONEG, "autoneg": False}, True),
        ("autoneg", False, AUTONEG, False),
        ("fec", "rs", {"auto": False, "modes": ["rs"]}, True),
        ("fec", "rs", {"auto": True, "modes": ["rs"]}, False),
        ("fec", "auto", {"auto": True, "modes": []}, True),
        ("address", "10.0.0.1/32", True, True),
        ("neighbour", {"ip": "10.0.0.1", "mac": "02:00:00:00:00:01"}, None, False),
        ("neighbour", {"ip": "10.0.0.1", "mac": "02:00:00:00:00:01"}, {"mac": "02:00:00:00:00:01", "nud": 128}, True),
        ("route", {"to": "10.0.0.0/8"}, {"via": "10.1.0.1", "oif": 3}, False),
    ],
)
def test_state_holds_what_was_asked_for_or_not(setting: str, value: Json, state: Json, held: bool) -> None:
    assert holds(parse_setting(setting), value, state) is held


def test_what_comes_and_goes_by_itself_does_not_count() -> None:
    assert restored(Setting.AUTONEG, {**AUTONEG, "speed": 100_000}, AUTONEG)
    assert not restored(Setting.AUTONEG, {**AUTONEG, "ours": "3"}, AUTONEG)
    assert restored(Setting.NEIGHBOUR, {"mac": "02:00:00:00:00:01", "nud": 2}, {"mac": "02:00:00:00:00:01", "nud": 4})
    learned: Json = {"mac": "02:00:00:00:00:01", "nud": 2}
    lasting: Json = {"mac": "02:00:00:00:00:01", "nud": 0x80}
    assert not restored(Setting.NEIGHBOUR, learned, lasting), "the kernel would never ask for it again"
    assert not restored(Setting.NEIGHBOUR, lasting, learned)
    assert not restored(Setting.ROUTE, {"via": None, "oif": 2}, {"via": "10.0.0.1", "oif": 2})


def test_values_of_one_subject_take_each_others_place() -> None:
    first, second = {"ip": "10.0.0.1", "mac": "02:00:00:00:00:01"}, {"ip": "10.0.0.1", "mac": "02:00:00:00:00:02"}
    assert subject(Setting.NEIGHBOUR, first) == subject(Setting.NEIGHBOUR, second)
    assert subject(Setting.ROUTE, {"to": "10.0.0.0/8"}) != subject(Setting.ROUTE, {"to": "10.0.0.0/8", "metric": 1})
    assert subject(Setting.ADDRESS, "10.0.0.1/8") != subject(Setting.ADDRESS, "10.0.0.2/8")


def test_flipped_bit_takes_one_setting_at_the_most_and_the_damaged_journal_is_set_aside() -> None:
    disk = MemoryDisk()
    journal = SettingJournal(disk)
    for run in ("r0", "r1", "r2"):
        journal.add(JournalSetting(run=run, port="eth0", setting="mtu", value=4200, before=1500))
    whole = disk.read()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        disk = MemoryDisk()
        disk.append(bytes(damaged))
        found = SettingJournal(disk)
        hurt = f"r{3 * at // len(whole)}"
        assert {held.run for held in found.held} >= {"r0", "r1", "r2"} - {hurt}, at
        assert found.damaged_bytes
        assert disk.asides == [bytes(damaged)]
        assert SettingJournal(disk).damaged_bytes == 0, "said once"


# --- settings of which nobody says any more that they shall stand


@pytest.fixture
async def ear(kept: Kept) -> Ear:
    """Of what puts them back."""
    ear = Ear()
    kept.stage.run(SettingLimits(kept.settings, kept.stage.clock, ear, origin="twin"))
    return ear


async def test_setting_is_put_back_when_its_time_is_over_and_the_event_says_so(kept: Kept, ear: Ear) -> None:
    await asyncio.sleep(1)
    set_ns = kept.stage.now_ns()
    await kept.settings.set("r1", "eth0", "mtu", 4200, for_s=300)
    await asyncio.sleep(299.9)
    assert kept.states()["eth0", "mtu"] == 4200
    await asyncio.sleep(0.2)
    assert kept.states()["eth0", "mtu"] == 1500
    (told,) = ear.told
    assert (told.kind, told.port, told.source) == ("put-back", "eth0", "settings")
    assert told.data == {"run": "r1", "setting": "mtu", "state": 1500}
    assert 300 * 10**9 <= told.earliest_ns - set_ns <= told.at_ns - set_ns <= 300.1 * 10**9


@pytest.mark.usefixtures("ear")
async def test_setting_that_is_held_again_for_a_shorter_time_stands_so_long(kept: Kept) -> None:
    await kept.settings.set("r1", "eth0", "mtu", 4200, for_s=3600)
    await asyncio.sleep(10)
    await kept.settings.hold("r1", 5)
    await asyncio.sleep(5.1)
    assert kept.states()["eth0", "mtu"] == 1500


async def test_interface_that_is_gone_when_the_time_is_over_is_put_back_when_it_is_there_again(
    kept: Kept, ear: Ear
) -> None:
    await kept.settings.set("r1", "eth0", "mtu", 4200, for_s=30)
    kept.host.unplug("eth0")
    await asyncio.sleep(120)
    assert ear.told == []
    kept.host.plug("eth0", ifindex=200)
    await asyncio.sleep(AGAIN_S + 0.1)
    assert (kept.states()["eth0", "mtu"], ear.kinds()) == (1500, ["put-back"])


async def test_kernel_that_starts_anew_without_a_word_is_found(kept: Kept, ear: Ear) -> None:
    await kept.settings.set("r1", "eth0", "mtu", 4200, for_s=3600)
    kept.life, kept.host.states["eth0", "mtu", ""] = "boot 2", 9000
    await asyncio.sleep(LOOK_S + 0.1)
    assert (kept.states()["eth0", "mtu"], kept.settings.held, ear.told) == (9000, (), [])


# --- put back without an agent: by the host's own settings, out of the journal that the agent left


CONFIG = AgentConfig(testbed="tb", host="h0", broker="mqtt://127.0.0.1", ports=PORTS)


async def set_mtus(one: Stage, folder: Path) -> None:
    """By an agent that then ends."""
    one.hosts["h0"].plug("eth1")
    for interface in PORTS:
        one.hosts["h0"].states[interface, "mtu", ""] = 1500
    settings = Settings(
        PORTS,
        one.sources["h0"].settings,
        FileDisk(folder / "settings"),
        clock=one.clock,
        life=lambda: "boot 1",
        on_change=lambda: None,
    )
    await settings.set("r1", "eth0", "mtu", 4200)
    await settings.set("r2", "eth1", "mtu", 9000)
    settings.close()


def mtus(one: Stage) -> list[object]:
    return [one.hosts["h0"].states[interface, "mtu", ""] for interface in PORTS]


async def test_all_runs_are_put_back_and_named_and_what_is_not_is_said(one: Stage, tmp_path: Path) -> None:
    await set_mtus(one, tmp_path)
    assert mtus(one) == [4200, 9000]
    told = await put_back_all(CONFIG, tmp_path, one.sources["h0"], one.clock)
    assert told == ["eth1 mtu of run r2", "eth0 mtu of run r1"]
    assert mtus(one) == [1500, 1500]
    assert (tmp_path / "settings").stat().st_size == 0
    assert await put_back_all(CONFIG, tmp_path, one.sources["h0"], one.clock) == []
    await set_mtus(one, tmp_path)
    without = AgentConfig(testbed="tb", host="h0", broker="mqtt://127.0.0.1", ports={"eth0": PORTS["eth0"]})
    with pytest.raises(FailedError, match=r"not put back: eth1 mtu of run r2: eth1: no such port"):
        await put_back_all(without, tmp_path, one.sources["h0"], one.clock)
    assert mtus(one) == [1500, 9000]
    assert (tmp_path / "settings").stat().st_size > 0
