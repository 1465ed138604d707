"""What twins do when they are told to misbehave: through the real driver and the agent's own sources,
in virtual time.
"""

import asyncio

import pytest

from hwd.model.fault import parse_fault
from hwd.model.nic_port import NicPortId
from hwd.twin.faults.rack_faults import RackFaults
from hwd.twin.nic import What
from hwd_agents.sources.setting_source import Setting
from hwd_drivers.core.clock import ShiftedClock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError, DeviceError, LinkError, RefusedError
from hwd_drivers.devices.abilities import CrossConnects

from ..conftest import S, Scene, open_switch, rack_with, soon

NEAR, FAR = "h0.eth0", "h1.eth0"
LINK = ("1A-3B", "3A-1B")
"""h0.eth0 and h1.eth0, both ways."""


async def link_up(scene: Scene) -> None:
    await scene.change(*LINK)
    await asyncio.sleep(20)
    assert scene.up(What.RDMA) == [NEAR, FAR]


async def after_light_s(scene: Scene, what: What, port: str = NEAR) -> float:
    """Seconds from light until the port sees this, of a link that is made and taken away again."""
    await scene.change(*LINK)
    lit_s = scene.at_s(port, What.LIGHT)[-1]
    await asyncio.sleep(40)
    await scene.change(remove=LINK)
    await asyncio.sleep(10)
    return scene.at_s(port, what)[-1] - lit_s


@rack_with(nic="opus-cx6dx")
async def test_slow_firmware_takes_so_much_longer_until_it_is_cleared(scene: Scene) -> None:
    assert 2.5 < await after_light_s(scene, What.PHY) < 3.5
    scene.fault(port=NEAR, fault="slow-firmware", seconds=4)
    assert scene.said() == ["h0.eth0 slow-firmware seconds=4.0"]
    assert 6.5 < await after_light_s(scene, What.PHY) < 7.5
    scene.fault(port=NEAR, fault="clear")
    assert 2.5 < await after_light_s(scene, What.PHY) < 3.5
    assert scene.said() == []


@rack_with(nic="opus-cx6dx")
async def test_unplugged_module_takes_the_light_of_both_ends_and_cannot_be_read(scene: Scene) -> None:
    await link_up(scene)
    scene.fault(port=NEAR, fault="unplug")
    assert scene.up(What.LIGHT) == scene.up(What.CARRIER) == []
    assert await scene.power("3B") is None, "the switch gets none of its light"
    assert scene.lanes(FAR) == (None,) * 4
    with pytest.raises(LinkError, match=r"h0\.eth0: there is no module in it"):
        scene.lanes(NEAR)
    scene.fault(port=NEAR, fault="unplug", on=False)
    await asyncio.sleep(20)
    assert scene.up(What.RDMA) == [NEAR, FAR]
    assert None not in scene.lanes(NEAR)


@rack_with(nic="opus-cx6dx")
async def test_cut_strand_takes_the_light_of_one_way_also_of_a_module_that_was_unplugged(scene: Scene) -> None:
    for strand, lit, at_switch in (("tx", [NEAR], False), ("rx", [FAR], True), ("both", [], False)):
        await link_up(scene)
        scene.fault(port=NEAR, fault="cut", strand=strand)
        assert scene.up(What.LIGHT) == lit
        assert scene.up(What.CARRIER) == [], "light of one way is no link"
        assert (await scene.power("3B") is not None) is at_switch
        await asyncio.sleep(30)
        assert scene.up(What.PHY) == []
        scene.fault(fault="clear")
        await asyncio.sleep(20)
        assert scene.up(What.RDMA) == [NEAR, FAR]
        await scene.change(remove=LINK)
        await asyncio.sleep(60)  # a rested link
    await link_up(scene)
    scene.fault(port=NEAR, fault="cut", strand="tx")
    scene.fault(port=NEAR, fault="unplug")
    scene.fault(port=NEAR, fault="unplug", on=False)
    assert scene.said() == ["h0.eth0 cut strand=tx"]
    assert scene.up(What.LIGHT) == [NEAR]


