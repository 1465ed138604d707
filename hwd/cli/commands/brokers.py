"""The command `hwd broker`: configuration of an MQTT broker other than the daemon's own."""

from pathlib import Path
from typing import Annotated

import typer

from hwd.cli.options import Json, group
from hwd.cli.output import Output

commands = group(
    "broker",
    help="An MQTT broker other than the daemon's own.",
    epilog="Example: hwd broker acl lab.yaml --out mosquitto",
)


@commands.command(epilog="Example: hwd broker acl lab.yaml --out mosquitto")
def acl(
    testbed: Annotated[Path, typer.Argument(metavar="TESTBED", help="The testbed file.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder for the files; created where it does not exist.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="The daemon's. Default: that of the daemon here, else ~/.local/state/hwd/<testbed>.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write the users, the passwords (hashed) and the rules of a testbed for Mosquitto 2, and the configuration lines
    that name them.

    They are those of the daemon's own broker: one user for the daemon and one a host, with passwords that are generated
    once for a data folder. Repeat it after a host was added.
    """
    import os

    from hwd.bus.broker import Logins, UserRights
    from hwd.bus.broker.mosquitto import CONF, mosquitto_files
    from hwd.config.run_files.places import daemon_of, data_dir
    from hwd.daemon.installed_drivers import load
    from hwd_drivers.core.errors import ConfigError
    from hwd_drivers.core.ids import RandomIds
    from hwd_drivers.core.output_file import write_file

    output = Output(json=json)
    loaded = load(testbed).require()
    daemon = daemon_of(loaded.name)
    of_daemon = data_dir(loaded.name) if daemon is None else Path(daemon.data_dir)
    logins = Logins.from_folder(UserRights.of(loaded), data or of_daemon, RandomIds(), for_owner=True)
    folder = out.absolute()
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        for name, text in mosquitto_files(logins, folder).items():
            if not (folder / name).exists():
                os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
            write_file(folder / name, text)
            output.say(f"wrote {folder / name}")
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: cannot be written: {error.strerror}") from error
    output.remark(
        f"The passwords are those of the data folder {data or of_daemon}: it must be the daemon's.\n"
        f"Let Mosquitto's user read them, write `include_dir {folder}` or the lines of {CONF} into its configuration, "
        f"and send it SIGHUP after each change.\n"
        f"The daemon and `hwd agent` use their own logins where the broker's URL names no user: "
        f"HWD_MQTT=mqtt://HOST:1883"
    )
    output.data({"folder": str(folder), "users": list(logins.users), "data_dir": str(data or of_daemon)})
