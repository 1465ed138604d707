"""The daemon's side of MQTT: the embedded broker, and the gateway to the agents."""