async def test_weak_light_is_as_much_weaker_and_below_sensitivity_it_is_no_link(scene: Scene) -> None:
    await link_up(scene)
    before = [power for power in scene.lanes(FAR) if power is not None]
    at_switch = await scene.power("3B")
    scene.fault(port=NEAR, fault="weak", loss_db=3)
    weaker = [power for power in scene.lanes(FAR) if power is not None]
    assert weaker == pytest.approx([power - 3 for power in before], abs=0.01)
    assert at_switch is not None
    assert await scene.power("3B") == pytest.approx(at_switch - 3, abs=0.2)
    assert scene.up(What.CARRIER) == [NEAR, FAR], "there is margin for it"
    too_much = min(before) + 10.6 + 1  # 1 dB under the sensitivity of the module
    scene.fault(port=NEAR, fault="weak", loss_db=too_much)
    assert scene.up(What.LIGHT) == [NEAR, FAR], "no loss of signal"
    assert scene.up(What.CARRIER) == []
    assert scene.said() == [f"h0.eth0 weak loss_db={too_much}"]
    scene.fault(port=NEAR, fault="weak", loss_db=0)
    assert scene.said() == []
    await asyncio.sleep(20)
    assert scene.up(What.RDMA) == [NEAR, FAR]


@rack_with(nic="opus-cx6dx")
async def test_carrier_flaps_as_often_and_as_long_as_asked_for_and_light_and_phy_stay(scene: Scene) -> None:
    await link_up(scene)
    phys = len(scene.at_s(NEAR, What.PHY))
    begun_s = scene.now_s()
    scene.fault(port=NEAR, fault="flap", times=3, down_s=0.1, up_s=0.5)
    assert scene.said() == ["h0.eth0 flap times=3 down_s=0.1 up_s=0.5"]
    await asyncio.sleep(10)
    falls = scene.at_s(NEAR, What.CARRIER, up=False)
    rises = scene.at_s(NEAR, What.CARRIER)[-3:]
    assert [round(at_s - begun_s, 3) for at_s in falls] == [0.0, 0.6, 1.2]
    assert [round(at_s - begun_s, 3) for at_s in rises] == [0.1, 0.7, 1.3]
    assert len(scene.at_s(NEAR, What.PHY)) == phys
    assert scene.at_s(NEAR, What.LIGHT, up=False) == []
    assert (scene.up(What.RDMA), scene.said()) == ([NEAR, FAR], [])
    scene.fault(port=NEAR, fault="flap", times=100)
    await asyncio.sleep(0.25)
    scene.fault(host="h0", fault="clear")
    assert len(scene.at_s(NEAR, What.CARRIER, up=False)) == 6
    await asyncio.sleep(20)
    assert len(scene.at_s(NEAR, What.CARRIER, up=False)) == 6, "they end when they are cleared"
    assert scene.up(What.CARRIER) == [NEAR, FAR]


@rack_with(nic="opus-cx6dx")
async def test_stuck_phy_keeps_both_ends_down_in_full_light(scene: Scene) -> None:
    scene.fault(port=NEAR, fault="stuck-phy")
    await scene.change(*LINK)
    await asyncio.sleep(60)
    assert scene.up(What.LIGHT) == [NEAR, FAR]
    assert scene.up(What.PHY) == [], "the far end gets remote fault"
    scene.fault(port=NEAR, fault="stuck-phy", on=False)
    await asyncio.sleep(20)
    assert scene.up(What.RDMA) == [NEAR, FAR]
    scene.fault(port=NEAR, fault="stuck-phy")
    assert scene.up(What.PHY) == []


