"""The command `hwd agent`: agents on hosts, over SSH."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hwd.cli.options import Json, group
from hwd.cli.output import Output, StyledText

if TYPE_CHECKING:
    from hwd.config.run_files.places import DaemonPlace
    from hwd.model.status import Status
    from hwd.model.testbed import Host, Testbed
    from hwd.rollout.broker import Brokers
    from hwd.rollout.deploy import Rollout
    from hwd.rollout.findings import Light
    from hwd.rollout.host_report import Progress
    from hwd.rollout.layout import Layout
    from hwd.rollout.remove import Removal
    from hwd_drivers.core.offload import Offload

commands = group("agent", help="Agents on hosts, over SSH.", epilog="Example: hwd agent doctor all --testbed lab.yaml")

Hosts = Annotated[
    list[str], typer.Argument(metavar="HOST...", help="Hosts of the testbed that have `ssh:`; `all` is all of those.")
]
TestbedFile = Annotated[Path, typer.Option("--testbed", metavar="FILE", help="The testbed file.")]
Broker = Annotated[
    str | None,
    typer.Option(
        "--broker",
        metavar="URL",
        help="The broker as hosts reach it, such as mqtt://10.0.0.1:1883. "
        "Default: HWD_BROKER, else that of the daemon here.",
    ),
]
Prefix = Annotated[
    str,
    typer.Option(
        "--prefix", metavar="DIR", help="A folder on the hosts that precedes the agent's /opt, /etc and /var/lib."
    ),
]
NoStart = Annotated[
    bool,
    typer.Option("--no-start", help="Install only, with --prefix without root: no systemd unit, nothing is started."),
]


@commands.command(epilog="Example: hwd agent deploy h0 h1 --testbed lab.yaml --broker mqtt://10.0.0.1:1883")
def deploy(
    hosts: Hosts,
    testbed: TestbedFile,
    broker: Broker = None,
    prefix: Prefix = "",
    no_start: NoStart = False,
    json: Json = False,
) -> None:
    """Copy the agent to hosts, start it, and wait until it connects. One host after another; the first failure ends it.

    Hosts need Python 3.11, systemd and an SSH server that accepts us as root or lets us sudo; no internet access. A
    repetition changes nothing.
    """
    _roll_out(hosts, testbed, broker, _layout(prefix, no_start), json, upgrade=False)


@commands.command(epilog="Example: hwd agent upgrade all --testbed lab.yaml")
def upgrade(
    hosts: Hosts,
    testbed: TestbedFile,
    broker: Broker = None,
    prefix: Prefix = "",
    no_start: NoStart = False,
    json: Json = False,
) -> None:
    """Install this version next to the running one, and switch. Where the new one does not connect, the old
    one runs again.
    """
    _roll_out(hosts, testbed, broker, _layout(prefix, no_start), json, upgrade=True)


@commands.command(epilog="Example: hwd agent remove h0 --testbed lab.yaml")
def remove(
    hosts: Hosts,
    testbed: TestbedFile,
    broker: Broker = None,
    prefix: Prefix = "",
    no_start: NoStart = False,
    keep_spool: Annotated[
        bool, typer.Option("--keep-spool", help="Leave the events that the daemon has not read yet.")
    ] = False,
    leave_settings: Annotated[
        bool, typer.Option("--leave-settings", help="Leave what runs have set of the ports as it is.")
    ] = False,
    json: Json = False,
) -> None:
    """Stop the agent, restore what runs have set, and remove it completely, from the host and from the broker."""
    from hwd.rollout.remove import Removal

    layout = _layout(prefix, no_start)

    def removal(testbed: "Testbed", brokers: "Brokers", progress: "Progress", _: "Offload") -> Removal:
        return Removal(
            testbed=testbed,
            broker=brokers.from_here if layout.unit else None,
            layout=layout,
            progress=progress,
            keep_spool=keep_spool,
            leave_settings=leave_settings,
        )

    _go(removal, hosts, testbed, broker, json)


@commands.command(epilog="Example: hwd agent doctor all --testbed lab.yaml")
def doctor(
    hosts: Hosts,
    testbed: TestbedFile,
    broker: Broker = None,
    prefix: Prefix = "",
    no_start: NoStart = False,
    json: Json = False,
) -> None:
    """Report for each host what is green, yellow or red, why, and what to do about it. Exit status 1 where
    something is red.
    """
    import asyncio

    from hwd.rollout.doctor import Doctor

    output = Output(json=json)
    loaded, chosen, brokers, daemon = _given(testbed, hosts, broker)
    diagnoses = asyncio.run(
        Doctor(
            testbed=loaded,
            brokers=brokers,
            layout=_layout(prefix, no_start),
            progress=lambda host, words: output.note(f"{host}: {words}"),
            ask_daemon=lambda: _daemon_status(daemon),
        ).run(chosen)
    )
    for diagnosis in diagnoses:
        for finding in diagnosis.findings:
            first, *more = finding.text.splitlines()
            output.say(f"{diagnosis.host}  ", _light(finding.light), f"  {finding.subject}: {first}")
            for line in more:
                output.say(f"          {line}")
    output.data({"hosts": diagnoses})
    if any(diagnosis.ill for diagnosis in diagnoses):
        raise typer.Exit(1)


def _light(light: "Light") -> StyledText:
    colours = {"green": typer.colors.GREEN, "yellow": typer.colors.YELLOW, "red": typer.colors.RED}
    return StyledText(f"{light.value:6}", colours[light.value])


def _daemon_status(daemon: "DaemonPlace | None") -> "Status | None":
    """The status of the testbed's daemon; None where none answers."""
    from hwd.client import Client
    from hwd_drivers.core.errors import LinkError

    if daemon is None:
        return None
    try:
        with Client.find(daemon.http) as hwd:
            return hwd.status()
    except LinkError:
        return None


