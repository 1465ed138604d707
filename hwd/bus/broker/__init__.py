"""The MQTT broker inside the daemon, its users with their rights, and the same rules as files of Mosquitto."""

from hwd.bus.broker.access import Access
from hwd.bus.broker.embedded import EmbeddedBroker
from hwd.bus.broker.logins import Logins

__all__ = ["Access", "EmbeddedBroker", "Logins"]