async def test_clock_of_a_host_is_stepped_for_its_agent_and_for_the_next_one(scene: Scene) -> None:
    clock = ShiftedClock(scene.clock, offset_s=5, drift_ppm=0)
    async with scene.agent("h0", clock):
        assert clock.monotonic_ns() - scene.clock.monotonic_ns() == 5 * S
        scene.fault(host="h0", fault="clock-step", seconds=-30)
        scene.fault(host="h0", fault="clock-step", seconds=90)
        await asyncio.sleep(0.1)
        assert clock.monotonic_ns() - scene.clock.monotonic_ns() == 65 * S
        assert clock.from_kernel_ns(0) == scene.clock.from_kernel_ns(0) + 65 * S
        assert clock.to_inner_ns(clock.monotonic_ns()) == scene.clock.monotonic_ns()
        assert scene.said() == ["h0 clock-step seconds=60.0"]
    fresh = ShiftedClock(scene.clock, offset_s=5, drift_ppm=0)
    async with scene.agent("h0", fresh):
        assert fresh.monotonic_ns() - scene.clock.monotonic_ns() == 65 * S
        scene.fault(host="h0", fault="clear")
        await asyncio.sleep(0.1)
        assert fresh.monotonic_ns() - scene.clock.monotonic_ns() == 5 * S
        assert scene.said() == []


async def test_agent_is_killed_by_whoever_keeps_it_and_clear_without_a_subject_makes_everything_well(
    scene: Scene,
) -> None:
    scene.fault(host="h2", fault="agent-killed")
    assert (scene.killed, scene.said()) == (["h2"], [])
    with pytest.raises(RefusedError, match="this rack does not keep the agents"):
        RackFaults(scene.rack).set(parse_fault({"host": "h2", "fault": "agent-killed"}))
    with pytest.raises(ConfigError, match=r"h9\.eth0: no such NIC port"):
        scene.fault(port="h9.eth0", fault="unplug")
    assert scene.said() == []
    scene.fault(switch="ocs1", fault="stick", ends=["1A"])
    scene.fault(switch="ocs1", fault="stick", ends=["2A", "1A"])
    scene.fault(switch="ocs1", fault="slow", seconds=1)
    scene.fault(port=NEAR, fault="stuck-phy")
    scene.fault(port=FAR, fault="weak", loss_db=30)
    scene.fault(host="h3", fault="clock-step", seconds=3)
    assert scene.said()[0] == "ocs1 stick ends=1A,2A"
    assert len(scene.said()) == 5
    scene.fault(port=NEAR, fault="clear")
    assert len(scene.said()) == 4
    scene.fault(fault="clear")
    assert scene.said() == []
    await link_up(scene)


async def test_part_of_a_batch_is_done_and_told_as_it_was_asked_for_and_a_used_up_fault_is_no_longer_there(
    scene: Scene,
) -> None:
    scene.fault(switch="ocs1", fault="deny", code="SROF")
    scene.fault(switch="ocs1", fault="slow", seconds=0.5)
    assert scene.said() == ["ocs1 deny code=SROF text=", "ocs1 slow seconds=0.5"]
    began_s = scene.now_s()
    with pytest.raises(DeviceError, match="SROF"):
        await scene.change(*LINK)
    assert scene.now_s() - began_s >= 0.5
    assert scene.said() == ["ocs1 slow seconds=0.5"]
    scene.fault(fault="clear")
    scene.fault(switch="ocs1", fault="partial", pairs=1)
    assert scene.said() == ["ocs1 partial pairs=1"]
    await scene.change(*LINK)
    mirror = scene.rack.switches["ocs1"].mirror
    assert ([str(one) for one in mirror.crossconnects()], scene.said()) == (["1A-3B"], [])
    scene.fault(switch="ocs1", fault="partial", pairs=0)
    scene.fault(switch="ocs1", fault="deny", code="SROF", text="half way")
    with pytest.raises(DeviceError, match="half way"):
        await scene.change("2A-4B")
    assert [str(one) for one in mirror.crossconnects()] == ["1A-3B"]


