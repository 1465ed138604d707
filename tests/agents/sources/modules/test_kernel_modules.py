"""Modules read by ethtool netlink: of simulated NICs over a real netlink socket, and of real interfaces without one."""

import asyncio
import errno
import threading
from collections.abc import Iterator

import pytest
from pyroute2.netlink import NETLINK_GENERIC

from hwd.twin.kernel import Crossbar, Keeper
from hwd_agents.sources.kernel.ethtool import Ethtool
from hwd_agents.sources.kernel.netlink_requests import NetlinkRequests
from hwd_agents.sources.kernel.sockets import HostSockets
from hwd_agents.sources.modules.kernel_modules import STATIC_EVERY_NS, SUSPECT_EVERY_NS, UNWATCHED_NS, KernelModules
from hwd_agents.sources.modules.module_kinds import parse_module
from hwd_agents.sources.modules.module_memory import Los, ModuleMemory, Span
from hwd_agents.sources.modules.sff8636 import build_memory
from hwd_drivers.core.clock import Clock, ShiftedClock, SystemClock
from hwd_drivers.core.errors import LinkError, ProtocolError, RefusedError
from hwd_drivers.core.offload import ThreadOffload

from ..played_ethtool import PlayedEthtool, PlayedModule, pages_of
from .modules import Pages, cmis_pages, qsfp_lower, qsfp_page_00h, qsfp_page_03h, sfp_a0h, sfp_a2h


@pytest.fixture
def ethtool() -> Iterator[PlayedEthtool]:
    with PlayedEthtool().playing() as played:
        yield played


@pytest.fixture
def i2c() -> Iterator[ThreadOffload]:
    offload = ThreadOffload(1)
    yield offload
    offload.close()


def qsfp(*, serial: str = "X1", los: tuple[bool, ...] = (False,) * 4) -> PlayedModule:
    """A QSFP28 whose flags are cleared by a read of their byte."""
    memory = build_memory(
        vendor="ACME",
        part="QSFP28-LR4",
        serial=serial,
        rx_power_dbm=(-2.0,) * 4,
        tx_power_dbm=(1.0,) * 4,
        bias_ma=(40.0,) * 4,
        rx_los=los,
    )
    module = PlayedModule(pages=pages_of(memory))

    def clear(address: int, page: int, offset: int, length: int) -> None:
        if offset <= 3 < offset + length:
            module.pages[0x50, 0][3] = 0

    module.on_read = clear
    return module


async def read(modules: KernelModules, interface: str = "eth0") -> ModuleMemory:
    return parse_module((await modules.read_module(interface)).memory)


async def test_a_flag_set_before_the_first_read_is_in_that_read_and_cleared_by_it(
    ethtool: PlayedEthtool, i2c: ThreadOffload, clock: SystemClock
) -> None:
    ethtool.modules["eth0"] = qsfp(los=(True, False, False, False))
    modules = KernelModules(ethtool, clock, i2c)
    first, second = await read(modules), await read(modules)
    assert (first.rx_los, second.rx_los) == ((True, False, False, False), (False,) * 4)
    assert (first.bias_ma, first.serial) == ((40.0,) * 4, "X1")


async def test_static_memory_is_read_once_and_monitors_each_time(
    ethtool: PlayedEthtool, i2c: ThreadOffload, clock: SystemClock
) -> None:
    ethtool.modules["eth0"] = qsfp()
    modules = KernelModules(ethtool, clock, i2c)
    for _ in range(5):
        reading = await modules.read_module("eth0")
        assert reading.before_ns < reading.after_ns
    assert [asked.page for asked in ethtool.asked if asked.offset >= 128] == [0x00, 0x03]
    assert [(asked.offset, asked.length) for asked in ethtool.asked[-3:]] == [(0, 58)] * 3


