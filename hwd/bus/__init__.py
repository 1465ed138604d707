"""The daemon's side of MQTT: the embedded broker, and the gateway to the agents."""

from hwd.bus.broker import EmbeddedBroker
from hwd.bus.gateway import Gateway
from hwd_agents.bus.mqtt import MqttBus
from hwd_agents.wire import Peer, Reply

__all__ = ["EmbeddedBroker", "Gateway", "MqttBus", "Peer", "Reply"]