def _roll_out(
    hosts: list[str], testbed: Path, broker: str | None, layout: "Layout", json: bool, *, upgrade: bool
) -> None:
    from hwd.config.run_files.places import cache_dir
    from hwd.rollout.deploy import Rollout

    def rollout(testbed: "Testbed", brokers: "Brokers", progress: "Progress", offload: "Offload") -> Rollout:
        return Rollout(
            testbed=testbed,
            brokers=brokers,
            layout=layout,
            offload=offload,
            cache=cache_dir(),
            progress=progress,
            upgrade=upgrade,
        )

    _go(rollout, hosts, testbed, broker, json)


def _go(
    make: "Callable[[Testbed, Brokers, Progress, Offload], Removal | Rollout]",
    names: list[str],
    file: Path,
    broker: str | None,
    json: bool,
) -> None:
    """Run what is made for the hosts, with progress; report each host, and raise the error that stopped it."""
    import asyncio

    from hwd_drivers.core.offload import ThreadOffload

    output = Output(json=json)
    testbed, hosts, brokers, _ = _given(file, names, broker)

    offload = ThreadOffload(1)
    try:
        work = make(testbed, brokers, lambda host, words: output.note(f"{host}: {words}"), offload)
        reports, error = asyncio.run(work.run(hosts))
    finally:
        offload.close()
    for report in reports:
        output.block(str(report))
    if error is not None:
        output.note(f"hwd: {error.title}: {error}")
    output.data({"hosts": reports})
    if error is not None:
        raise typer.Exit(error.exit_status)


def _given(
    file: Path, names: list[str], broker: str | None
) -> "tuple[Testbed, list[Host], Brokers, DaemonPlace | None]":
    from hwd.bus.broker import Logins, UserRights
    from hwd.config.run_files.places import daemon_of, data_dir
    from hwd.daemon.installed_drivers import load
    from hwd.rollout.broker import Brokers
    from hwd_drivers.core.ids import RandomIds

    testbed = load(file).require()
    chosen = _chosen(testbed, names)
    daemon = daemon_of(testbed.name)
    data = data_dir(testbed.name) if daemon is None else Path(daemon.data_dir)
    logins = Logins.from_folder(UserRights.of(testbed), data, RandomIds())
    return testbed, chosen, Brokers.of(broker, None if daemon is None else daemon.mqtt, logins=logins), daemon


def _chosen(testbed: "Testbed", names: list[str]) -> "list[Host]":
    from hwd.config.yaml.file_problem import nearest
    from hwd_drivers.core.errors import ConfigError

    if names == ["all"]:
        found = [host for host in testbed.hosts.values() if host.ssh is not None]
        if not found:
            raise ConfigError(f"testbed {testbed.name}: no host of it has ssh: give them ssh: root@ADDRESS")
        return found
    for name in names:
        if name not in testbed.hosts:
            raise ConfigError(f"{name}: testbed {testbed.name} has no such host; {nearest(name, testbed.hosts)}")
    return [testbed.hosts[name] for name in dict.fromkeys(names)]


def _layout(prefix: str, no_start: bool) -> "Layout":
    from hwd.rollout.layout import UNIT_PATH, Layout

    return Layout(prefix=prefix.rstrip("/"), unit="" if no_start else UNIT_PATH)
