"""`hwd serve` runs the daemon as a process, from its command line to an orderly end."""

import asyncio
import contextlib
import gc
import logging
import os
import shlex
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version as version_of
from pathlib import Path

from hwd.bus.broker import EmbeddedBroker, Logins, UserRights
from hwd.config.planes.process import PlaneProcess
from hwd.config.run_files.announcement import Announcement
from hwd.config.run_files.places import DaemonPlace, RackPlace, data_dir, records_path, run_dir
from hwd.config.yaml.tree import FILE_BYTES_MAX, read_tree
from hwd.daemon.broker_choice import EMBEDDED, chosen_broker
from hwd.daemon.commit import find_commit
from hwd.daemon.daemon import Daemon
from hwd.daemon.datadir import DataDirectory
from hwd.daemon.installed_drivers import load
from hwd.daemon.launch import RackFinder, RackProcess, has_twins
from hwd.daemon.limits import Limits
from hwd.daemon.reload import READ_S, TestbedFile
from hwd.daemon.seams import Machine, Process, RackAccess, Storage
from hwd.daemon.service_manager import ServiceManager
from hwd.daemon.switch_opener import opener
from hwd.daemon.token import Token
from hwd.daemon.watchdog import Watchdog
from hwd.model.fault import Fault
from hwd.model.job import JobRecord
from hwd.model.plural import plural
from hwd.model.testbed import Testbed
from hwd.playbook.twin_faults import NoRackError
from hwd.records.records import Records
from hwd.records.records_file import file_url
from hwd.records.reserve import Reserve
from hwd.rollout.processes.host_processes import STARTS_AT_ONCE, HostProcesses
from hwd.twin.control import ask
from hwd.twin.rack_sockets import check_sockets
from hwd.web.app import make_app
from hwd.web.door import check_listen, read_tokens
from hwd.web.server import HttpServer, listen
from hwd_agents.bus.mqtt import BrokerUrl, MqttBus
from hwd_agents.process.systemd import Notifier
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import Disk, FileDisk
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Draws, RandomIds
from hwd_drivers.core.offload import DetachedOffload, ThreadOffload
from hwd_drivers.core.user_file import read_user_file
from hwd_drivers.transports.dial import TcpDialer

HTTP_PORT = 8642
"""The default port, where it is free: bookmarks and Prometheus find a restarted daemon."""
THREADS = 4
"""The number of threads: a thread to write records, since SQLite has one writer; another to read them; another to load
playbooks; the last to search paths.
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Options of the command line.

    `http` None: 127.0.0.1 with port 8642 or a free one. `mqtt`: `embedded`, `embedded:HOST:PORT` or a URL; None: from
    the environment.
    """

    testbed: Path
    data: Path | None = None
    http: str | None = None
    mqtt: str | None = None
    twin: bool = True


