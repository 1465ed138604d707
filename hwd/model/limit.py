"""Limits on input from outside, and the callback that reports that one was reached."""

from collections.abc import Callable
from enum import StrEnum


class Limit(StrEnum):
    """A closed set: each is a value of the label `limit` of `hwd_limit_reached_total`, which begins at 0."""

    HTTP_HEAD = "http-head"
    """A request whose URL or header fields are too long."""
    HTTP_BODY = "http-body"
    """A request whose body is too long, by its header or by its bytes."""
    HTTP_DEPTH = "http-depth"
    """A body of JSON that is nested too deep."""
    HTTP_LATE = "http-late"
    """A request that was not complete in time; its connection was closed."""
    HTTP_CONNECTIONS = "http-connections"
    """A connection beyond the most that are open at once; it was closed."""
    MQTT_PACKET = "mqtt-packet"
    """A packet that is too long; its connection was closed."""
    MQTT_LATE = "mqtt-late"
    """A connection to the embedded broker without a CONNECT in time; it was closed."""
    MQTT_CONNECTIONS = "mqtt-connections"
    """A connection to the embedded broker beyond the most that are open at once; it was closed."""
    AGENT_BIRTH = "agent-birth"
    """A birth message of an agent that is larger than a host's can be, or that exceeds the rate at which
    they are accepted.
    """
    AGENT_STATE = "agent-state"
    """An agent reported that it is down more often than an agent does; the message was ignored."""
    AGENT_EVENTS = "agent-events"
    """More events of a host than are accepted in a time; they wait in its spool."""
    AGENT_ASKS = "agent-asks"
    """More asks of a host than are taken in a time; the others are not done, and answered so."""
    DESCRIPTORS = "descriptors"
    """The process has no file descriptor left for another connection; accepting pauses."""


Reached = Callable[[Limit, str], None]
"""Report that a limit was reached, with a short detail: by whom, how much, of how many. Cheap: call it each time."""
