"""Request schemas of agents: lookup and heartbeat."""

from marshmallow import Schema, ValidationError

from app.agents.heartbeats import STATUSES
from app.api.values.value_types import CommaSeparated, Flat, Ident, Text, Uuid
from drivers.net.tls import is_certificates


class LookupQuery(Schema):
    addresses = CommaSeparated(metadata={"description": "MAC addresses"})
    node_uuid = Uuid()


class Certificates(Text):
    """Certificates in PEM format."""

    def _normalized(self, text: str) -> str:
        if not is_certificates(text):
            raise ValidationError("Must be certificates in PEM.")
        return text


class Heartbeat(Flat):
    callback_url = Text(2048, required=True)
    agent_token = Text(1024, allow_none=True)
    agent_version = Text(64, allow_none=True)
    agent_verify_ca = Certificates(65536, allow_none=True)
    agent_status = Text(allow_none=True, choices=STATUSES)
    agent_status_message = Text(65536, allow_none=True)


class NamedHeartbeat(Heartbeat):
    """Heartbeat that names its node in the body."""

    node_ident = Ident(required=True)