async def test_modules_of_several_ports_are_read_at_the_same_time(ethtool: PlayedEthtool, clock: SystemClock) -> None:
    """Each read waits until all other modules are also being read: with one thread fewer none of them would end."""
    names = [f"eth{number}" for number in range(4)]
    meeting, ethtool.at_once = threading.Barrier(len(names), timeout=5.0), True
    for name in names:
        ethtool.modules[name] = PlayedModule(pages=qsfp(serial=name).pages, on_read=lambda *_: _wait(meeting))
    i2c = ThreadOffload(len(names))
    try:
        modules = KernelModules(ethtool, clock, i2c)
        found = await asyncio.gather(*(read(modules, name) for name in names))
    finally:
        i2c.close()
    assert [module.serial for module in found] == names


def _wait(meeting: threading.Barrier) -> None:
    meeting.wait()


async def test_another_module_is_read_anew_after_a_failed_read_and_where_nobody_looked_for_a_while(
    ethtool: PlayedEthtool, i2c: ThreadOffload, clock: SystemClock
) -> None:
    moved = ShiftedClock(clock, offset_s=0, drift_ppm=0)
    modules = KernelModules(ethtool, moved, i2c)
    ethtool.modules["eth0"] = qsfp(serial="A")
    assert (await read(modules)).serial == "A"
    del ethtool.modules["eth0"]
    with pytest.raises(LinkError, match=r"eth0: cannot read bytes 0-57 of A0h, page 00h .* Is a module plugged in"):
        await modules.read_module("eth0")
    ethtool.modules["eth0"] = qsfp(serial="B")
    assert (await read(modules)).serial == "B"
    ethtool.modules["eth0"] = qsfp(serial="C")
    moved.step_to(UNWATCHED_NS / 1e9)
    assert (await read(modules)).serial == "C"
    ethtool.modules["eth0"] = qsfp(serial="D")
    found = await read(modules)
    for second in range(
        3, 3 + STATIC_EVERY_NS // 10**9
    ):  # read all the time, by a driver that shows a copy while it is changed
        moved.step_to(float(second))
        found = await read(modules)
    assert found.serial == "D"


async def test_what_made_no_sense_is_read_anew_soon_and_not_at_each_look(
    ethtool: PlayedEthtool, i2c: ThreadOffload, clock: SystemClock
) -> None:
    """As of a module that was read while it was being plugged in."""
    moved = ShiftedClock(clock, offset_s=0, drift_ppm=0)
    ethtool.modules["eth0"] = qsfp()
    ethtool.modules["eth0"].pages[0x50, 0][150] ^= 0xFF
    modules = KernelModules(ethtool, moved, i2c)
    for _ in range(3):
        with pytest.raises(ProtocolError, match="checksum at byte 191"):
            await read(modules)
    assert [asked.page for asked in ethtool.asked if asked.offset >= 128] == [0x00, 0x03]
    ethtool.modules["eth0"] = qsfp()
    moved.step_to(SUSPECT_EVERY_NS / 1e9)
    assert (await read(modules)).serial == "X1"
    moved.step_to(3 * SUSPECT_EVERY_NS / 1e9)
    await read(modules)
    assert sum(asked.offset >= 128 and asked.page == 0 for asked in ethtool.asked) == 2


async def test_a_module_of_another_kind_is_told_and_then_read(
    ethtool: PlayedEthtool, i2c: ThreadOffload, clock: SystemClock
) -> None:
    modules = KernelModules(ethtool, clock, i2c)
    ethtool.modules["eth0"] = qsfp()
    await read(modules)
    pages = cmis_pages()
    ethtool.modules["eth0"] = PlayedModule(
        pages={
            (0x50, page): (pages[-1] if page == 0 else bytearray(128)) + pages[page]
            for page in (0x00, 0x01, 0x02, 0x11)
        }
    )
    with pytest.raises(LinkError, match="another module was plugged in"):
        await modules.read_module("eth0")
    module = await read(modules)
    assert (module.standard, module.part, module.rx_los[2], module.bias_ma) == (
        "CMIS",
        "QDD-400G-FR4",
        True,
        (60.0,) * 8,
    )


