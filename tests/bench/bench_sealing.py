"""
Cost of encrypted secrets: CPU of node lists with a master key and without, in turns.

The API runs in this process, on SQLite and on PostgreSQL, with 1,000 nodes whose `driver_info` has
credentials. The answers are masked, as the default policy says; a list without `driver_info` reads
no secrets, and is the floor. The lowest figure of the rounds counts.
"""

import tempfile
import time
from base64 import b64encode
from pathlib import Path

from app.db import schema
from app.db.master_keys import Master
from app.db.sealing import Keyring
from app.rows import data_keys
from app.server.application import create_app
from tests.bench.bench_api import VERSION
from tests.support import postgresql
from tests.support.inside import Inside

VALUES = 20_000
ROUNDS, REQUESTS = 20, 5
KEY = {"INGOT_DATABASE_SECRETS_KEY": b64encode(bytes(32)).decode()}
PATHS = {
    "short list": "/v1/nodes?limit=1000",
    "list with driver_info": "/v1/nodes?limit=1000&fields=uuid,driver_info",
    "details": "/v1/nodes/detail?limit=1000",
}


def main(nodes):
    measure_values()
    with tempfile.TemporaryDirectory() as folder:
        paths = (Path(folder, f"{name}.db") for name in ("plain", "sealed"))
        measure("SQLite", [f"sqlite:///{path}" for path in paths], nodes or 1000)
    with postgresql.serving() as server:
        measure("PostgreSQL", [server.database(), server.database()], nodes or 1000)


def measure_values():
    """Print the CPU per value of writing and reading a document with one secret."""
    rows = [Master(bytes(32)).new_data_key()]
    keyring = Keyring([Master(bytes(32))], lambda: rows)
    place = "nodes.driver_info:6b4d6a0c-9a5c-4d1e-8a57-2f2d3c1b0a99"
    document = {"redfish_address": "https://10.0.0.1", "redfish_password": "secret"}
    stored = keyring.dumps(document, place)
    for action, work in {
        "write": lambda: keyring.dumps(document, place),
        "read": lambda: keyring.loads(stored, place),
    }.items():
        begin = time.process_time()
        for _ in range(VALUES):
            work()
        print(f"{action}: {(time.process_time() - begin) / VALUES * 1e6:.1f} microseconds")


def measure(database, urls, nodes):
    """Print the CPU per request on two databases, of which the second is encrypted."""
    clients = {
        name: prepared(url, nodes, **environ)
        for (name, environ), url in zip({"plain": {}, "sealed": KEY}.items(), urls, strict=True)
    }
    for label, path in PATHS.items():
        used = {name: [] for name in clients}
        for name, client in [*clients.items()] * ROUNDS:
            begin = time.process_time()
            for _ in range(REQUESTS):
                assert client.get(path, headers=VERSION).status_code == 200
            used[name].append((time.process_time() - begin) / REQUESTS * 1000)
        plain, sealed = (min(values) for values in used.values())
        print(
            f"{database}, {label}: {plain:.1f} ms plain, {sealed:.1f} ms sealed,"
            f" {(sealed / plain - 1) * 100:+.1f} %"
        )


def prepared(url, nodes, **environ):
    """Return a client of an API on a new database with nodes."""
    schema.upgrade(url)
    inside = Inside(url, **environ)
    if environ:
        data_keys.start(inside.settings.database)
        inside = inside.another()
    for number in range(nodes):
        inside.node(
            driver_info={
                "redfish_address": f"https://10.0.{number // 256}.{number % 256}",
                "redfish_username": "admin",
                "redfish_password": f"secret-{number}",
            },
        )
    client = create_app(inside.runtime).test_client()
    client.get(PATHS["details"], headers=VERSION)
    return client
