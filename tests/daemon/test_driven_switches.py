"""The switches of a testbed as the daemon drives them, while it ends."""

import asyncio

from hwd.daemon.driven_switches import DrivenSwitches
from hwd.daemon.installed_drivers import load_text
from hwd.daemon.seams import Machine
from hwd.fabric.fabric import Fabric
from hwd.model.testbed import Switch
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.ids import Draws, SeededIds
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.devices.abilities import Device
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

from .test_reload import OCS2, OCS3, TEXT


def test_a_reload_that_comes_while_sessions_end_begins_none() -> None:
    opened: list[str] = []

    async def open_switch(switch: Switch, sink: Sink) -> Device:
        opened.append(switch.name)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)  # it says goodbye
        raise AssertionError

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock = VirtualClock(loop, wall_start_ns=0)
        machine = Machine(clock=clock, ids=SeededIds(1), draws=Draws(1), offload=InlineOffload(), virtual_time=True)
        before = load_text(TEXT, file="desk.yaml").require()
        after = load_text(TEXT.replace(OCS2, f"{OCS2}\n{OCS3}"), file="desk.yaml").require()
        switches = DrivenSwitches(before, open_switch, machine=machine, sink=lambda document: None)
        running = asyncio.create_task(switches.run())
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.sleep(0.5)
        assert not running.done()
        switches.use_testbed(Fabric(after))
        assert [*switches.drivers] == ["ocs1", "ocs2", "ocs3"]
        await asyncio.wait([running])
        assert running.cancelled()

    run_virtual(main())
    assert sorted(opened) == ["ocs1", "ocs2"]