async def test_drift_takes_light_step_by_step_a_failed_end_is_dark_until_cleared_and_a_hand_at_the_panel_takes_a_link(
    scene: Scene,
) -> None:
    await link_up(scene)
    before = scene.lanes(FAR)
    assert before[0] is not None
    scene.fault(switch="ocs1", fault="drift", ends=["1A"], loss_db=14, over_s=140)
    await asyncio.sleep(70.5)
    lost_db = before[0] - (scene.lanes(FAR)[0] or 0)
    assert lost_db == pytest.approx(7, abs=0.11)
    await asyncio.sleep(70)
    assert scene.up(What.PHY) == [], "nor has the near end a partner now"
    assert scene.said() == ["ocs1 drift ends=1A loss_db=14.0 over_s=140.0"]
    scene.fault(switch="ocs1", fault="drift", ends=["1A"], loss_db=1)
    assert scene.said() == ["ocs1 drift ends=1A loss_db=15.0 over_s=0.0"]
    scene.fault(switch="ocs1", fault="clear")
    assert (scene.lanes(FAR), scene.said()) == (before, [])
    await asyncio.sleep(20)
    assert scene.up(What.PHY) == [NEAR, FAR]
    scene.fault(switch="ocs1", fault="fail", ends=["3B"])
    assert scene.lanes(FAR) == (None,) * 4
    assert [str(one) for one in scene.rack.switches["ocs1"].mirror.readings(0)] == ["1A-3B failed", "3A-1B tuned"]
    scene.fault(fault="clear")
    assert None not in scene.lanes(FAR)
    scene.fault(switch="ocs1", fault="panel", remove=["3A-1B"], add=["1A-4B"])
    assert (scene.up(What.PHY), scene.said()) == ([], [])
    assert isinstance(scene.switch, CrossConnects)
    readings = await scene.switch.read_crossconnects(deadline_s=soon())
    assert [str(one.crossconnect) for one in readings] == ["1A-4B"], "the session stays"


async def test_reboot_ends_sessions_refuses_new_ones_and_leaves_a_dark_switch(scene: Scene) -> None:
    await link_up(scene)
    began_s = scene.now_s()
    scene.fault(switch="ocs1", fault="reboot", seconds=20)
    assert isinstance(await scene.switch.lost(), LinkError)
    assert (scene.up(What.PHY), scene.said()) == ([], ["ocs1 reboot seconds=20.0"])

    with pytest.raises(LinkError, match="nothing listens"):
        await open_switch("mem:ocs1", scene.dialer, scene.clock)
    scene.fault(switch="ocs1", fault="clear")
    assert scene.said() == ["ocs1 reboot seconds=20.0"], "a reboot goes on"
    await asyncio.sleep(began_s + 20.01 - scene.now_s())
    assert scene.said() == []
    fresh = await open_switch("mem:ocs1", scene.dialer, scene.clock)
    assert isinstance(fresh, CrossConnects)
    assert await fresh.read_crossconnects(deadline_s=soon()) == ()
    await fresh.close()


@rack_with(nic="opus-cx6dx-autoneg")
async def test_switching_autoneg_off_makes_the_firmware_take_the_time_without_it(scene: Scene) -> None:
    await link_up(scene)
    host = scene.rack.hosts["h0"]
    state = host.read_setting("eth0", Setting.AUTONEG, False)
    assert isinstance(state, dict)
    assert state["autoneg"] is True

    async def retrain_s(on: bool) -> float:
        await asyncio.sleep(60)
        began_s = scene.now_s()
        for name in ("h0", "h1"):
            scene.rack.hosts[name].change_setting("eth0", Setting.AUTONEG, on, {**state, "autoneg": on})
        assert scene.up(What.PHY) == [], "the link is taken down by it"
        assert scene.up(What.LIGHT) == [NEAR, FAR]
        await asyncio.sleep(30)
        return scene.at_s(NEAR, What.PHY)[-1] - began_s

    assert 2.5 < await retrain_s(on=False) < 3.5
    assert 5 < await retrain_s(on=True) < 7


@rack_with(nic="mfabric-cx6")
async def test_nic_without_a_figure_for_it_does_not_change_its_negotiation(scene: Scene) -> None:
    host = scene.rack.hosts["h0"]
    with pytest.raises(RefusedError, match="the NIC timing mfabric-cx6 has no figure for it"):
        host.change_setting("eth0", Setting.AUTONEG, False, {"autoneg": False})
    assert host.read_setting("eth0", Setting.AUTONEG, False) == {
        "autoneg": True,
        "speed": None,
        "duplex": None,
        "ours": "0",
        "bits": 0,
    }


