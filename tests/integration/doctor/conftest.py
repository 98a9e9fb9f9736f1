"""A service whose inconsistencies `ingot doctor` examines."""

from base64 import b64encode

import pytest

from app.broker import redis_broker
from app.config import settings
from app.db import master_keys
from app.db.clock import after, now
from app.models import BeatLease, Node, Watermark
from app.rows import data_keys
from workers.doctor import examination

NOBODY = "00000000-0000-4000-8000-000000000000"
KEY = b64encode(bytes(32)).decode()


class Ward:
    """A service, and the findings of its doctor."""

    def __init__(self, inside, redis_url, folder):
        self.inside, self.url, self.folder = inside, redis_url, folder
        self.environ = {
            "INGOT_DATABASE_CONNECTION": inside.url,
            "INGOT_BROKER_URL": redis_url,
            "INGOT_CONDUCTOR_LEASE_TTL": "0.5",
            "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "600",  # no process sends heartbeats
            "INGOT_DEPLOY_HTTP_ROOT": str(folder),
            "INGOT_DATA_DIR": str(folder / "data"),
            "INGOT_DATABASE_SECRETS_KEY": KEY,
        }
        self.redis = redis_broker.client(redis_url, 2)
        self.claimant = inside.conductor("c-1", heartbeat_at=now())
        with inside.runtime.transaction() as session:
            session.add(BeatLease(id=1, holder="a beat", until=after(600)))
            session.add(Watermark(id=1, level=7))
            data_keys.rotate(session.connection(), master_keys.masters_of(KEY))

    def examine(self, *, fix=False, **environ):
        """Run the doctor; return (check, repaired) of each finding."""
        self.findings = examination.examine(settings.load({**self.environ, **environ}), fix=fix)
        return [(finding.check, finding.repaired) for finding in self.findings]

    def cleaning(self):
        """Request a clean of a new node: (id of the node, UUID of the operation)"""
        node = self.inside.node("manageable")
        return node, self.inside.request(node, "provide")

    def without_references(self, *changes):
        """Change rows without checks of foreign keys."""
        with self.inside.runtime.engine.connect() as connection:
            sqlite = connection.dialect.name == "sqlite"
            off, on = (
                ("PRAGMA foreign_keys=OFF", "PRAGMA foreign_keys=ON")
                if sqlite
                else ("SET session_replication_role = replica", "SET session_replication_role = origin")
            )  # fmt: skip
            raw = connection.connection.driver_connection
            connection.rollback()
            raw.execute(off)
            with connection.begin():
                for change in changes:
                    connection.execute(change)
            raw.execute(on)
            if not sqlite:
                raw.commit()


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(examination, "PAUSE", 0.01)
    monkeypatch.setattr(examination.environment_checks, "PING_TIMEOUT", 0.05)


@pytest.fixture
def ward(inside, redis_url, tmp_path):
    service = Ward(inside, redis_url, tmp_path / "httpboot")
    yield service
    service.redis.close()


def reservation(ward):
    ward.inside.change(Node, ward.inside.node("available"), reservation="c-1")