async def serve(
    options: ServeOptions,
    environment: Mapping[str, str] = os.environ,
    *,
    open_disk: Callable[[Path], Disk] = FileDisk,
) -> None:
    """Run the daemon until cancelled. `open_disk` opens the journal.

    Raises ConfigError with all problems of the testbed file, RefusedError where another daemon has the testbed or its
    data.
    """
    reading = read_tree(options.testbed)
    with contextlib.closing(ThreadOffload(1)) as once:  # planes of other packages are asked what they take
        loaded = await once(load, reading)
    testbed = loaded.require()
    for problem in loaded.problems:
        log.warning("%s", problem)
    notifier = Notifier(environment, pid=os.getpid())
    set_tokens = read_tokens(environment)
    broker = chosen_broker(options.mqtt, environment)
    directory = options.data or data_dir(testbed.name, environment)
    folder = run_dir(testbed.name, environment)
    if options.twin and has_twins(testbed):
        check_sockets(testbed, folder)
    async with contextlib.AsyncExitStack() as stack:
        announcement = stack.enter_context(Announcement(folder / "daemon.json"))
        data = stack.enter_context(DataDirectory(directory))
        sock = stack.enter_context(_listen(options.http, set_tokens))
        ids, clock, draws = RandomIds(), SystemClock(), Draws(None)
        limits = Limits(clock)
        token = None if set_tokens else Token.load(data.path, ids, group=testbed.access_group)
        logins = Logins.from_folder(UserRights.of(testbed), data.path, ids)
        embedded = _embedded(broker, logins, limits)
        if embedded is not None:
            broker = await embedded.start()
            stack.push_async_callback(embedded.close)
        mqtt_url = logins.for_daemon(broker)
        agents = {host: logins.for_host(host, broker) for host in testbed.hosts}
        offload, spawning = ThreadOffload(THREADS), ThreadOffload(STARTS_AT_ONCE)
        stack.callback(offload.close)
        stack.callback(spawning.close)
        version = version_of("hwd-daemon")

        testbed_file = shlex.quote(str(options.testbed.absolute()))  # for commands that a message names
        started: list[RackProcess] = []

        find_rack = RackFinder(testbed.name, environment)

        def rack_starting() -> int | None:
            """The pid of a rack that this daemon started and that is not up yet."""
            up = find_rack() is not None
            return next((process.pid for process in started if not process.ended and not up), None)

        def twin_address(name: str) -> str | None:
            rack = find_rack()
            return None if rack is None else rack.addresses.get(name)

        async def set_fault(fault: Fault) -> None:
            rack = find_rack()
            if rack is None:
                if (pid := rack_starting()) is not None:
                    raise NoRackError(f"fault: {fault}: the twin rack is starting (pid {pid}). Try again when it is up")
                raise NoRackError(
                    f"fault: {fault}: the twin rack is not up. Start it with `hwd twin up {testbed_file}`"
                )
            await offload(ask, Path(rack.control), fault)

        journal = open_disk(data.path / "journal")
        stack.callback(journal.close)
        job_events = FileDisk(data.path / "job-events")
        stack.callback(job_events.close)
        daemon = Daemon(
            testbed=testbed,
            testbed_text=reading.text,
            machine=Machine(
                clock=clock, clock_name=clock.name, ids=ids, draws=draws, offload=offload, plane=_plane_process
            ),
            storage=Storage(
                records=Records(file_url(records_path(data.path)), offload, reserve=Reserve(data.path / "reserve")),
                journal=journal,
                job_events=job_events,
                space=data.space,
            ),
            rack=RackAccess(
                bus=MqttBus(mqtt_url, f"hwd-{testbed.name}-{ids.token(length=6)}", clock, draws),
                open_switch=opener(
                    dialer=TcpDialer(),
                    clock=clock,
                    twin_address=twin_address,
                    environment=environment,
                    rack_starting=rack_starting,
                    testbed_file=testbed_file,
                ),
                set_fault=set_fault,
                processes=HostProcesses(find_rack, clock, spawning),
            ),
            process=Process(
                version=version,
                data_dir=str(data.path.absolute()),
                pid=os.getpid(),
                commit=await offload(find_commit),
                boot=ids.token(length=8),
            ),
            limits=limits,
            on_turn=Watchdog(notifier).feed,
            testbed_file=TestbedFile(
                name=str(options.testbed),
                read=partial(_read, options.testbed),
                load=load,
                offload=DetachedOffload(READ_S),
            ),
        )
        if embedded is not None:
            embedded.refusals.on_note(daemon.refused_client)
        await daemon.open()
        gc.collect()
        gc.freeze()  # these objects are never freed: each collection would spend 40 ms of the loop on them
        app = make_app(
            daemon.service,
            version=version,
            tokens=frozenset(set_tokens if token is None else {token.text}),
            names={token: name for token, name in set_tokens.items() if name},
            session=ids.token(length=32),
            local=token is not None,
            reached=limits,
        )
        server = HttpServer(app, sock, before_stop=daemon.events.stop, reached=limits)
        manager = ServiceManager(
            notifier, subject=f"testbed {testbed.name}", looked=daemon.looked, readiness=daemon.service.rack.ready
        )
        async with asyncio.TaskGroup() as group:
            watches = [group.create_task(announcement.watch(), name="hwd:announcement")]
            process = _rack(options, testbed, folder)
            if process is not None:
                started.append(process)
                watches.append(group.create_task(process.watch(), name="hwd:twins/watch"))
            try:
                await _run(daemon, server, manager, announcement, testbed, mqtt_url, agents, data.path, token)
            finally:
                for watch in watches:
                    watch.cancel()
                _say_what_goes_on(testbed, testbed_file, find_rack(), started)


