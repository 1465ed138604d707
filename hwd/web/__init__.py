"""The HTTP API, the event stream and the state that they show."""
