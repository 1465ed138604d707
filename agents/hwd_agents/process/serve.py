"""serve: runs the agent of this host as a process: its files, sources, event loop and stop."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from hwd_agents.bus.mqtt import BrokerUrl, MqttBus
from hwd_agents.clock.clock_port import ClockPort
from hwd_agents.process.agent import Agent
from hwd_agents.process.config import AgentConfig, broker_url, load_config
from hwd_agents.process.priority import ask_for_real_time
from hwd_agents.process.seams import Seams, Storage
from hwd_agents.process.systemd import Notifier
from hwd_agents.process.version import own_version
from hwd_agents.sources.kernel.broker_route import BrokerWay
from hwd_agents.sources.kernel.interface_drivers import KernelDrivers
from hwd_agents.sources.kernel.ip_counters import KernelIpCounters
from hwd_agents.sources.kernel.kernel_settings import KernelSettings
from hwd_agents.sources.kernel.mlxlink import ToolPhys, find_tool
from hwd_agents.sources.kernel.nic_link_details import KernelLinkDetails
from hwd_agents.sources.kernel.port_counters import SNMP, KernelBytes, KernelCounters
from hwd_agents.sources.kernel.rtnetlink import RtnetlinkLinks
from hwd_agents.sources.kernel.sockets import HostSockets, NamespaceSockets
from hwd_agents.sources.kernel.sysfs import SysfsFiles
from hwd_agents.sources.kernel.timed_selector import TimedSelector
from hwd_agents.sources.kernel.udp import InterfaceDatagrams
from hwd_agents.sources.kernel.wall_clock import Chrony, PtpForLinux
from hwd_agents.sources.modules.kernel_modules import KernelModules
from hwd_agents.sources.setting_source import SETTINGS_OF_FIRMWARE, SettingsBySource
from hwd_agents.sources.sources import Sources
from hwd_agents.sources.verbs.verbs_port import RdmaDevices
from hwd_agents.spool.disk_trouble import next_step
from hwd_agents.wire import SourceNote, client_id
from hwd_drivers.core.clock import BOOT_ID, Clock, ShiftedClock, SystemClock
from hwd_drivers.core.disk import FileDisk
from hwd_drivers.core.errors import ConfigError, HwdError, LinkError, RefusedError
from hwd_drivers.core.file_lock import take_lock
from hwd_drivers.core.ids import Draws, RandomIds
from hwd_drivers.core.offload import Offload, ThreadOffload
from hwd_drivers.core.printable import LineFormatter
from hwd_drivers.core.private_files import FILE_MODE, FOLDER_MODE, make_private
from hwd_drivers.transports.dial import TcpDialer

SPOOL_FILES: Final = ("lock", "events*", "settings*")
"""The files in the folder of the spool."""


def serve(config: Path, log: str = "info") -> int:
    """Run the agent until SIGTERM, SIGINT or SIGHUP. Returns the exit status; an error at the start goes to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=log.upper(), handlers=[handler])
    try:
        loaded = load_config(config)
        with spool_folder(loaded) as folder:
            if loaded.realtime:
                ask_for_real_time()
            selector = TimedSelector(SystemClock())
            with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
                runner.run(_live(loaded, folder, selector))
    except HwdError as error:
        sys.stderr.write(f"hwd-agent: {error.title}: {error}\n")
        return error.exit_status
    return 0


async def _live(config: AgentConfig, folder: Path, selector: TimedSelector) -> None:
    """Run the agent until SIGTERM, SIGINT or SIGHUP, then stop it in order."""
    system = SystemClock()
    shift = config.clock
    clock: Clock = system
    clock_name = system.name
    if shift is not None:  # it counts from the machine's boot: a host's clock does not restart with its agent
        clock = ShiftedClock(system, offset_s=shift.offset_s, drift_ppm=shift.drift_ppm, start_ns=0)
        clock_name = f"{clock_name} {shift.offset_s:+} s {shift.drift_ppm:+} ppm"
    draws = Draws(None)
    notifier = Notifier(os.environ, pid=os.getpid())
    offload, i2c, disk_thread = ThreadOffload(1), ThreadOffload(len(config.ports)), ThreadOffload(1)
    agent = Agent(
        config,
        Seams(clock=clock, clock_name=clock_name, ids=RandomIds(), draws=draws),
        Storage(events=_open_disk(folder / "events"), settings=_open_disk(folder / "settings"), offload=disk_thread),
        open_sources(config, clock, offload, i2c, selector=selector),
        bus=lambda will: MqttBus(
            lambda: broker_url(config), client_id(config.testbed, config.host), clock, draws, will
        ),
        clock_port=clock_port(config, clock),
        on_started=lambda: notifier.ready(f"{config.host} of testbed {config.testbed}"),
    )
    beating = asyncio.create_task(notifier.keep_alive(), name=f"hwd:{config.host}/watchdog")
    life = asyncio.create_task(agent.run(), name=f"hwd:{config.host}/agent")
    loop = asyncio.get_running_loop()

    def stop() -> None:
        notifier.stopping()
        life.cancel()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            loop.add_signal_handler(number, stop)
    logging.getLogger(__name__).info("hwd-agent %s for %s, boot %s", own_version(), config.host, agent.boot)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await life
    finally:
        beating.cancel()
        offload.close()
        i2c.close()
        disk_thread.close()


