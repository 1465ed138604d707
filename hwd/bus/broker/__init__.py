"""The MQTT broker inside the daemon, its users with their rights, and the same rules as files of Mosquitto."""

from hwd.bus.broker.embedded_broker import EmbeddedBroker
from hwd.bus.broker.logins import Logins
from hwd.bus.broker.user_rights import UserRights

__all__ = ["EmbeddedBroker", "Logins", "UserRights"]
