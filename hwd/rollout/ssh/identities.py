"""The keys that we log in with, in the order in which OpenSSH's client tries them (ssh_config(5), IdentitiesOnly)."""

import base64
import binascii
import socket
import struct
from dataclasses import dataclass
from typing import Final, Self

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.pkey import PublicBlob, UnknownKeyType
from typing_extensions import override

from hwd.rollout.ssh.ssh_settings import Algorithms, SshSettings
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.user_file import SECRET_BYTES_MAX, read_user_file

AGENT_S: Final = 20.0
"""For an answer of the SSH agent, which may ask its user."""
REQUEST_IDENTITIES: Final = 11
IDENTITIES_ANSWER: Final = 12
SIGN_REQUEST: Final = 13
SIGN_RESPONSE: Final = 14
"""Types of messages (draft-ietf-sshm-ssh-agent, 5.1)."""
SIGN_FLAGS: Final = {"rsa-sha2-256": 2, "rsa-sha2-512": 4}
RSA_KINDS: Final = ("ssh-rsa", "rsa-sha2-256", "rsa-sha2-512")
"""Algorithms of one kind of key."""
ANSWER_BYTES: Final = 1 << 20
"""Longer than any answer of an agent."""
OPENSSH_MAGIC: Final = b"openssh-key-v1\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A key to try. `source` is its place, for messages; `certificate` is sent in place of the public key."""

    key: paramiko.PKey
    source: str
    certificate: PublicBlob | None = None


class AgentKey(paramiko.PKey):
    """A key whose private part is in an SSH agent."""

    def __init__(self, agent: "SshAgent", blob: bytes, comment: bytes) -> None:
        self.public_blob = None
        self.blob = blob
        self.comment = comment.decode(errors="replace")
        self._agent = agent
        self._kind = paramiko.Message(blob).get_text()

    @override
    def asbytes(self) -> bytes:
        return self.blob

    @override
    def get_name(self) -> str:
        return self._kind

    @override
    def can_sign(self) -> bool:
        return True

    @override
    def sign_ssh_data(self, data: bytes, algorithm: str | None = None) -> paramiko.Message:
        try:
            return paramiko.Message(self._agent.sign(self.blob, data, SIGN_FLAGS.get(algorithm or "", 0)))
        except OSError as error:  # an error of another kind ends the thread of paramiko, and its login waits in vain
            self._agent.trouble = (
                f"the SSH agent does not sign with {self.comment}: {error.strerror or reason_of(error)}"
            )
            raise paramiko.SSHException(self._agent.trouble) from error


