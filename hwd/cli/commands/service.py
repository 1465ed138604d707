"""The commands `hwd install-service` and `hwd reload`: a service of systemd, and a changed testbed file."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hwd.cli.daemon import connect, me
from hwd.cli.options import Json, Url, Yes, duration
from hwd.cli.output import Output
from hwd.cli.write_target import busy

if TYPE_CHECKING:
    from hwd.daemon.service_unit import ServiceUnit
    from hwd.model.reload import ReloadReport

DRAIN_S = 10.0
UNITS = Path("/etc/systemd/system")
STEPS_SINCE = 254
"""The version of systemd that lengthens its pauses between restarts."""
PASSING = ("/tmp", "/var/tmp", "/run/user")
"""A service has folders of its own there, or none."""

commands = typer.Typer(rich_markup_mode=None)


@commands.command("install-service", epilog="Example: hwd install-service /etc/hwd/lab.yaml --dry-run")
def install_service(
    testbed: Annotated[Path, typer.Argument(metavar="TESTBED", help="A testbed file.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Default: /var/lib/hwd/<testbed>. Another one needs --user."),
    ] = None,
    http: Annotated[
        str,
        typer.Option("--http", metavar="HOST:PORT", help="Other addresses need HWD_TOKENS in the environment file."),
    ] = "127.0.0.1:8642",
    mqtt: Annotated[
        str | None,
        typer.Option(
            "--mqtt",
            metavar="BROKER",
            help="As of `hwd serve`. A URL with a password goes as HWD_MQTT into the environment file.",
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="USER", help="An existing user. Default: systemd makes one while it runs."),
    ] = None,
    units: Annotated[Path, typer.Option("--units", metavar="DIR", help="The folder of the unit.")] = UNITS,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Remove the unit. The data stay.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the unit, and write nothing.")] = False,
    json: Json = False,
) -> None:
    """Write a hardened systemd unit for the daemon of a testbed, hwd-<testbed>, and say how it is started.

    It overwrites and removes only a unit that it wrote and that nobody changed since. Secrets come from the environment
    file /etc/hwd/<testbed>.env: HWD_TOKENS, HWD_MQTT, and those that the testbed file names.
    """
    import sysconfig

    output = Output(json=json)
    with busy(output, f"reading {testbed}"):
        from hwd.daemon.installed_drivers import load
        from hwd.daemon.serve import host_and_port
        from hwd.daemon.service_unit import ServiceUnit
        from hwd_drivers.core.errors import ConfigError
        from hwd_drivers.core.output_file import write_file

        loaded = load(testbed).require()
    host_and_port(http, "--http")
    unit = ServiceUnit(
        testbed=loaded,
        file=testbed.absolute(),
        program=Path(sysconfig.get_path("scripts")) / "hwd",
        http=http,
        mqtt=mqtt,
        data=None if data is None else data.absolute(),
        user=user,
        steps=_systemd_version() >= STEPS_SINCE,
    )
    path = units / f"{unit.name}.service"
    if uninstall:
        _remove(unit, path, output, dry_run=dry_run)
        return
    if dry_run:
        output.block(unit.text.rstrip("\n"))
    if found := obstacles(unit):
        raise ConfigError("\n".join(f"{path}: not written: {one}" for one in found))
    _check_ours(path)
    if not dry_run:
        write_file(path, unit.text)
        output.say(f"{path}: written")
    _say_next(unit, output)
    output.data({"unit": unit.name, "path": str(path), "written": not dry_run, "text": unit.text})


@commands.command(epilog="Example: hwd reload --dry-run; hwd reload --yes")
def reload(
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what the file changes, and change nothing.")] = False,
    drain_within: Annotated[
        float,
        duration("--drain-within", "Wait so long for who holds what changes.", least_s=0.0),
    ] = DRAIN_S,
    url: Url = None,
    json: Json = False,
) -> None:
    """Let the daemon take its changed testbed file, whole or not at all, and show first what it changes.

    Reconfigurations, leases, runs and waits for a confirm on ports that it touches have to end first; all else goes on.
    A file with errors (exit status 2), or a change that a running daemon cannot take (3), leaves all as it is.
    """
    from hwd.cli.commands.apply import ask

    output = Output(json=json)
    with connect(url) as hwd:
        report = hwd.reload(dry_run=True)
        _show_changes(report, output)
        if dry_run or not report.changes:
            output.data(report)
            return
        if output.on_terminal and not yes and not ask("Take it?"):
            output.note("nothing was touched")
            raise typer.Exit(130)
        with busy(output, f"reload: waiting for at most {drain_within:g} s"):
            done = hwd.reload(hash=report.hash, drain_s=drain_within, by=me())
    output.say(f"testbed {done.testbed}: reloaded")
    for remark in done.remarks:
        output.say(f"  {remark}")
    output.data(done)


def _show_changes(report: "ReloadReport", output: Output) -> None:
    if not report.changes:
        output.say(f"testbed {report.testbed}: the file says what it said before")
        return
    for change in report.changes:
        output.say(str(change))
        if change.obstacle:
            output.say(f"  cannot be taken by a running daemon: {change.obstacle}")
    for hidden in report.hides:
        output.say(f"hides: {hidden}")
    for held in report.held:
        output.say(f"held now: {held}")


def obstacles(unit: "ServiceUnit") -> list[str]:
    """Why the service could not run: all reasons at once."""
    found = []
    testbed = unit.testbed
    twins = [one.name for one in testbed.switches.values() if one.twin is not None]
    twins += [one.name for one in testbed.hosts.values() if one.twin is not None]
    if twins:
        found.append(
            f"{', '.join(twins)} of testbed {testbed.name} are twins, and the service starts no rack: "
            "run it by `hwd serve`"
        )
    if testbed.access_group is not None and unit.user is None:
        found.append(
            f"group {testbed.access_group} (access_group) cannot reach the token of a user that systemd makes: "
            "name an existing user with --user"
        )
    if unit.data is not None and unit.user is None:
        found.append(f"--data {unit.data} belongs to no user that systemd makes: name its owner with --user")
    found += _missing(unit)
    for place in (unit.file, unit.program, *(() if unit.data is None else (unit.data,))):
        if any(place.is_relative_to(folder) for folder in PASSING):
            found.append(f"{place}: a service does not see this folder. Move it, to /etc/hwd or /opt for instance")
        elif unit.user is None and (closed := _closed(place)) is not None:
            found.append(
                f"{place}: a user that systemd makes may not pass or read {closed}. "
                "Move it, to /etc/hwd or /opt for instance, or name a user with --user"
            )
    return found


def _missing(unit: "ServiceUnit") -> Iterator[str]:
    """The user, the groups and the data folder that systemd would look for in vain at each start."""
    import grp
    import pwd

    for group in unit.device_groups:
        try:
            grp.getgrnam(group)
        except KeyError:
            devices = ", ".join(unit.devices)
            yield f"group {group}, for {devices}: there is no such group here. Make it: addgroup --system {group}"
    if unit.user is None:
        return
    try:
        uid = (pwd.getpwuid(int(unit.user)) if unit.user.isdecimal() else pwd.getpwnam(unit.user)).pw_uid
    except (KeyError, OverflowError):
        yield (
            f"--user {unit.user}: there is no such user here. Make it (adduser --system --group {unit.user}), "
            "or leave --user out, and systemd makes a user while the service runs"
        )
        return
    if unit.data is not None and not unit.data.is_dir():
        yield f"--data {unit.data}: there is no such folder. Make it: install -d -m 700 -o {unit.user} {unit.data}"
    elif unit.data is not None and unit.data.stat().st_uid != uid:
        yield f"--data {unit.data}: does not belong to {unit.user}. Change that: chown -R {unit.user} {unit.data}"


def _closed(place: Path) -> Path | None:
    """The first folder on the way, or the file itself, that not everybody may pass or read."""
    import stat

    for folder in reversed(place.resolve().parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None if place.stat().st_mode & stat.S_IROTH else place


def _check_ours(path: Path) -> None:
    from hwd.daemon.service_unit import is_ours
    from hwd_drivers.core.errors import RefusedError
    from hwd_drivers.core.user_file import SECRET_BYTES_MAX, read_user_file

    if path.exists() and not is_ours(read_user_file(path, most_bytes=SECRET_BYTES_MAX).text()):
        raise RefusedError(
            f"{path}: `hwd install-service` did not write it, or it was changed since. Move it away; "
            f"`systemctl edit {path.stem}` keeps changes in a file of their own"
        )


def _remove(unit: "ServiceUnit", path: Path, output: Output, *, dry_run: bool) -> None:
    from hwd_drivers.core.errors import ConfigError, RefusedError

    if not path.exists():
        raise ConfigError(f"{path}: there is no such unit. Nothing to do")
    _check_ours(path)
    if (path.parent / "multi-user.target.wants" / path.name).is_symlink():
        raise RefusedError(f"{path}: it is enabled. First: systemctl disable --now {unit.name}")
    if not dry_run:
        try:
            path.unlink()
        except OSError as error:
            raise ConfigError(f"{path}: cannot be removed: {error.strerror}") from error
    output.say(f"{path}: {'would be removed' if dry_run else 'removed'}; the data stay in {unit.data_folder}")
    output.say("next: systemctl daemon-reload")
    output.data({"unit": unit.name, "path": str(path), "removed": not dry_run, "data": str(unit.data_folder)})


def _say_next(unit: "ServiceUnit", output: Output) -> None:
    if unit.secrets:
        output.say(f"next: /etc/hwd/{unit.testbed.name}.env, mode 600, with {', '.join(unit.secrets)}")
    output.say(f"next: systemctl daemon-reload && systemctl enable --now {unit.name}")
    output.say(
        f"then: HWD_URL=http://{unit.http} HWD_TOKEN_FILE={unit.data_folder}/token hwd status, as root"
        + (f" or {unit.user}" if unit.user else "")
    )


def _systemd_version() -> int:
    """0 where it is unknown."""
    import subprocess

    try:
        said = subprocess.run(["systemctl", "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    words = said.split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
