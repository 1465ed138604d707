"""Modules read by ethtool netlink: of simulated NICs over a real netlink socket, and of real interfaces without one."""

import asyncio
import errno
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyroute2.netlink import NETLINK_GENERIC

from hwd.twin.kernel import Crossbar, Keeper
from hwd_agents.sources.kernel.ethtool import Ethtool
from hwd_agents.sources.kernel.netlink_requests import NetlinkRequests
from hwd_agents.sources.modules.kernel_modules import STATIC_EVERY_NS, SUSPECT_EVERY_NS, UNWATCHED_NS, KernelModules
from hwd_agents.sources.modules.module_kinds import parse_module
from hwd_agents.sources.modules.module_memory import ModuleMemory, Span
from hwd_agents.sources.modules.sff8636 import build_memory
from hwd_drivers.core.clock import Clock, ShiftedClock, SystemClock
from hwd_drivers.core.errors import HwdError, LinkError, ProtocolError, RefusedError
from hwd_drivers.core.offload import ThreadOffload

from ....answers import check_answers
from ..played_ethtool import PlayedEthtool, PlayedModule, pages_of
from .modules import Pages, cmis_pages, qsfp_lower, qsfp_page_00h, qsfp_page_03h, sfp_a0h, sfp_a2h


@pytest.fixture
def moved(clock: SystemClock) -> ShiftedClock:
    return ShiftedClock(clock, offset_s=0, drift_ppm=0)


@pytest.fixture
def modules(ethtool: PlayedEthtool, thread: ThreadOffload, moved: ShiftedClock) -> KernelModules:
    return KernelModules(ethtool, moved, thread)


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
    reading = await modules.read_module(interface)
    assert reading.before_ns < reading.after_ns
    return parse_module(reading.memory)


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
    ethtool: PlayedEthtool, modules: KernelModules, moved: ShiftedClock
) -> None:
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
    for second in range(3, 3 + STATIC_EVERY_NS // 10**9):  # all the time, by a driver that shows a copy meanwhile
        moved.step_to(float(second))
        found = await read(modules)
    assert found.serial == "D"


async def test_what_made_no_sense_is_read_anew_soon_and_not_at_each_look(
    ethtool: PlayedEthtool, modules: KernelModules, moved: ShiftedClock
) -> None:
    """As of a module that was read while it was being plugged in."""
    ethtool.modules["eth0"] = qsfp()
    ethtool.modules["eth0"].pages[0x50, 0][150] ^= 0xFF
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


def qsfp_dd(pages: Pages, *more: bytearray) -> PlayedModule:
    """A CMIS module, its page 11h in as many banks more as are given."""
    lower = {page: (pages[-1] if page == 0 else bytearray(128)) for page in pages}
    return PlayedModule(
        pages={(0x50, page): lower[page] + pages[page] for page in pages if page >= 0},
        banked={(0x11, bank): bytearray(128) + page for bank, page in enumerate(more, 1)},
    )


async def test_a_module_of_another_kind_is_told_and_then_read(ethtool: PlayedEthtool, modules: KernelModules) -> None:
    ethtool.modules["eth0"] = qsfp()
    await read(modules)
    ethtool.modules["eth0"] = qsfp_dd(cmis_pages())
    with pytest.raises(LinkError, match="another module was plugged in"):
        await modules.read_module("eth0")
    module = await read(modules)
    assert (module.standard, module.part) == ("CMIS", "QDD-400G-FR4")
    assert (module.rx_los[2], module.bias_ma) == (True, (60.0,) * 8)


def without(pages: Pages, page: int) -> Pages:
    return {number: each for number, each in pages.items() if number != page}


QSFP = {(0x50, 0): qsfp_lower() + qsfp_page_00h(), (0x50, 3): bytearray(128) + qsfp_page_03h()}
CABLE = cmis_pages(flat=True, technology=0x0A)
KINDS: dict[str, Callable[[], PlayedModule]] = {
    "SFP": lambda: PlayedModule(pages={(0x50, 0): sfp_a0h(), (0x51, 0): sfp_a2h(status=0x02)}),
    "copper SFP": lambda: PlayedModule(pages={(0x50, 0): sfp_a0h(diagnostics=0, cable=0x04)}),
    "QSFP28": lambda: PlayedModule(pages=QSFP),
    "flat QSFP28": lambda: PlayedModule(pages={(0x50, 0): qsfp_lower(status=0x06) + qsfp_page_00h()}),
    "QSFP-DD": lambda: qsfp_dd(cmis_pages()),
    "QSFP-DD of sixteen lanes": lambda: qsfp_dd(cmis_pages(pages=0x01), cmis_pages(los=0b1000_0000)[0x11]),
    "QSFP-DD without page 02h": lambda: qsfp_dd(without(cmis_pages(), 0x02)),
    "flat QSFP-DD, a cable": lambda: PlayedModule(pages={(0x50, 0): CABLE[-1] + CABLE[0]}),
    "no known standard": lambda: PlayedModule(pages=pages_of(bytes([0x06]) + bytes(255))),
}
REFUSALS = {name: getattr(errno, name) for name in ("EOPNOTSUPP", "EPERM", "ENODEV", "ETIMEDOUT")}


async def reads(ethtool: PlayedEthtool, modules: KernelModules, name: str) -> list[str]:
    """What three readings of a kind of module found, and what they asked for how often."""
    ethtool.modules[name] = KINDS[name]()
    try:
        module = [await read(modules, name) for _ in range(3)][-1]
    except HwdError as error:
        return [str(error)]
    lost = [lane for lane, is_lost in enumerate(module.rx_los, 1) if is_lost]
    warns = module.thresholds and module.thresholds.rx_power_dbm.low_alarm
    asked = Counter(
        Span(offset=one.offset, length=one.length, place=0, page=one.page, bank=one.bank, address=one.address)
        for one in ethtool.asked
        if one.interface == name
    )
    return [
        f"{module}, {'copper' if module.copper else f'lost {lost}, low alarm {warns}'}",
        *(f"{count} x {span}" for span, count in asked.items()),
    ]


async def test_what_is_asked_of_each_kind_of_module_and_found_there_and_what_refuses_is_said_with_its_remedy(
    ethtool: PlayedEthtool, modules: KernelModules
) -> None:
    found = {name: await reads(ethtool, modules, name) for name in KINDS}
    for name, ethtool.refusals["eth0"] in REFUSALS.items():
        with pytest.raises(HwdError) as caught:
            await modules.read_module("eth0")
        found[name] = [f"{type(caught.value).__name__}: {caught.value}"]
    ethtool.without_family = True
    with pytest.raises(RefusedError) as refused:
        await modules.read_module("eth0")
    found["no ethtool netlink"] = [str(refused.value)]
    check_answers(Path(__file__).with_name("kernel_modules.txt"), {"modules": found.__getitem__})


@pytest.mark.kernel
async def test_the_kernel_takes_the_question_and_says_that_a_veth_has_no_module(
    keeper: Keeper, crossbar: Crossbar, thread: ThreadOffload, clock: Clock
) -> None:
    crossbar.plug("p0", host="h0", interface="eth0")
    modules = KernelModules(keeper.sockets("h0"), clock, thread)
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