class SshAgent:
    """A connection to an SSH agent, for one login. Raises OSError where it does not answer as one."""

    def __init__(self, path: str) -> None:
        self.trouble = ""
        """Why the agent did not sign."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(AGENT_S)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise

    def keys(self) -> list[AgentKey]:
        answer = self._ask(paramiko.Message(bytes([REQUEST_IDENTITIES])), IDENTITIES_ANSWER)
        return [AgentKey(self, answer.get_binary(), answer.get_binary()) for _ in range(answer.get_int())]

    def sign(self, blob: bytes, data: bytes, flags: int) -> bytes:
        request = paramiko.Message()
        request.add_byte(bytes([SIGN_REQUEST]))
        request.add_string(blob)
        request.add_string(data)
        request.add_int(flags)
        return self._ask(request, SIGN_RESPONSE).get_binary()

    def close(self) -> None:
        self._socket.close()

    def _ask(self, request: paramiko.Message, answer: int) -> paramiko.Message:
        data = request.asbytes()
        self._socket.sendall(struct.pack(">I", len(data)) + data)
        (size,) = struct.unpack(">I", self._receive(4))
        if not 0 < size <= ANSWER_BYTES:
            raise OSError(f"its answer has {size} bytes")
        said = paramiko.Message(self._receive(size))
        if (kind := said.get_byte()[0]) != answer:
            raise OSError(f"it refuses (message {kind}). Is it locked?")
        return said

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            if not (more := self._socket.recv(size - len(data))):
                raise OSError("it hung up")
            data += more
        return data


@dataclass(slots=True, kw_only=True)
class Identities:
    """The keys to try, and what was found of those that cannot be tried."""

    to_try: list[Identity]
    remarks: list[str]
    agent: SshAgent | None

    @classmethod
    def find(cls, settings: SshSettings) -> Self:
        """Look for them, blocking. In this order, as `pubkey_prepare` in sshconnect2.c: certificates, keys of the agent
        that a file names, its others, keys that only files have.
        """
        remarks: list[str] = []
        agent, held = _agent_keys(settings.agent, remarks)
        by_blob = {key.blob: key for key in held}
        certificates, files, named = [], [], set()
        for path in settings.keys:
            blob = _public_blob(path)
            key: paramiko.PKey | None = None if blob is None else by_blob.get(blob)
            if blob is not None and key is not None:
                named.add(blob)
            elif (key := _private_key(path, remarks)) is not None:
                files.append(Identity(key=key, source=path))
            if key is not None and (certificate := _public(f"{path}-cert.pub")) is not None:
                certificates.append(Identity(key=key, source=f"{path}-cert.pub", certificate=certificate))
        others = [] if settings.keys_only else [key for key in held if key.blob not in named]
        offered = [*(key for key in held if key.blob in named), *others]
        of_agent = [Identity(key=key, source=f"{key.comment} of the SSH agent") for key in offered]
        to_try = [one for one in (*certificates, *of_agent, *files) if _is_allowed(one, settings.algorithms, remarks)]
        return cls(to_try=to_try, remarks=remarks, agent=agent)

    def close(self) -> None:
        if self.agent is not None:
            self.agent.close()


def rsa_bits(blob: bytes) -> int | None:
    """The length of an RSA key; None of another kind."""
    message = paramiko.Message(blob)
    if message.get_text() != "ssh-rsa":
        return None
    message.get_mpint()
    return int(message.get_mpint()).bit_length()


def _agent_keys(path: str | None, remarks: list[str]) -> tuple[SshAgent | None, list[AgentKey]]:
    if path is None:
        return None, []
    agent: SshAgent | None = None
    try:
        agent = SshAgent(path)
        return agent, agent.keys()
    except OSError as error:
        if agent is not None:
            agent.close()
        remarks.append(f"the SSH agent at {path} gives no keys: {error.strerror or reason_of(error)}")
        return None, []


def _is_allowed(identity: Identity, algorithms: Algorithms, remarks: list[str]) -> bool:
    kind = identity.key.get_name() if identity.certificate is None else identity.certificate.key_type
    kinds = {kind.replace("ssh-rsa", one) for one in RSA_KINDS}  # one of them where it is another kind
    if algorithms.user_keys and not kinds.intersection(algorithms.user_keys):
        remarks.append(f"PubkeyAcceptedAlgorithms does not allow {kind}, the kind of {identity.source}")
        return False
    bits = rsa_bits(identity.key.asbytes())
    if bits is not None and bits < algorithms.rsa_least_bits:
        remarks.append(f"{identity.source} has {bits} bits, and RequiredRSASize is {algorithms.rsa_least_bits}")
        return False
    return True


def _public_blob(path: str) -> bytes | None:
    """The public key of a file: in itself, in the one beside it, or in front of an encrypted private key."""
    for one in (path, f"{path}.pub"):
        if (public := _public(one)) is not None:
            return public.key_blob
    try:
        text = read_user_file(path, most_bytes=SECRET_BYTES_MAX).data
    except ConfigError:
        return None
    if not text.startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----"):
        return None
    try:
        data = base64.b64decode(b"".join(text.split(b"\n")[1:]).partition(b"-")[0])
    except binascii.Error:
        return None
    if not data.startswith(OPENSSH_MAGIC):
        return None
    head = paramiko.Message(data.removeprefix(OPENSSH_MAGIC))
    for _ in ("cipher", "kdf", "options of the kdf"):
        head.get_binary()
    head.get_int()
    return head.get_binary()


def _public(path: str) -> PublicBlob | None:
    """The key or certificate of one line of text; None where there is no such file, or it is something else."""
    try:
        data = read_user_file(path, most_bytes=SECRET_BYTES_MAX).data
        return PublicBlob.from_string(data.decode(errors="replace"))
    except (ConfigError, ValueError):
        return None


def _private_key(path: str, remarks: list[str]) -> paramiko.PKey | None:
    try:
        # else paramiko would wait for the writer of a FIFO
        text = read_user_file(path, most_bytes=SECRET_BYTES_MAX).data
    except ConfigError as error:
        remarks.append(str(error))
        return None
    if b"PRIVATE KEY-----" not in text:
        words = "is a public key, whose private key the SSH agent does not have" if _public(path) else "is no key"
        remarks.append(f"{path} {words}")
        return None
    try:
        key = paramiko.PKey.from_path(path)
    except (paramiko.PasswordRequiredException, TypeError):  # cryptography's word for a passphrase that is missing
        remarks.append(f"the key file {path} has a passphrase. Load it into an agent: ssh-add {path}")
        return None
    except (ValueError, OSError, paramiko.SSHException, UnknownKeyType, UnsupportedAlgorithm) as error:
        remarks.append(f"{path} cannot be read as a private key: {reason_of(error)}")
        return None
    key.public_blob = None
    return key
