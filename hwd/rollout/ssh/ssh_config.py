"""SshConfig: what OpenSSH's client is configured to do for one host, as `ssh -G` prints it (ssh(1)).

The program is the definition of its configuration: `Include`, `Match`, tokens, quotes and canonical names are read by
nobody else. Each keyword of ssh_config(5) is followed, or does not matter here, or is refused by its name.
"""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from hwd.model.ssh import SshPlace
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.user import home
from hwd_drivers.core.user_file import read_user_file

CONFIG_BYTES_MAX: Final = 1_000_000
READ_S: Final = 20.0
"""For `ssh -G`, which may look up names for `CanonicalizeHostname`, and runs the programs of `Match exec`."""
SYSTEM: Final = Path("/etc/ssh/ssh_config")

FOLLOWED: Final = (
    "addressfamily bindaddress ciphers globalknownhostsfile host hostkeyalgorithms hostkeyalias hostname identitiesonly"
    " identityagent identityfile kexalgorithms macs port preferredauthentications proxyjump pubkeyacceptedalgorithms"
    " pubkeyauthentication requiredrsasize user userknownhostsfile"
)
MEANINGLESS: Final[Mapping[str, str]] = {
    "ssh has done it by the time it prints the result": (
        "canonicaldomains canonicalizefallbacklocal canonicalizehostname canonicalizemaxdots"
        " canonicalizepermittedcnames ignoreunknown"
    ),
    "we are stricter: only a known key of the host is taken, and none is added": (
        "casignaturealgorithms gssapikexalgorithms gssapikeyexchange hashknownhosts nohostauthenticationforlocalhost"
        " stricthostkeychecking updatehostkeys verifyhostkeydns"
    ),
    "another way to log in than by a key, which we do not have": (
        "batchmode challengeresponseauthentication enablesshkeysign gssapiauthentication gssapiclientidentity"
        " gssapidelegatecredentials gssapirenewalforcesrekey gssapiserveridentity gssapitrustdns"
        " hostbasedacceptedalgorithms hostbasedauthentication kbdinteractiveauthentication kbdinteractivedevices"
        " numberofpasswordprompts passwordauthentication"
    ),
    "for terminals, forwards and programs of a person": (
        "addkeystoagent clearallforwardings dynamicforward enableescapecommandline escapechar exitonforwardfailure"
        " forkafterauthentication forwardagent forwardx11 forwardx11timeout forwardx11trusted gatewayports localcommand"
        " localforward obscurekeystroketiming permitlocalcommand permitremoteopen remotecommand remoteforward"
        " requesttty sendenv sessiontype setenv stdinnull streamlocalbindmask streamlocalbindunlink tunnel tunneldevice"
        " xauthlocation"
    ),
    "the connection is our own, with limits and signs of life of our own": (
        "channeltimeout compression connectionattempts connecttimeout controlmaster controlpath controlpersist ipqos"
        " proxyusefdpass rekeylimit serveralivecountmax serveraliveinterval tcpkeepalive versionaddendum warnweakcrypto"
    ),
    "what is shown": "fingerprinthash loglevel logverbose syslogfacility tag visualhostkey",
    "for keys in hardware, which an SSH agent uses": "securitykeyprovider",
}
"""Keywords that change nothing for us, by the reason."""
REMEDIES: Final[Mapping[str, str]] = {
    "bindinterface": "Use BindAddress with the address of that interface",
    "certificatefile": "Put the certificate beside its key as KEY-cert.pub: it is found there",
    "checkhostip": "The host's key is checked by its name alone: remove it",
    "knownhostscommand": "Write its lines into a file, and name that: UserKnownHostsFile",
    "pkcs11provider": "Load the token into an SSH agent: ssh-add -s PROVIDER",
    "proxycommand": "Name a jump host: ProxyJump user@host, or in the testbed file `jump`",
    "revokedhostkeys": "Write @revoked before those keys in a known_hosts file",
}
"""For keywords that are refused."""
NONE: Final = frozenset({"none", "no", "false"})
"""Values by which a keyword is not set."""
_UNDERSTOOD: Final = frozenset(" ".join((FOLLOWED, *MEANINGLESS.values())).split())