async def test_an_sfp_is_read_at_both_addresses_and_a_copper_one_at_the_first_only(
    ethtool: PlayedEthtool, i2c: ThreadOffload, clock: SystemClock
) -> None:
    modules = KernelModules(ethtool, clock, i2c)
    ethtool.modules["eth0"] = PlayedModule(pages={(0x50, 0): sfp_a0h(), (0x51, 0): sfp_a2h(status=0x02)})
    module = await read(modules)
    assert (module.part, module.los, module.rx_los, module.temperature_c) == ("SFP28-LR-10", Los.STATE, (True,), 34.5)
    ethtool.modules["eth1"] = PlayedModule(pages={(0x50, 0): sfp_a0h(diagnostics=0, cable=0x04)})
    assert (await read(modules, "eth1")).copper
    assert {asked.address for asked in ethtool.asked if asked.interface == "eth1"} == {0x50}


def qsfp_dd(pages: Pages, *more: bytearray) -> PlayedModule:
    """A CMIS module, its page 11h in as many banks more as are given."""
    lower = {page: (pages[-1] if page == 0 else bytearray(128)) for page in pages}
    return PlayedModule(
        pages={(0x50, page): lower[page] + pages[page] for page in pages if page >= 0},
        banked={(0x11, bank): bytearray(128) + page for bank, page in enumerate(more, 1)},
    )


async def test_a_module_of_sixteen_lanes_is_read_in_both_its_banks_and_its_thresholds_once(
    ethtool: PlayedEthtool, i2c: ThreadOffload, clock: SystemClock
) -> None:
    ethtool.modules["eth0"] = qsfp_dd(cmis_pages(pages=0x01), cmis_pages(los=0b1000_0000)[0x11])
    modules = KernelModules(ethtool, clock, i2c)
    module = [await read(modules) for _ in range(3)][-1]
    assert [lane for lane, lost in enumerate(module.rx_los, 1) if lost] == [3, 16]
    assert module.thresholds is not None
    assert module.thresholds.rx_power_dbm.low_alarm == pytest.approx(-10.0)
    assert [(asked.page, asked.bank) for asked in ethtool.asked if asked.page == 0x11] == [(0x11, 0), (0x11, 1)] * 3
    assert sum(asked.page == 0x02 for asked in ethtool.asked) == 1


async def test_a_module_that_gives_no_page_02h_is_read_without_thresholds(
    ethtool: PlayedEthtool, i2c: ThreadOffload, clock: SystemClock
) -> None:
    pages = cmis_pages()
    del pages[0x02]
    ethtool.modules["eth0"] = qsfp_dd(pages)
    module = await read(KernelModules(ethtool, clock, i2c))
    assert (module.thresholds, module.rx_los[2], module.part) == (None, True, "QDD-400G-FR4")


async def test_thresholds_of_a_qsfp28_are_read_once_and_not_looked_for_where_its_memory_is_flat(
    ethtool: PlayedEthtool, i2c: ThreadOffload, clock: SystemClock
) -> None:
    pages = {
        (0x50, 0): qsfp_lower() + qsfp_page_00h(),
        (0x50, 3): bytearray(128) + qsfp_page_03h(),
    }
    ethtool.modules["eth0"] = PlayedModule(pages=pages)
    ethtool.modules["eth1"] = PlayedModule(pages={(0x50, 0): qsfp_lower(status=0x06) + qsfp_page_00h()})
    modules = KernelModules(ethtool, clock, i2c)
    module = [await read(modules) for _ in range(3)][-1]
    assert module.thresholds is not None
    assert module.thresholds.rx_power_dbm.low_alarm == pytest.approx(-10.0)
    assert (await read(modules, "eth1")).thresholds is None
    assert [(asked.interface, asked.length) for asked in ethtool.asked if asked.page == 0x03] == [("eth0", 72)]


