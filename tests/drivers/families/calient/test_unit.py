"""A Calient unit without its protocols: connections, their states, and what is refused."""

import asyncio

import pytest

from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, PortSide, Side
from hwd_drivers.families.calient.models import MODELS
from hwd_drivers.families.calient.options import TwinOptions
from hwd_drivers.families.calient.unit import (
    COMING,
    ENTERED,
    FAILED,
    IN_SERVICE,
    Change,
    Connection,
    Unit,
    UnitError,
    Wish,
    Wrong,
)
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

from ...stage import in_virtual_time


class World:
    def __init__(self, *, timing: str = "polatis-opus", **options: str | int) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.unit = Unit(
            name="ocs1",
            capabilities=MODELS["calient-s160"]("16"),
            timing=find_timing(timing),
            draws=Draws(7),
            clock=VirtualClock(loop, wall_start_ns=0),
            options=TwinOptions.model_validate(options),
        )

    def enter(self, source: str, destination: str, *, two_way: bool = False, name: str = "") -> Connection:
        return self.unit.enter(Wish(source=source, destination=destination, two_way=two_way, name=name), activate=False)

    def texts(self) -> list[str]:
        return [
            f"{each.name} {states.admin},{states.operation},{states.capability}" for each, states in self.unit.states()
        ]

    def light(self) -> list[str]:
        return [str(pair) for pair in self.unit.mirror.crossconnects()]


@in_virtual_time
async def test_ports_have_the_names_of_shelf_module_and_port() -> None:
    world = World()
    assert world.unit.ports.names[:9] == (*(f"1.1.{port}" for port in range(1, 9)), "1.2.1")
    assert World(modules_per_shelf=1).unit.ports.names[8] == "2.1.1"


@in_virtual_time
async def test_a_connection_is_entered_then_activated_then_in_service() -> None:
    world = World()
    one = world.enter("1.1.1", "1.1.2")
    assert world.light() == []
    assert world.unit.states() == [(one, ENTERED)]
    world.unit.activate([one])
    assert world.unit.states() == [(one, COMING)]
    await asyncio.sleep(0.1)
    assert world.unit.states() == [(one, IN_SERVICE)]
    assert world.light() == ["1A-2B"]
    world.unit.deactivate(one)
    assert (world.light(), world.unit.states()) == ([], [(one, ENTERED)])
    world.unit.delete([one])
    assert world.texts() == []


@in_virtual_time
async def test_both_ways_are_two_paths_under_one_name() -> None:
    world = World()
    both = world.enter("1.1.1", "1.1.2", two_way=True)
    world.unit.activate([both])
    assert (both.name, world.light()) == ("1.1.1-1.1.2", ["1A-2B", "2A-1B"])


@pytest.mark.parametrize(
    ("source", "destination", "two_way", "name", "wrong"),
    [
        ("1.1.1", "1.1.3", False, "", Wrong.IN_USE),
        ("1.1.3", "1.1.2", False, "", Wrong.IN_USE),
        ("1.1.2", "1.1.1", True, "", Wrong.IN_USE),
        ("1.1.3", "1.1.4", False, "1.1.1>1.1.2", Wrong.NAME),
        ("1.1.3", "1.1.3", True, "", Wrong.VALUE),
        ("1.1.3", "9.9.9", False, "", Wrong.PORT),
        ("1.1.3", "1.1.4", False, "a;b", Wrong.VALUE),
        ("1.1.3", "1.1.4", False, "n" * 65, Wrong.VALUE),
    ],
)
@in_virtual_time
async def test_an_impossible_wish_is_refused_and_nothing_is_done(
    source: str, destination: str, two_way: bool, name: str, wrong: Wrong
) -> None:
    world = World()
    world.unit.activate([world.enter("1.1.1", "1.1.2")])
    before = world.texts()
    with pytest.raises(UnitError) as refused:
        world.enter(source, destination, two_way=two_way, name=name)
    assert refused.value.wrong is wrong
    assert world.texts() == before


