"""Subscriptions: the handlers of one client's messages, and the callbacks for its connection."""

import logging
from collections.abc import Callable
from functools import lru_cache

from paho.mqtt.client import topic_matches_sub

from hwd_agents.bus.protocol import Incoming

log = logging.getLogger(__name__)

TOPICS_MOST = 4096
"""Topics whose handlers are cached. The topics of our filters are few; a broker that is open to everybody could send
any number of others."""


matches = lru_cache(maxsize=TOPICS_MOST)(topic_matches_sub)
"""Whether a filter matches a topic (MQTT 3.1.1, 4.7)."""


class Subscriptions:
    """The filters of a client with their handlers, and the callbacks for its connects and disconnects: the part of a
    `Bus` that MqttBus and MemoryBus share.

    A client may subscribe with overlapping filters; brokers may then send it a message once or once for each filter.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.connected = False
        self._handlers: dict[str, list[Callable[[Incoming], None]]] = {}
        self._of_topic: dict[str, tuple[Callable[[Incoming], None], ...]] = {}
        self._ups: list[Callable[[], None]] = []
        self._downs: list[Callable[[str], None]] = []
        self._logged_down = False

    @property
    def filters(self) -> tuple[str, ...]:
        return tuple(self._handlers)

    def add(self, topic_filter: str, handler: Callable[[Incoming], None]) -> bool:
        """Return whether this filter is new, so that the client has to subscribe."""
        new = topic_filter not in self._handlers
        self._handlers.setdefault(topic_filter, []).append(handler)
        self._of_topic.clear()
        return new

    def on_up(self, call: Callable[[], None]) -> None:
        self._ups.append(call)

    def on_down(self, call: Callable[[str], None]) -> None:
        self._downs.append(call)

    def deliver(self, incoming: Incoming) -> None:
        handlers = self._of_topic.get(incoming.topic)
        if handlers is None:
            handlers = self._find(incoming.topic)
            if len(self._of_topic) < TOPICS_MOST:
                self._of_topic[incoming.topic] = handlers
        for handler in handlers:
            handler(incoming)

    def _find(self, topic: str) -> tuple[Callable[[Incoming], None], ...]:
        matching = (handlers for topic_filter, handlers in self._handlers.items() if matches(topic_filter, topic))
        return tuple(handler for handlers in matching for handler in handlers)

    def up(self) -> None:
        """The client is connected and has subscribed with all filters."""
        self.connected = True
        log.log(logging.INFO if self._logged_down else logging.DEBUG, "%s: connected", self.address)
        self._logged_down = False
        for call in self._ups:
            call()

    def down(self, cause: str) -> None:
        """The connection was lost, or could not be made: logged once until the next connect."""
        lost, self.connected = self.connected, False
        log.log(logging.DEBUG if self._logged_down else logging.WARNING, "%s: %s", self.address, cause)
        self._logged_down = True
        if lost:
            for call in self._downs:
                call(cause)
