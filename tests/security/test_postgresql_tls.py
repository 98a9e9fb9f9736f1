"""PostgreSQL over TLS: the URL of the database decides which certificate is accepted."""

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from app.db import connections
from tests.support import postgresql, tls
from tests.support.fleet import until
from tests.support.ports import free_port
from tests.support.prerequisites import not_run


@pytest.fixture
def server():
    """URL of a server that accepts TLS only, and the folder with its certificate."""
    with tempfile.TemporaryDirectory(prefix="ingot-pg-") as place:
        folder = Path(place)
        data, keys = folder / "server", folder / "keys"
        for subfolder in (data, keys):
            subfolder.mkdir()
        certificate, key = tls.certificate(keys, "postgresql")
        tls.certificate(keys, "stranger")
        if not os.geteuid():
            shutil.chown(key, postgresql.ACCOUNT, postgresql.ACCOUNT)
            folder.chmod(0o755)
        port = free_port()
        try:
            command = postgresql.initialised(
                str(data), listen_addresses="127.0.0.1", port=str(port), ssl="on",
                ssl_cert_file=str(certificate), ssl_key_file=str(key),
            )  # fmt: skip
        except postgresql.NoServer as error:
            not_run(str(error))
        rules = data / "data" / "pg_hba.conf"
        rules.write_text("hostssl all all 127.0.0.1/32 trust\n")
        with subprocess.Popen(
            command, stderr=subprocess.DEVNULL, cwd="/", **postgresql.as_account()
        ) as process:
            try:
                yield f"postgresql://{postgresql.ACCOUNT}@127.0.0.1:{port}/postgres", keys
            finally:
                process.terminate()


def encrypted(url):
    """Whether a connection of the service to a database is encrypted."""
    engine = connections.connect(url)
    try:
        with engine.connect() as connection:
            query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            return connection.scalar(text(query))
    finally:
        engine.dispose()


def answers(url):
    with suppress(OperationalError):
        return encrypted(url)


def test_the_certificate_of_the_server_is_verified(server):
    url, keys = server
    good = f"{url}?sslmode=verify-full&sslrootcert={keys}/postgresql.crt"
    until(lambda: answers(good), "PostgreSQL")
    assert encrypted(good)
    with pytest.raises(OperationalError, match="certificate verify failed"):
        encrypted(good.replace("postgresql.crt", "stranger.crt"))
    with pytest.raises(OperationalError, match=r"no encryption|no pg_hba"):
        encrypted(f"{url}?sslmode=disable")