async def test_a_flat_cmis_cable_is_read_without_the_pages_that_it_does_not_have(
    ethtool: PlayedEthtool, i2c: ThreadOffload, clock: SystemClock
) -> None:
    pages = cmis_pages(flat=True, technology=0x0A)
    ethtool.modules["eth0"] = PlayedModule(pages={(0x50, 0): pages[-1] + pages[0]})
    assert (await read(KernelModules(ethtool, clock, i2c))).copper


@pytest.mark.parametrize(
    ("number", "error", "words"),
    [
        (
            errno.EOPNOTSUPP,
            RefusedError,
            "eth0: cannot read bytes 0-2 of A0h, page 00h of the module: the NIC says not",
        ),
        (errno.EPERM, RefusedError, "requires CAP_NET_ADMIN.*AmbientCapabilities=CAP_NET_ADMIN"),
        (errno.ENODEV, LinkError, "no such interface"),
        (errno.ETIMEDOUT, LinkError, "Connection timed out. Is a module plugged in"),
    ],
)
async def test_what_refuses_is_said_with_its_remedy(
    ethtool: PlayedEthtool,
    i2c: ThreadOffload,
    clock: SystemClock,
    number: int,
    error: type[Exception],
    words: str,
) -> None:
    ethtool.refusals["eth0"] = number
    with pytest.raises(error, match=words):
        await KernelModules(ethtool, clock, i2c).read_module("eth0")


async def test_a_kernel_without_ethtool_netlink_is_said_with_the_version_that_has_it(
    ethtool: PlayedEthtool, i2c: ThreadOffload, clock: SystemClock
) -> None:
    ethtool.without_family = True
    with pytest.raises(RefusedError, match=r"this kernel has no ethtool netlink \(Linux 5\.6 or later has it\)"):
        await KernelModules(ethtool, clock, i2c).read_module("eth0")


async def test_a_module_of_no_known_standard_is_named_by_its_identifier(
    ethtool: PlayedEthtool, i2c: ThreadOffload, clock: SystemClock
) -> None:
    ethtool.modules["eth0"] = PlayedModule(pages=pages_of(bytes([0x06]) + bytes(255)))
    with pytest.raises(ProtocolError, match=r"identifier 0x06 at byte 0 is no module .*0x11 QSFP28"):
        await KernelModules(ethtool, clock, i2c).read_module("eth0")


@pytest.mark.kernel
async def test_the_kernel_takes_the_question_and_says_that_a_veth_has_no_module(
    keeper: Keeper, crossbar: Crossbar, i2c: ThreadOffload, clock: Clock
) -> None:
    crossbar.plug("p0", host="h0", interface="eth0")
    modules = KernelModules(keeper.sockets("h0"), clock, i2c)
    with pytest.raises(RefusedError, match=r"eth0: cannot read bytes 0-2 .*: the NIC says not supported"):
        await modules.read_module("eth0")
    with pytest.raises(LinkError, match=r"eth7: cannot read .*: no such interface"):
        await modules.read_module("eth7")


@pytest.mark.kernel
def test_the_kernel_itself_refuses_reads_over_the_end_of_a_page(keeper: Keeper, crossbar: Crossbar) -> None:
    """So the played family's own checks are those of the kernel: they come before the driver is asked."""
    crossbar.plug("p0", host="h0", interface="eth0")
    with NetlinkRequests(keeper.sockets("h0"), NETLINK_GENERIC) as kernel:
        for span in (Span(offset=100, length=60, place=0), Span(offset=0, length=16, place=0, page=1)):
            with pytest.raises(LinkError, match="Invalid argument"):
                Ethtool(kernel).module("eth0", span)


@pytest.mark.kernel
async def test_loopback_has_no_module(i2c: ThreadOffload, clock: Clock) -> None:
    with pytest.raises(RefusedError, match="lo: cannot read"):
        await KernelModules(HostSockets(), clock, i2c).read_module("lo")