async def _run(
    daemon: Daemon,
    server: HttpServer,
    manager: ServiceManager,
    announcement: Announcement,
    testbed: Testbed,
    mqtt_url: str,
    agents: Mapping[str, str],
    data: Path,
    token: Token | None,
) -> None:
    """The daemon ends first, with its runs in their safe states, and its listeners hear of it; then the HTTP server."""
    main = asyncio.create_task(daemon.run(), name="hwd:daemon")
    managed: asyncio.Task[None] | None = None
    try:
        http_url = await server.start()
        announcement.write(
            DaemonPlace(
                testbed=testbed.name,
                pid=os.getpid(),
                http=http_url,
                mqtt=mqtt_url,
                data_dir=str(data.absolute()),
                agents=agents,
                token_file="" if token is None else str(token.path),
            )
        )
        switches, hosts = len(testbed.switches), len(testbed.hosts)
        log.info("testbed %s: %s, %s", testbed.name, plural(switches, "switch", many="switches"), plural(hosts, "host"))
        log.info("http    %s", http_url)
        if token is not None and sys.stderr.isatty():  # others may read a log file
            log.info("browser %s", token.page(http_url))
        log.info("mqtt    %s", BrokerUrl.parse(mqtt_url))
        log.info("data    %s", data)
        managed = asyncio.create_task(manager.run(daemon.service.testbed.reload), name="hwd:service/manager")
        await main
    finally:
        manager.stopping()
        if managed is not None:
            managed.cancel()
        main.cancel()
        await asyncio.wait([main])
        await server.stop()
        log.info("ended")


def _read(testbed: Path) -> bytes:
    return read_user_file(testbed, most_bytes=FILE_BYTES_MAX, what=f"{testbed}:1").data


def _listen(http: str | None, tokens: Mapping[str, str]) -> socket.socket:
    if http is None:
        try:
            return listen("127.0.0.1", HTTP_PORT)
        except ConfigError:
            return listen("127.0.0.1", 0)
    host, port = host_and_port(http, "--http")
    check_listen(host, tokens)
    return listen(host, port)


def _embedded(mqtt: str, logins: Logins, limits: Limits) -> EmbeddedBroker | None:
    """The broker inside the daemon; None where the broker is elsewhere."""
    kind, _, address = mqtt.partition(":")
    if kind != EMBEDDED:
        return None
    if address:
        host_and_port(address, "--mqtt embedded")
    return EmbeddedBroker(address or "127.0.0.1:0", users=logins.users, rights=logins.rights, reached=limits)


def _rack(options: ServeOptions, testbed: Testbed, folder: Path) -> RackProcess | None:
    if not options.twin or not has_twins(testbed):
        return None
    process = RackProcess.start(options.testbed, folder)
    if process is None:
        log.info("twins   rack is up already")
        return None
    log.info(
        "twins   rack starts as pid %d, log %s; it outlives this daemon, end it by `kill %d`",
        process.pid,
        process.log.path,
        process.pid,
    )
    return process


def _say_what_goes_on(
    testbed: Testbed, testbed_file: str, rack: RackPlace | None, started: Sequence[RackProcess]
) -> None:
    """Log at the end which processes still run: a rack may have been started days ago."""
    pid = rack.pid if rack is not None else next((process.pid for process in started if not process.ended), None)
    if pid is not None:
        log.info(
            "twins   the rack goes on running (pid %d), with its agents; `kill %d` or `hwd twin down %s` ends it",
            pid,
            pid,
            testbed_file,
        )
    if any(host.ssh for host in testbed.hosts.values()):
        log.info("agents  on hosts go on, and keep what happens for the next daemon; `hwd agent remove` ends them")


def host_and_port(text: str, what: str) -> tuple[str, int]:
    """`127.0.0.1:8642`, `[::1]:0`; raises ConfigError on anything else."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{what} {text}: write it as HOST:PORT, such as 127.0.0.1:{HTTP_PORT}")
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)


def _plane_process(job: JobRecord) -> PlaneProcess:
    return PlaneProcess(
        job.plane, job.plane_arguments, within_s=job.plane_within_s, memory_bytes=job.plane_memory_mib << 20
    )
