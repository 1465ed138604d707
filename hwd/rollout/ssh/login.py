"""The login over SSH: only to hosts with a known key; every refusal names its remedy."""

import logging
from typing import Final

import paramiko
from typing_extensions import override

from hwd.rollout.ssh.ssh_settings import SshSettings
from hwd_drivers.core.errors import ConfigError, DeviceError, LinkError, LoginError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.user_file import SECRET_BYTES_MAX, read_user_file
from hwd_drivers.transports.ssh.keys import fingerprint, public_line
from hwd_drivers.transports.ssh.known_hosts import KnownHosts, authority_words

logging.getLogger("paramiko").addHandler(logging.NullHandler())
"""Everything that it would log with its own traceback is in our errors."""

LOGIN_S: Final = 20.0
"""A server that asks a directory for the user takes some seconds."""


class NobodyVouches(paramiko.MissingHostKeyPolicy):
    """Refuses a host whose key is unknown or revoked."""

    def __init__(self, name: str, settings: SshSettings, known: KnownHosts) -> None:
        self._name = name
        self._settings = settings
        self._known = known

    @override
    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        file, known_as = self._settings.known_hosts[0], self._settings.known_as
        shown = f"{self._name}: {known_as} shows the host key {key.get_name()} {fingerprint(key)}"
        self._known.check_revoked(known_as, key, shown)
        authority = "" if (where := self._known.authority(known_as)) is None else authority_words(where)
        raise ConfigError(
            f"{shown}, and {file} does not know this host{authority}. "
            "If the host itself shows the same (cat /etc/ssh/ssh_host_*_key.pub | ssh-keygen -lf -), "
            f"add this line to that file: {self._settings.known_as} {public_line(key)}"
        )


def log_in(
    client: paramiko.SSHClient, name: str, settings: SshSettings, sock: paramiko.Channel | None, connect_s: float
) -> None:
    """Connect, check the host's key, log in; raises as `Ssh.open`."""
    known = KnownHosts(settings.known_hosts)
    for file in settings.keys:  # paramiko opens them itself, and would wait for the writer of a FIFO
        read_user_file(file, most_bytes=SECRET_BYTES_MAX, what=f"{name}: key {file}")
    client.set_missing_host_key_policy(NobodyVouches(name, settings, known))
    for kind, key in (known.keys.lookup(settings.known_as) or {}).items():
        if not known.is_revoked(settings.known_as, key):
            client.get_host_keys().add(settings.known_as, kind, key)
    where = f"{settings.user}@{settings.known_as}"
    port = "" if settings.port == 22 else f"-p {settings.port} "
    copy_key = f"ssh-copy-id {port}{settings.user}@{settings.address}"
    try:
        client.connect(
            settings.address,
            settings.port,
            settings.user,
            key_filename=list(settings.keys) or None,  # type: ignore[arg-type] # its documentation allows a list
            look_for_keys=False,  # it would look in another home than ours
            timeout=connect_s,
            banner_timeout=connect_s,
            auth_timeout=LOGIN_S,
            channel_timeout=connect_s,
            sock=sock,
        )
    except paramiko.BadHostKeyException as error:
        shown = f"{name}: {settings.known_as} shows the host key {error.key.get_name()} {fingerprint(error.key)}"
        known.check_revoked(settings.known_as, error.key, shown)
        raise ConfigError(
            f"{shown}, and the known key is another, {fingerprint(error.expected_key)}. "
            "Either the host was reinstalled, or another machine answers in its place. If it was reinstalled: "
            f"ssh-keygen -R '{settings.known_as}' -f {settings.known_hosts[0]}, and add its new key there"
        ) from error
    except paramiko.PasswordRequiredException as error:
        raise _login_refused(
            name, where, "the key file has a passphrase. Load it into an agent: ssh-add FILE"
        ) from error
    except paramiko.AuthenticationException as error:
        tried = " or ".join([*settings.keys, "a key of an SSH agent"])
        raise _login_refused(
            name, where, f"it does not take {tried} ({error}). Add one to its authorized_keys: {copy_key}"
        ) from error
    except TimeoutError as error:
        raise LinkError(
            f"{name}: {where}: no answer within {connect_s:g} s. Is the host on, and the address right?"
        ) from error
    except paramiko.SSHException as error:
        if "No authentication methods" in reason_of(error):
            words = "there is no key to log in with, neither in ~/.ssh nor in an SSH agent. Make one: ssh-keygen, then"
            raise _login_refused(name, where, f"{words} {copy_key}") from error
        raise LinkError(
            f"{name}: {where}: no SSH greeting within {connect_s:g} s: {reason_of(error)}. "
            "Is it an SSH server, and not overloaded?"
        ) from error
    except (OSError, EOFError) as error:
        words = reason_of(error) if isinstance(error, EOFError) else error.strerror or reason_of(error)
        raise LinkError(
            f"{name}: {where}: cannot connect: {words or 'it hung up'}. Is the host on, and its SSH server up?"
        ) from error
    except ValueError as error:  # a file that is no key
        raise ConfigError(f"{name}: {', '.join(settings.keys)}: {error}") from error


def _login_refused(name: str, where: str, words: str) -> DeviceError:
    return LoginError(f"{name}: {where}: {words}", device=name, command="ssh", code="", text=words)