def clock_port(config: AgentConfig, clock: Clock) -> Callable[[str], ClockPort] | None:
    """Makes the clock port from the key of a boot; None when the configuration wants none."""
    number = config.clock_port
    if number is None:
        return None

    def broker() -> tuple[str, int] | None:
        url = BrokerUrl.parse(broker_url(config))
        return None if url.transport == "unix" else (url.host, url.port)

    return lambda key: ClockPort(clock, key=key, broker=broker, number=number)


async def broker_addresses(config: AgentConfig) -> Sequence[str]:
    """All addresses, since any may be in use; none for a Unix socket.

    Raises LinkError when the name cannot be resolved, HwdError when there is no URL.
    """
    url = BrokerUrl.parse(broker_url(config))
    if url.transport == "unix":
        return ()
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LinkError(
            f"{url.host}: cannot find the address of the broker, so its route is not known: {error.strerror}. "
            "Write its address into the agent's file"
        ) from error
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def open_sources(
    config: AgentConfig, clock: Clock, offload: Offload, i2c: Offload, *, selector: TimedSelector | None = None
) -> Sources:
    """The sources that the configuration names. Nothing is opened before the agent runs. `i2c` reads modules, which
    takes milliseconds each: with a thread for each port no module waits for another, except in its driver or the
    kernel. `selector` is that of the event loop, as in `RtnetlinkLinks`.
    """
    kernel, twin = config.sources.kernel, config.sources.twin
    is_machine = kernel is not None and kernel.keeper is None
    twins = None
    if twin is not None:
        from hwd_agents.sources.twin.twin_sources import TwinSources  # 0.3 MB that a real host does not need

        twins = TwinSources(TcpDialer(), twin.address, clock, host=config.host, same_clock=not is_machine)
    if kernel is None:
        if twins is None:
            raise ConfigError("sources: name kernel, twin or both")
        return twins.sources()
    sockets: HostSockets | NamespaceSockets = HostSockets()
    if kernel.keeper is not None and kernel.namespace is not None:
        sockets = NamespaceSockets(kernel.keeper, kernel.namespace)
    link_note = SourceNote(sees=["carrier", "interface"], origin=config.origin)
    datagrams_note = SourceNote(sees=["ready"], origin=config.origin)
    links, datagrams = RtnetlinkLinks(sockets, clock, selector=selector), InterfaceDatagrams(sockets, clock)
    settings, drivers = KernelSettings(sockets, offload), KernelDrivers(sockets, offload)
    if twins is not None and not is_machine:
        return twins.sources(
            link=(links, link_note),
            datagrams=(datagrams, datagrams_note),
            settings=SettingsBySource(twins.settings, SETTINGS_OF_FIRMWARE, settings),
            drivers=drivers,
            bytes=KernelBytes(sockets),
            ip_counters=KernelIpCounters(sockets),
        )
    life = BOOT_ID.read_text().strip()
    interfaces = [port.interface for port in config.ports.values()]
    real = Sources(
        link=links,
        link_note=lambda: link_note,
        datagrams=datagrams,
        datagrams_note=lambda: datagrams_note,
        life=lambda: life,
        files=SysfsFiles(clock, root=Path(kernel.sysfs), origin=config.origin),
        verbs=RdmaDevices(clock, sysfs=Path(kernel.sysfs)) if kernel.keeper is None else None,
        settings=settings,
        way=BrokerWay(sockets, offload, lambda: broker_addresses(config)) if kernel.keeper is None else None,
        drivers=drivers,
        bytes=KernelBytes(sockets),
        ip_counters=KernelIpCounters(sockets),
        counters=KernelCounters(sockets, offload, snmp=SNMP if kernel.keeper is None else None),
        details=KernelLinkDetails(sockets, offload),
        phy=ToolPhys(interfaces, drivers, clock, config.sampling, tool=find_tool(), origin=config.origin),
        walls=(Chrony(), PtpForLinux()),
        modules=KernelModules(sockets, clock, i2c, origin=config.origin),
        late_ns=links.late_ns,
    )
    if twins is None:
        return real
    settings_of_both = SettingsBySource(twins.settings, SETTINGS_OF_FIRMWARE, settings)
    return replace(real, modules=twins.modules, phy=twins.phys, settings=settings_of_both, background=twins.run)


def _open_disk(path: Path) -> FileDisk:
    """Raises ConfigError."""
    try:
        return FileDisk(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot open it: {error.strerror}. {next_step(error)}") from error


@contextlib.contextmanager
def spool_folder(config: AgentConfig) -> Iterator[Path]:
    """The folder of the spool, locked for this process. Raises ConfigError, or RefusedError with the holder's pid."""
    folder = Path(config.spool.directory)
    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        make_private(folder, SPOOL_FILES)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise ConfigError(
            f"spool.directory: {error.filename or folder}: cannot use it: {error.strerror}. {next_step(error)}"
        ) from error
    try:
        try:
            take_lock(lock, folder / "lock", remedy="Set spool.directory to a folder on a local disk")
        except BlockingIOError as error:
            holder = os.read(lock, 32).decode(errors="replace").strip()
            raise RefusedError(
                f"{folder}: the agent with pid {holder} holds this spool. Stop it, or use another directory"
            ) from error
        try:
            os.ftruncate(lock, 0)
            os.write(lock, f"{os.getpid()}\n".encode())
        except OSError as error:  # such as a full disk: the lock is held all the same
            logging.getLogger(__name__).warning("%s: cannot write our pid: %s", folder / "lock", error.strerror)
        yield folder
    finally:
        os.close(lock)
