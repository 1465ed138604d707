"""ServiceUnit: the systemd unit under which `hwd serve` runs as a service."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.printable import printable
from hwd_drivers.transports.serial_line import PREFIX as SERIAL

STATE: Final = "/var/lib/hwd"
"""The data folders of services, by testbed."""
MARK: Final = "# Written by `hwd install-service`. Change it with `systemctl edit`. Check sum "

HOMES: Final = (Path("/home"), Path("/root"), Path("/run/user"))
"""Hidden by ProtectHome=yes."""

TEXT: Final = """\
[Unit]
Description=hwd: the daemon of testbed {testbed}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
# Ready means: each switch was read, or does not answer, and the API listens.
Type=notify
NotifyAccess=main
ExecStart={program} serve {file} --data {data} --http {http} --no-twin{mqtt}
# Takes the changed file, or fails and says why.
ExecReload={program} reload --yes
EnvironmentFile=-/etc/hwd/{testbed}.env
Environment=HWD_RUN_DIR=/run/hwd-{testbed}
Environment=PYTHONUNBUFFERED=1
# Bad input (status 2) is the same at the next attempt.
Restart=on-failure
RestartPreventExitStatus=2
{pauses}
# An event loop that hangs, or stays late, is killed; the next start ends by the journal what was cut off.
WatchdogSec=15
TimeoutStartSec=120
# SIGTERM ends runs in their safe states, within 10 s. A wait for a confirm stays in the journal: the next start
# goes on with it.
TimeoutStopSec=30
KillMode=mixed

{user}
RuntimeDirectory=hwd-{testbed}
RuntimeDirectoryMode=0700
UMask=0077

CapabilityBoundingSet=
AmbientCapabilities=
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome={homes}
PrivateTmp=yes
{devices}
PrivateUsers={private_users}
ProtectClock=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
{calls}
[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUnit:
    """A unit of systemd for one daemon, by what differs between services.

    `user`: an existing user; without one systemd makes a user for the time that the service runs (DynamicUser).
    `data` None: /var/lib/hwd/<testbed>, made by systemd. `steps`: systemd can lengthen its pauses (since 254).
    """

    testbed: Testbed
    file: Path
    program: Path
    http: str
    mqtt: str | None = None
    data: Path | None = None
    user: str | None = None
    steps: bool = False

    @property
    def name(self) -> str:
        """`hwd-lab`."""
        return f"hwd-{self.testbed.name}"

    @property
    def data_folder(self) -> Path:
        return self.data or Path(STATE) / self.testbed.name

    @property
    def text(self) -> str:
        """The whole file, with the mark by which `is_ours` knows it."""
        body = TEXT.format(
            testbed=self.testbed.name,
            program=_quoted(self.program),  # systemd replaces no variable in the first word
            file=_argument(self.file),
            data=_argument(self.data_folder),
            http=_argument(self.http),
            mqtt="" if self.mqtt is None else f" --mqtt {_argument(self.mqtt)}",
            pauses="RestartSec=1\nRestartSteps=6\nRestartMaxDelaySec=60" if self.steps else "RestartSec=5",
            user="\n".join(self._user()),
            homes="read-only" if self.uses_homes else "yes",
            devices="\n".join(self._devices()),
            private_users="no" if self.devices else "yes",  # groups of devices mean nothing among users of its own
            calls="SystemCallFilter=@chown\n" if self.testbed.access_group is not None else "",
        )
        return f"{MARK}{_check_sum(body)}\n{body}"

    @property
    def uses_homes(self) -> bool:
        """Whether the unit reads files below the homes of users."""
        places = (self.file, self.program, self.data_folder)
        return any(place.is_relative_to(home) for place in places for home in HOMES)

    @property
    def devices(self) -> tuple[str, ...]:
        """The serial lines and GPIO chips of switches that the daemon drives."""
        owned = (switch for switch in self.testbed.switches.values() if switch.owner is None)
        found = (switch.address.removeprefix(SERIAL) for switch in owned if switch.address is not None)
        return tuple(sorted({address for address in found if address.startswith("/dev/")}))

    @property
    def device_groups(self) -> tuple[str, ...]:
        """The groups that may open them."""
        return tuple(sorted({"gpio" if "gpio" in place else "dialout" for place in self.devices}))

    @property
    def secrets(self) -> tuple[str, ...]:
        """The variables that its environment file must have."""
        logins = (switch.login_password for switch in self.testbed.switches.values() if switch.owner is None)
        return tuple(sorted({one.name for one in logins if one is not None and one.kind == "env"}))

    def _user(self) -> Iterator[str]:
        group = self.testbed.access_group  # it passes the data folder, to the token
        yield "DynamicUser=yes" if self.user is None else f"User={self.user}"
        if group is not None:
            yield f"Group={group}"
        if self.data is None:
            yield f"StateDirectory=hwd/{self.testbed.name}"
            yield f"StateDirectoryMode={'0700' if group is None else '0710'}"
        else:
            yield f"ReadWritePaths={_quoted(self.data)}"

    def _devices(self) -> Iterator[str]:
        if not self.devices:
            yield "PrivateDevices=yes"
            return
        yield "DevicePolicy=closed"
        for place in self.devices:
            yield f"DeviceAllow={_quoted(place)} rw"
        for group in self.device_groups:
            yield f"SupplementaryGroups={group}"


def is_ours(text: str) -> bool:
    """Whether this is a unit as `ServiceUnit` wrote it, unchanged."""
    first, _, body = text.partition("\n")
    return first == f"{MARK}{_check_sum(body)}"


def _check_sum(body: str) -> str:
    return sha256(body.encode()).hexdigest()[:16]


def _argument(word: object) -> str:
    """A word of a command line of systemd, where `$` means something, too."""
    return _quoted(word).replace("$", "$$")


def _quoted(word: object) -> str:
    """A word of a unit: `%`, quotes, backslashes and spaces mean something there. Raises ConfigError for a line break,
    which would begin a setting of its own.
    """
    if not str(word).isprintable():
        raise ConfigError(f"{printable(str(word))}: a systemd unit takes no such character. Name another place")
    text = str(word).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text}"' if any(one.isspace() or one in "\"';" for one in text) else text