async def test_nics_take_the_times_of_another_timing_until_it_is_cleared(scene: Scene) -> None:
    assert await after_light_s(scene, What.CARRIER) < 0.1
    scene.fault(host="h0", fault="nic-timing", timing="mfabric-cx6")
    assert scene.said() == ["h0 nic-timing timing=mfabric-cx6"]
    assert 4.7 < await after_light_s(scene, What.CARRIER) < 6.7
    assert 4.7 < await after_light_s(scene, What.CARRIER) < 6.7, "each time"
    assert await after_light_s(scene, What.CARRIER, FAR) < 0.1, "of another host"
    scene.fault(host="h0", fault="nic-timing", timing="opus-cx6dx-autoneg")
    assert scene.said() == ["h0 nic-timing timing=opus-cx6dx-autoneg"]
    scene.fault(host="h0", fault="clear")
    assert scene.said() == []
    assert await after_light_s(scene, What.CARRIER) < 0.1


@rack_with(nic="opus-cx6dx-autoneg")
async def test_times_of_other_negotiation_are_refused_and_a_cleared_nic_goes_on_with_its_own(scene: Scene) -> None:
    state: dict[str, Json] = {"speed": None, "duplex": None, "ours": "0", "bits": 0}

    with pytest.raises(RefusedError, match=r"h0\.eth0 negotiates, and opus-cx6dx .* NICs that do not"):
        scene.fault(host="h0", fault="nic-timing", timing="opus-cx6dx")
    assert scene.said() == []
    scene.rack.hosts["h0"].change_setting("eth0", Setting.AUTONEG, False, {**state, "autoneg": False})
    with pytest.raises(RefusedError, match=r"h0\.eth0 does not negotiate, .* that do$"):
        scene.fault(host="h0", fault="nic-timing", timing="mfabric-cx6")
    nics = [scene.rack.nics[NicPortId.parse(port)] for port in (NEAR, "h0.eth1")]
    assert [nic.timing.name for nic in nics] == ["opus-cx6dx", "opus-cx6dx-autoneg"]
    scene.rack.hosts["h0"].change_setting("eth0", Setting.AUTONEG, True, {**state, "autoneg": True})
    scene.fault(host="h0", fault="nic-timing", timing="mfabric-cx6")
    scene.fault(fault="clear")
    assert [nic.timing.name for nic in nics] == ["opus-cx6dx-autoneg"] * 2
    scene.rack.hosts["h0"].change_setting("eth0", Setting.AUTONEG, False, {**state, "autoneg": False})
    assert nics[0].timing.name == "opus-cx6dx"
    scene.fault(host="h0", fault="clear")
    assert nics[0].timing.name == "opus-cx6dx", "what was not changed stays"


async def test_process_twin_holds_what_its_model_has_and_refuses_the_rest_by_name(scene: Scene) -> None:
    host = scene.rack.hosts["h0"]
    host.change_setting("eth0", Setting.MTU, 4200, 4200)
    assert host.read_setting("eth0", Setting.MTU, 4200) == 4200
    assert [link.mtu for link in host.links()] == [4200, 1500]
    host.change_setting("eth0", Setting.FEC, "rs", {"auto": False, "modes": ["rs"]})
    assert host.read_setting("eth0", Setting.FEC, "rs") == {"auto": False, "modes": ["rs"]}
    assert host.read_setting("eth0", Setting.ADDRESS, "10.1.0.1/32") is True
    assert host.read_setting("eth0", Setting.ADDRESS, "10.9.0.1/32") is False
    host.change_setting("eth0", Setting.ADDRESS, "10.9.0.1/32", True)
    assert host.read_setting("eth0", Setting.ADDRESS, "10.9.0.1/32") is True
    for setting in (Setting.NEIGHBOUR, Setting.ROUTE):
        with pytest.raises(RefusedError, match=f"eth0: {setting}: a twin host without a kernel"):
            host.read_setting("eth0", setting, {})
        with pytest.raises(RefusedError, match=f"eth0: {setting}: a twin host cannot have"):
            host.change_setting("eth0", setting, {}, None)
