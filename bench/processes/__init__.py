"""Processes that the measurements start: twins, a raw listener, a bare publisher, an agent with an offset clock."""
