"""UserRights: which topics each user of the broker may publish and read. The daemon has one user, and each host one."""

from dataclasses import dataclass
from typing import Final, Self

from hwd.model.testbed import Testbed
from hwd_agents.wire import client_id, topic

HOST_PUBLISHES: Final = ("state", "birth", "event", "reply", "clock", "ask")
HOST_READS: Final = ("ack", "command", "clock", "answer")
"""Only the daemon publishes these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRights:
    """The rules of one testbed.

    The daemon may publish and read all of it; its user is the testbed's name, that of a host is `TESTBED.HOST`: no name
    has a dot.
    """

    testbed: str
    hosts: frozenset[str]

    @classmethod
    def of(cls, testbed: Testbed) -> Self:
        return cls(testbed=testbed.name, hosts=frozenset(testbed.hosts))

    @property
    def daemon(self) -> str:
        """The daemon's user; of `hwd agent` too."""
        return self.testbed

    def user(self, host: str) -> str:
        return f"{self.testbed}.{host}"

    def host(self, user: str) -> str | None:
        """The host of a user; None for the daemon's user, and for an unknown one."""
        testbed, _, name = user.partition(".")
        return name if testbed == self.testbed and name in self.hosts else None

    def may_publish(self, user: str, name: str) -> bool:
        """Whether a user may publish on the topic `name`, be it a message or its will."""
        if user == self.daemon:
            return name.startswith(self._all)
        host = self.host(user)
        return host is not None and name in self.publishes(host)

    def may_read(self, user: str, topic_filter: str) -> bool:
        """Whether a user may subscribe with a filter. A host may use its own topics only, without wildcards."""
        if user == self.daemon:
            return topic_filter.startswith(self._all)
        host = self.host(user)
        return host is not None and topic_filter in self.reads(host)

    def may_be(self, user: str, id: str) -> bool:
        """Whether a user may connect with a client id: a client that connects disconnects another of the same id.

        A host has the id of its agent, `hwd-TESTBED-HOST`, and all ids that begin with it and a dot.
        """
        if user == self.daemon:
            return True
        host = self.host(user)
        return host is not None and id.partition(".")[0] == client_id(self.testbed, host)

    def publishes(self, host: str) -> tuple[str, ...]:
        return tuple(topic(self.testbed, host, leaf) for leaf in HOST_PUBLISHES)

    def reads(self, host: str) -> tuple[str, ...]:
        return tuple(topic(self.testbed, host, leaf) for leaf in HOST_READS)

    @property
    def _all(self) -> str:
        return topic(self.testbed, "", "").removesuffix("/")