@dataclass(frozen=True, slots=True, kw_only=True)
class SshConfig:
    """The values of one host by keyword, in small letters, as many as there are; `changed`: those keywords whose values
    are not the default ones of `ssh`. `shown` names the file for messages.
    """

    values: Mapping[str, tuple[str, ...]]
    changed: frozenset[str]
    shown: str
    command: tuple[str, ...]

    @classmethod
    def read(cls, place: SshPlace, home: Path | None) -> Self:
        """Ask `ssh`, blocking. `home`: the folder whose `.ssh/config` is read in place of the user's and the system's.

        Raises ConfigError where `ssh` refuses the configuration, or a keyword is set that we do not follow.
        """
        file = (home or user_home()) / ".ssh/config"
        if file.exists():  # `ssh` would wait for the writer of a FIFO
            read_user_file(file, most_bytes=CONFIG_BYTES_MAX)
        program = shutil.which("ssh")
        if program is None:
            return cls._without_ssh(place, file, home)
        user = () if place.user is None else ("-l", place.user)
        port = () if place.port is None else ("-p", str(place.port))
        named = () if home is None else ("-F", str(file) if file.exists() else "none")
        command = (program, "-G", "-T", *user, *port)
        values = _ask((*command, *named, "--", place.address), file)
        default = _ask((*command, "-F", "none", "--", place.address), file)
        changed = frozenset(word for word, value in values.items() if default.get(word) != value)
        config = cls(values=values, changed=changed, shown=str(file), command=(*command, *named))
        for word in sorted(changed - _UNDERSTOOD):
            if not NONE.issuperset(config.values[word]):
                raise config.refusal(word, place)
        return config

    @classmethod
    def _without_ssh(cls, place: SshPlace, file: Path, home: Path | None) -> Self:
        """The defaults of `ssh`, where it is not installed and nobody has configured it."""
        for one in (file, *((SYSTEM,) if home is None else ())):
            if one.exists():
                raise ConfigError(
                    f"{one}: only OpenSSH's client can read it, and there is no program ssh on this machine. "
                    "Install that (Debian: apt install openssh-client), or remove the file"
                )
        folder = file.parent
        values = {
            "hostname": (place.address,),
            "identityfile": tuple(str(folder / name) for name in ("id_rsa", "id_ecdsa", "id_ed25519")),
            "userknownhostsfile": (f"{folder}/known_hosts {folder}/known_hosts2",),
            "globalknownhostsfile": ("/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2",),
        }
        return cls(values=values, changed=frozenset(), shown=str(file), command=())

    def first(self, word: str, default: str = "") -> str:
        return self.values.get(word, (default,))[0]

    def names(self, word: str) -> tuple[str, ...]:
        """The algorithms of a list; empty where it is as `ssh` has it by default, which is no wish of anybody."""
        return tuple(self.first(word).split(",")) if word in self.changed else ()

    def files(self, word: str) -> tuple[Path, ...]:
        """The files of a list in one line, which `ssh` prints without the quotes that a name with spaces had."""
        found: list[str] = []
        for part in self.first(word).split(" "):
            if part.startswith("/") or not found:
                found.append(part)
            else:
                found[-1] += f" {part}"
        if found == ["none"]:
            return ()
        for one in found:
            if not one.startswith("/"):
                raise ConfigError(f"{self._where(word)}: {word} {one}: write its whole path")
            if " " in one and word in self.changed and not Path(one).exists():
                raise ConfigError(
                    f"{self._where(word)}: {word} {one}: there is no such file. Name each file by its whole path, "
                    "in quotes where that has spaces"
                )
        return tuple(map(Path, found))

    def expand(self, path: str, host: str) -> str:
        """The path with `~`, tokens such as `%h`, and variables, as `ssh` expands them."""
        if not self.command or not any(sign in path for sign in ("~", "%", "${")):
            return path
        quoted = path.replace("\\", "\\\\").replace('"', '\\"')
        # ssh prints this one expanded, and IdentityFile, which has the same tokens, as it was written
        command = (*self.command, "-o", f'UserKnownHostsFile="{quoted}"', "--", host)
        return _ask(command, Path(self.shown))["userknownhostsfile"][0]

    def refusal(self, word: str, place: SshPlace, remedy: str = "") -> ConfigError:
        """The keyword has a value that we cannot follow."""
        remedy = remedy or REMEDIES.get(word, "Remove it for this host (Match, Host !HOST)")
        return ConfigError(
            f"{self._where(word)}: {place.address}: {word} {' '.join(self.values[word])}: "
            f"hwd does not follow this keyword of ssh_config. {remedy}"
        )

    def _where(self, word: str) -> str:
        """File and line of the keyword in the files that `ssh` reads for this host, all of them."""
        if not self.command:
            return self.shown
        said = _run((*self.command, "-v", "--", self.first("host", "localhost")), Path(self.shown)).stderr
        marker = b"debug1: Reading configuration data "
        files = [line.removeprefix(marker) for line in said.splitlines() if line.startswith(marker)]
        found = []
        for file in dict.fromkeys(map(os.fsdecode, files)):
            try:
                lines = read_user_file(file, most_bytes=CONFIG_BYTES_MAX).data.splitlines()
            except ConfigError:
                continue  # a pipe, or gone meanwhile: the line is only for the message
            starts = (line.replace(b"=", b" ").replace(b'"', b" ").split(None, 1)[:1] for line in lines)
            found += [f"{file}:{n}" for n, start in enumerate(starts, 1) if start and start[0].lower() == word.encode()]
        return ", ".join(found) or self.shown


def user_home() -> Path:
    """The home of the user where `ssh` looks: not `$HOME`."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return home(remedy=": the configuration, keys and known hosts of ssh are in its .ssh")


def _ask(command: Sequence[str], file: Path) -> dict[str, tuple[str, ...]]:
    done = _run(command, file)
    if done.returncode:
        said = " ".join(os.fsdecode(done.stderr).split()) or f"it ended with {done.returncode}"
        remedy = f". Exclude the jump host where it is named: Host * !{command[-1]}" if "jumphost loop" in said else ""
        raise ConfigError(f"{file}: ssh refuses its configuration for {command[-1]}: {said}{remedy}")
    values: dict[str, tuple[str, ...]] = {}
    for line in done.stdout.splitlines():
        word, _, value = os.fsdecode(line).partition(" ")
        values[word.lower()] = (*values.get(word.lower(), ()), value)
    return values


def _run(command: Sequence[str], file: Path) -> "subprocess.CompletedProcess[bytes]":
    """Run a command in a group of its own: a program of `Match exec` that hangs is ended with it."""
    try:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
        ) as process:
            try:
                out, err = process.communicate(timeout=READ_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise ConfigError(
                    f"{file}: ssh -G {command[-1]} has not read its configuration within {READ_S:g} s. "
                    "Is it a pipe, or does a program of Match exec hang?"
                ) from None
            return subprocess.CompletedProcess(command, process.returncode, out, err)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{command[0]}: cannot be run to read {file}: {reason_of(error)}") from error
