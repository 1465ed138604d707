"""The MQTT broker inside the daemon, who may do what at a broker, and the files with which Mosquitto holds the same rules."""

from hwd.bus.broker.access import Access
from hwd.bus.broker.embedded import EmbeddedBroker
from hwd.bus.broker.logins import Logins

__all__ = ["Access", "EmbeddedBroker", "Logins"]
