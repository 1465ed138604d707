"""The login over SSH: only to hosts with a known key; every refusal names its remedy."""

import logging
import socket
from collections.abc import Iterable
from typing import Final

import paramiko

from hwd.model.plural import plural
from hwd.rollout.ssh.identities import RSA_KINDS, Identities, rsa_bits
from hwd.rollout.ssh.ssh_settings import SshSettings
from hwd_drivers.core.errors import ConfigError, LinkError, LoginError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.transports.ssh.keys import fingerprint, public_line
from hwd_drivers.transports.ssh.known_hosts import KnownHosts, authority_words

logging.getLogger("paramiko").addHandler(logging.NullHandler())
"""Everything that it would log with its own traceback is in our errors."""

LOGIN_S: Final = 20.0
"""A server that asks a directory for the user takes some seconds."""


def log_in(name: str, settings: SshSettings, sock: paramiko.Channel | None, connect_s: float) -> paramiko.Transport:
    """Connect, check the host's key, log in; raises as `Ssh.open`."""
    known = KnownHosts(settings.known_hosts)
    where = f"{settings.user}@{settings.known_as}"
    connection: paramiko.Channel | socket.socket | None = sock
    transport: paramiko.Transport | None = None
    try:
        if connection is None:
            connection = _dial(settings, connect_s)
        transport = paramiko.Transport(connection, disabled_algorithms={"pubkeys": _disabled_signatures(settings)})
        transport.banner_timeout = connect_s
        transport.auth_timeout = LOGIN_S
        transport.channel_timeout = connect_s
        _restrict(name, transport, settings, known.kinds_of(settings.known_as))
        transport.start_client(timeout=connect_s)
        _check_host_key(name, settings, known, transport.get_remote_server_key())
        _authenticate(name, settings, transport, where)
    except BaseException as error:
        if transport is not None:
            transport.close()
        if connection is not None:  # a transport that was not started leaves it open
            connection.close()
        match error:
            case TimeoutError():
                raise LinkError(
                    f"{name}: {where}: no answer within {connect_s:g} s. Is the host on, and the address right?"
                ) from error
            case paramiko.SSHException():
                raise LinkError(
                    f"{name}: {where}: no SSH greeting within {connect_s:g} s: {reason_of(error)}. "
                    "Is it an SSH server, and not overloaded?"
                ) from error
            case OSError() | EOFError():
                words = reason_of(error) if isinstance(error, EOFError) else error.strerror or reason_of(error)
                raise LinkError(
                    f"{name}: {where}: cannot connect: {words or 'it hung up'}. Is the host on, and its SSH server up?"
                ) from error
            case _:
                raise
    return transport


def _dial(settings: SshSettings, connect_s: float) -> socket.socket:
    """A connection to the first address of the host that accepts it. Raises OSError."""
    lost: OSError | None = None
    kind = socket.SOCK_STREAM
    for family, _, _, _, address in socket.getaddrinfo(settings.address, settings.port, settings.family, kind):
        sock = socket.socket(family, kind)
        try:
            sock.settimeout(connect_s)
            if settings.bind_address is not None:
                sock.bind(socket.getaddrinfo(settings.bind_address, 0, family, kind)[0][4])
            sock.connect(address)
            return sock
        except OSError as error:
            sock.close()
            lost = error
    raise lost or OSError("it has no address")


def _restrict(name: str, transport: paramiko.Transport, settings: SshSettings, known_kinds: tuple[str, ...]) -> None:
    """Offer the algorithms that are allowed, and of host keys first those by which the host may be known."""
    options, allowed = transport.get_security_options(), settings.algorithms
    options.kex = _allowed(name, "KexAlgorithms", options.kex, allowed.kex)
    options.ciphers = _allowed(name, "Ciphers", options.ciphers, allowed.ciphers)
    options.digests = _allowed(name, "MACs", options.digests, allowed.macs)
    kinds = _allowed(name, "HostKeyAlgorithms", options.key_types, allowed.host_keys)
    first = [one for one in kinds if one in known_kinds or (one in RSA_KINDS and RSA_KINDS[0] in known_kinds)]
    options.key_types = (*first, *(one for one in kinds if one not in first))


def _allowed(name: str, word: str, ours: Iterable[str], allowed: tuple[str, ...]) -> tuple[str, ...]:
    if not allowed:
        return tuple(ours)
    if found := tuple(one for one in ours if one in allowed):
        return found
    raise ConfigError(
        f"{name}: {word} of the configuration of ssh allows {', '.join(allowed)}, of which hwd has none. "
        f"Allow one of {', '.join(ours)}"
    )


