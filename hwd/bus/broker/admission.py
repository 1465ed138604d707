"""Admission: which clients may connect to the embedded broker, and what they may publish and read.

amqtt 0.12 ends the session of a client id before it checks who connects, never checks whether a will may be published,
and stores the messages for disconnected persistent sessions without limit.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from amqtt.adapters import BufferReader
from amqtt.contexts import Action
from amqtt.errors import AMQTTError, MQTTError, NoDataError
from amqtt.mqtt.connack import BAD_USERNAME_PASSWORD, NOT_AUTHORIZED
from amqtt.mqtt.connect import ConnectPacket
from amqtt.plugins.base import BaseAuthPlugin, BaseTopicPlugin
from amqtt.session import Session
from typing_extensions import override

from hwd.bus.broker.user_rights import UserRights
from hwd_drivers.core.errors import ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a client may not connect. `code`: the return code of the CONNACK."""

    code: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The users of the embedded broker, and their rights. `users`: passwords by name. Without users anybody may
    connect. `rights` None: each client may do everything.
    """

    users: Mapping[str, str] = field(default_factory=dict)
    rights: UserRights | None = None

    def password_matches(self, user: str | None, password: str | None) -> bool:
        """Whether the password of this user is right; compared in constant time."""
        expected = self.users.get(user or "", "")
        right = hmac.compare_digest(expected.encode(), (password or "").encode())
        return not self.users or (right and user in self.users)

    def refusal(self, connect: ConnectPacket) -> Refusal | None:
        """Why this CONNECT is refused; None where the client may connect."""
        if connect.will_flag and (wrong := _wrong_topic(connect.will_topic or "")):
            return Refusal(code=NOT_AUTHORIZED, why=f"its will has no topic that can be published to: {wrong}")
        user = connect.username if connect.username_flag else None
        if not self.users:
            return None
        if not user or not connect.password_flag:
            return Refusal(code=NOT_AUTHORIZED, why="it gives no user and password")
        if not self.password_matches(user, connect.password):
            why = "a wrong password" if user in self.users else "an unknown user"
            return Refusal(code=BAD_USERNAME_PASSWORD, why=f"it gives {why}")
        if self.rights is None:
            return None
        if not self.rights.may_be(user, connect.client_id or ""):
            return Refusal(code=NOT_AUTHORIZED, why=f"user {user} may not be this client")
        if not connect.clean_session_flag:
            return Refusal(
                code=NOT_AUTHORIZED, why="it asks for a session that outlives its connection, and none is kept here"
            )
        if connect.will_flag and not self.rights.may_publish(user, connect.will_topic or ""):
            return Refusal(code=NOT_AUTHORIZED, why=f"user {user} may not publish its will")
        return None


def _wrong_topic(topic: str) -> str:
    """What is wrong with the topic of a message (MQTT 3.1.1, 4.7); empty where it is right. amqtt checks PUBLISH only.

    Subscribers may disconnect on a wrong topic: after a retained will, each time that they connect.
    """
    if not topic:
        return "it is empty"
    return next((f"it has {each!r}" for each in "+#\0" if each in topic), "")


async def read_connect(packet: bytes) -> ConnectPacket:
    """Decode a CONNECT. Raises ProtocolError for any other packet."""
    try:
        return await ConnectPacket.from_stream(BufferReader(packet))
    except (AMQTTError, MQTTError, NoDataError) as error:
        raise ProtocolError(f"no CONNECT: {error}") from error


class AdmissionAuth(BaseAuthPlugin):
    """Checks the password again, in amqtt's own sequence. amqtt loads this class by its name."""

    @dataclass
    class Config:
        admission: Admission

    @override
    async def authenticate(self, *, session: Session) -> bool:
        admission: Admission = self.config.admission
        return admission.password_matches(session.username, session.password)


class AdmissionTopics(BaseTopicPlugin):
    """Checks each incoming message and each subscription. Outgoing messages go to subscribers only: no check."""

    @dataclass
    class Config:
        admission: Admission

    @override
    async def topic_filtering(
        self, *, session: Session | None = None, topic: str | None = None, action: Action | None = None
    ) -> bool:
        rights: UserRights | None = self.config.admission.rights
        if rights is None or action is Action.RECEIVE:
            return True
        user = (session.username if session is not None else None) or ""
        if action is Action.PUBLISH:
            return rights.may_publish(user, topic or "")
        return rights.may_read(user, topic or "")