@in_virtual_time
async def test_a_used_port_is_refused_in_the_words_that_programs_look_for() -> None:
    world = World()
    world.enter("1.1.1", "1.1.2")
    with pytest.raises(UnitError, match=r"Invalid Connection - Port already in Connection: 1\.1\.1"):
        world.enter("1.1.1", "1.1.4")


@in_virtual_time
async def test_the_other_direction_of_the_same_ports_is_free() -> None:
    world = World()
    world.enter("1.1.1", "1.1.2")
    world.enter("1.1.2", "1.1.1")
    assert world.texts() == ["1.1.1>1.1.2 UMA,RDY,OK", "1.1.2>1.1.1 UMA,RDY,OK"]


@in_virtual_time
async def test_a_stuck_mirror_is_a_failed_connection() -> None:
    world = World()
    world.unit.faults.stick([PortSide(port="1", side=Side.A)])
    one = world.enter("1.1.1", "1.1.2")
    world.unit.activate([one])
    assert world.unit.states() == [(one, FAILED)]
    world.unit.delete([one])
    assert world.texts() == []


@in_virtual_time
async def test_a_path_that_cannot_be_taken_away_shows_again() -> None:
    world = World()
    one = world.enter("1.1.1", "1.1.2", name="mine")
    world.unit.activate([one])
    world.unit.faults.stick([PortSide(port="1", side=Side.A)])
    world.unit.delete([one])
    assert [text.split()[0] for text in world.texts()] == ["1.1.1>1.1.2"]


@in_virtual_time
async def test_changes_at_the_front_panel_are_in_the_records() -> None:
    world = World()
    world.unit.activate([world.enter("1.1.1", "1.1.2", two_way=True)])
    world.enter("1.1.5", "1.1.6", name="entered")
    world.unit.faults.panel(remove=[Crossconnect.parse("1A-2B")], add=[Crossconnect.parse("5A-7B")])
    assert [text.split()[0] for text in world.texts()] == ["1.1.2>1.1.1", "1.1.5>1.1.7"]
    assert world.light() == ["2A-1B", "5A-7B"]


@pytest.mark.parametrize(("power_up", "names"), [("restore", ["mine"]), ("empty", [])])
@in_virtual_time
async def test_after_a_reboot_connections_are_as_the_option_says(power_up: str, names: list[str]) -> None:
    world = World(power_up=power_up)
    world.unit.activate([world.enter("1.1.1", "1.1.2", name="mine")])
    world.unit.faults.reboot(1.0)
    await asyncio.sleep(2)
    assert [each.name for each in world.unit.connections()] == names
    assert world.light() == (["1A-2B"] if names else [])


@in_virtual_time
async def test_each_change_is_reported_once() -> None:
    world = World()
    told: list[tuple[str, Change]] = []
    world.unit.on_connection.append(lambda connection, change: told.append((connection.name, change)))
    one = world.enter("1.1.1", "1.1.2")
    world.unit.activate([one])
    await asyncio.sleep(0.1)
    world.unit.mirror.advance(world.unit.clock.monotonic_ns())
    world.enter("1.1.3", "1.1.4")
    world.unit.delete([one])
    assert told == [("1.1.1>1.1.2", "in-service"), ("1.1.1>1.1.2", "gone")]


@in_virtual_time
async def test_monitors_measure_entering_and_leaving_light() -> None:
    world = World(timing="ideal")
    unit = world.unit
    unit.mirror.set_input(PortSide(port="1", side=Side.A), 1.0)
    assert unit.power(1, Side.A) == pytest.approx(1.0, abs=0.06)
    assert unit.power(2, Side.B) is None
    unit.activate([world.enter("1.1.1", "1.1.2")])
    assert unit.power(2, Side.B) == pytest.approx(1.0 - unit.mirror.loss_db(Crossconnect.parse("1A-2B")), abs=0.2)
