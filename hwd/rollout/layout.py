"""Layout: the paths of everything that belongs to an agent on a host."""

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

from hwd_drivers.core.errors import ConfigError

UNIT_PATH: Final = "/etc/systemd/system/hwd-agent.service"
RUN_LOCK: Final = "/run/hwd-agent-rollout.lock"
HIDDEN: Final = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
"""Hidden from the unit: ProtectHome, PrivateTmp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The paths of an agent on a host; `prefix` precedes all but the unit's, where `/opt` or `/etc` cannot be written.
    Without `unit` nothing is started, and nothing outside the prefix is changed.
    """

    prefix: str = ""
    root: str = field(init=False)
    """The environments, and the link `current` to the one in use."""
    config: str = field(init=False)
    state: str = field(init=False)
    """The spool, and the settings that runs have made."""
    unit: str = UNIT_PATH
    staging: str = field(init=False)
    """Where roll-outs copy to, each into a folder of its own. The remains of an interrupted one are removed by the
    next.
    """
    lock: str = field(init=False)
    """Locked by the one roll-out in progress: there is only one unit, whatever the prefix.

    In a folder where only root can create files, or, without root, in the user's home: in a folder of everybody any
    user of the host could take its name.
    """

    def __post_init__(self) -> None:
        if self.prefix and (not PurePosixPath(self.prefix).is_absolute() or ".." in PurePosixPath(self.prefix).parts):
            raise ConfigError(
                f"--prefix {self.prefix}: write the whole path of a folder on the hosts, such as /srv/hwd"
            )
        if self.unit and any(PurePosixPath(self.prefix).is_relative_to(one) for one in HIDDEN if self.prefix):
            raise ConfigError(
                f"--prefix {self.prefix}: the unit cannot see {', '.join(HIDDEN)}. "
                "Name another, such as /srv/hwd, or use --no-start"
            )
        if any(one.isspace() or one in "%$\\\"'" for one in self.prefix):
            raise ConfigError(
                f"--prefix {self.prefix}: a systemd unit cannot have blanks, quotes, % and $. Name another"
            )
        root = f"{self.prefix}/opt/hwd-agent"
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "config", f"{self.prefix}/etc/hwd/agent.yaml")
        object.__setattr__(self, "state", f"{self.prefix}/var/lib/hwd-agent")
        object.__setattr__(self, "staging", f"{self.prefix}/var/lib/hwd-agent-rollout")
        own = f"~/.hwd-agent-rollout-{sha256(root.encode()).hexdigest()[:8]}.lock"
        object.__setattr__(self, "lock", RUN_LOCK if self.unit else own)

    @property
    def needs_root(self) -> bool:
        """Whether anything belongs to root."""
        return not self.prefix or bool(self.unit)