def _disabled_signatures(settings: SshSettings) -> list[str]:
    """The algorithms of RSA keys that PubkeyAcceptedAlgorithms leaves out."""
    allowed = settings.algorithms.user_keys
    return [one for one in RSA_KINDS if allowed and one not in allowed]


def _check_host_key(name: str, settings: SshSettings, known: KnownHosts, key: paramiko.PKey) -> None:
    """Raise ConfigError for a key that is unknown, another than the known one, revoked or too short."""
    known_as = settings.known_as
    shown = f"{name}: {known_as} shows the host key {key.get_name()} {fingerprint(key)}"
    known.check_revoked(known_as, key, shown)
    bits, least = rsa_bits(key.asbytes()), settings.algorithms.rsa_least_bits
    if bits is not None and bits < least:
        raise ConfigError(f"{shown}, which has {bits} bits, and RequiredRSASize is {least}. Make a longer key there")
    if known.knows(known_as, key):
        return
    file = next((one for one in settings.known_hosts if one.is_file() or not one.exists()), None)
    if others := known.keys_of(known_as):
        raise ConfigError(
            f"{shown}, and the known key is another, {fingerprint(others[0])}. "
            "Either the host was reinstalled, or another machine answers in its place. If it was reinstalled: "
            f"ssh-keygen -R '{known_as}' -f {file}, and add its new key there"
        )
    authority = "" if (where := known.authority(known_as)) is None else authority_words(where)
    place = f"and {file} does not know" if file is not None else "and no file of known keys is configured that knows"
    add = "add this line to that file" if file is not None else "name a file with this line (UserKnownHostsFile)"
    raise ConfigError(
        f"{shown}, {place} this host{authority}. "
        "If the host itself shows the same (cat /etc/ssh/ssh_host_*_key.pub | ssh-keygen -lf -), "
        f"{add}: {known_as} {public_line(key)}"
    )


def _authenticate(name: str, settings: SshSettings, transport: paramiko.Transport, where: str) -> None:
    """Try one key after another. Raises LoginError where none is taken."""

    def refusal(words: str) -> LoginError:
        return LoginError(f"{name}: {where}: {words}", device=name, command="ssh", code="", text=words)

    port = "" if settings.port == 22 else f"-p {settings.port} "
    copy_key = f"ssh-copy-id {port}{settings.user}@{settings.address}"
    identities = Identities.find(settings)
    remarks = "".join(f"; {one}" for one in identities.remarks)
    refused: list[str] = []
    try:
        for identity in identities.to_try:
            identity.key.public_blob = identity.certificate
            try:
                more = transport.auth_publickey(settings.user, identity.key)
            except paramiko.BadAuthenticationType as error:
                words = f"it takes no keys, but {' or '.join(error.allowed_types)}. Allow them in its sshd_config"
                raise refusal(words) from error
            except (paramiko.SSHException, EOFError, OSError) as error:
                refused.append(identity.source)
                if identities.agent is not None and (trouble := identities.agent.trouble):
                    words = f"{trouble}. Unlock it, allow it to sign when it asks, or name a key that needs no agent"
                    raise refusal(words) from error
                if transport.is_active():
                    continue
                left = len(identities.to_try) - len(refused)
                if not left:
                    break
                tried = f"{plural(len(refused), 'key')} ({', '.join(refused)})"
                raise refusal(
                    f"it ended the login after {tried}, before {left} more: it "
                    "allows no more attempts (its MaxAuthTries). Name the one key that it takes: `key` in the testbed "
                    "file, or IdentityFile and IdentitiesOnly yes in the configuration of ssh"
                ) from error
            if more:
                raise refusal(f"after the key it wants more: {' or '.join(more)}. Let a key be enough for this user")
            return
    finally:
        identities.close()
    if refused:
        words = f"it does not take {' or '.join(refused)}{remarks}. Add one to its authorized_keys: {copy_key}"
        raise refusal(words)
    if identities.remarks:
        raise refusal(f"there is no key to log in with: {remarks.removeprefix('; ')}")
    words = "there is no key to log in with, neither in ~/.ssh nor in an SSH agent. Make one: ssh-keygen, then"
    raise refusal(f"{words} {copy_key}")
