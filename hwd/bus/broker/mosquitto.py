"""The users and rules of the embedded broker as files of Mosquitto (2.0): passwords, topics and configuration."""

import hmac
from base64 import b64encode
from collections.abc import Mapping
from hashlib import pbkdf2_hmac, sha256
from pathlib import Path
from typing import Final

from hwd.bus.broker.logins import Logins
from hwd_agents.wire import topic
from hwd_drivers.core.errors import ConfigError

PASSWORDS, ACL, CONF = "passwords", "acl", "hwd.conf"
ITERATIONS: Final = 101
"""The number that mosquitto_passwd uses; more would protect weak passwords, and these have 160 bits."""
SALT_BYTES: Final = 12
MESSAGE_MOST_BYTES: Final = 1 << 20
"""The largest payload that the daemon accepts."""


def mosquitto_files(logins: Logins, folder: Path) -> Mapping[str, str]:
    """The texts of the files for `folder`, by name. The same secret and testbed give the same texts."""
    if any(one.isspace() for one in str(folder)):
        raise ConfigError(f"{folder}: Mosquitto takes no path with a blank in it. Name another with --out")
    return {
        PASSWORDS: "".join(f"{user}:{_hash(logins, user)}\n" for user in logins.users),
        ACL: _rules(logins),
        CONF: f"allow_anonymous false\npassword_file {folder / PASSWORDS}\nacl_file {folder / ACL}\n"
        f"message_size_limit {MESSAGE_MOST_BYTES}\nset_tcp_nodelay true\n",
    }


def _rules(logins: Logins) -> str:
    rights = logins.rights
    lines = [f"user {rights.daemon}", f"topic readwrite {topic(rights.testbed, '#', '').rstrip('/')}"]
    for host in sorted(rights.hosts):
        publishes, reads = rights.publishes(host), rights.reads(host)
        lines += ["", f"user {rights.user(host)}"]
        for name in dict.fromkeys((*publishes, *reads)):
            may = "readwrite" if name in publishes and name in reads else "write" if name in publishes else "read"
            lines.append(f"topic {may} {name}")
    return "\n".join(lines) + "\n"


def _hash(logins: Logins, user: str) -> str:
    """A hash in the format of mosquitto_passwd: PBKDF2 with SHA-512."""
    password = logins.password(user).encode()
    salt = hmac.new(password, b"salt of Mosquitto", sha256).digest()[:SALT_BYTES]
    key = pbkdf2_hmac("sha512", password, salt, ITERATIONS)
    return f"$7${ITERATIONS}${b64encode(salt).decode()}${b64encode(key).decode()}"
