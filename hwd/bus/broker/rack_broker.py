"""RackBroker: amqtt's broker without two faults: lost messages while clients connect, and wrong retained messages."""

import asyncio
import logging
from typing import Any, Final

from amqtt.broker import Broker, BrokerContext
from amqtt.contexts import Action, BrokerConfig
from amqtt.plugins.base import BasePlugin, BaseTopicPlugin
from amqtt.plugins.manager import PluginManager
from amqtt.session import Session
from typing_extensions import override

from hwd_agents.bus.subscriptions import matches
from hwd_drivers.core.reason import reason_of

log = logging.getLogger(__name__)

NAMESPACE: Final = "amqtt.broker.plugins"
REFUSED: Final = 0x80
"""A subscription, in a SUBACK (MQTT 3.1.1, 3.9.3)."""


class RackBroker(Broker):
    """Overrides only public methods of amqtt 0.12.

    amqtt iterates over its subscriptions while clients connect and disconnect. Where it awaits something within that
    iteration, a message does not reach all subscribers, or a client that connects is dropped (RuntimeError). It awaits
    plugins there, which `DirectPlugins` prevents. It also awaits the sending of retained messages to a client that
    connects, for the subscriptions of all clients: so amqtt gets no retained messages. They are stored here, and sent
    to a client for its own subscriptions.
    """

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config)
        context = BrokerContext(self)
        context.config = self.config
        self.plugins_manager = DirectPlugins(NAMESPACE, context)
        self._retained: dict[str, tuple[bytes, int]] = {}  # by topic: payload, QoS
        self._sending: set[asyncio.Task[object]] = set()

    @override
    async def retain_message(
        self,
        source_session: Session | None,
        topic_name: str | None,
        data: bytes | bytearray | None,
        qos: int | None = None,
    ) -> None:
        if topic_name is None:
            return
        if data:
            self._retained[topic_name] = bytes(data), qos or 0
        else:
            self._retained.pop(topic_name, None)

    @override
    async def add_subscription(self, subscription: tuple[str, int], session: Session) -> int:
        code = await super().add_subscription(subscription, session)
        if code != REFUSED:
            self._send_retained(subscription[0], code, session)
        return code

    def _send_retained(self, topic_filter: str, most_qos: int, session: Session) -> None:
        """Send them after the SUBACK, which is sent in this iteration of the loop."""
        _, handler = self.sessions.get(session.client_id or "", (None, None))
        if handler is None:
            return
        for topic, (payload, qos) in self._retained.items():
            if matches(topic_filter, topic):
                sending = asyncio.ensure_future(handler.mqtt_publish(topic, payload, min(qos, most_qos), retain=True))
                self._sending.add(sending)
                sending.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[object]) -> None:
        self._sending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("a client did not take a retained message: %s", reason_of(error))


class DirectPlugins(PluginManager[BrokerContext]):
    """Calls the topic plugins in the task of the caller. amqtt starts a task for each and awaits it."""

    @override
    async def map_plugin_topic(
        self, *, session: Session, topic: str, action: Action
    ) -> dict[BasePlugin[Any], str | bool | None]:
        return {
            plugin: await plugin.topic_filtering(session=session, topic=topic, action=action)
            for plugin in self.plugins
            if isinstance(plugin, BaseTopicPlugin)
        }
