"""Fixtures of all tests: databases of both kinds; and a summary that names unselected tests."""

import gc
import os
import shutil
import signal
import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from sqlalchemy import create_engine

from app.db import connections, schema
from app.db.sealing import NO_KEYS
from drivers.core import registry
from tests.support import postgresql
from tests.support.prerequisites import NOT_RUN, not_run

# on a busy machine, generating the examples takes longer
hypothesis_settings.register_profile(
    "busy", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("busy")

pytest_plugins = ["tests.support.rings"]


def pytest_configure():
    # a background job of a shell script ignores it, and so would the programs that tests interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # the default highlights the whole source of each frame, for seconds if the source is long
    structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the collector of garbage from the modules and tests, which live as long as the process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    for item in items:
        if "postgresql" in getattr(getattr(item, "callspec", None), "params", {}).values():
            item.add_marker("postgresql")


def pytest_terminal_summary(terminalreporter):
    missed = [
        (report.nodeid, report.longrepr[2].partition(NOT_RUN)[2])
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and NOT_RUN in report.longrepr[2]
    ]
    if missed:
        terminalreporter.section("NOT RUN", yellow=True, bold=True)
        for name, reason in missed:
            terminalreporter.line(f"{name}: {reason}")


@pytest.fixture(autouse=True)
def usual_umask():
    """Restore the umask, which commands that run inside the test process change."""
    mask = os.umask(0o022)
    yield
    os.umask(mask)


@pytest.fixture(autouse=True)
def usual_logging(monkeypatch):
    """Undo a test's configuration of logging, also in loggers that cache it."""
    configure = structlog.configure
    monkeypatch.setattr(
        structlog,
        "configure",
        lambda **options: configure(**{**options, "cache_logger_on_first_use": False}),
    )
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session", autouse=True)
def entry_points_read_once():
    """Cache the entry points of all packages: reading them is most of loading the drivers."""

    @cache
    def read(_path, group):
        return entry_points(group=group)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "entry_points", lambda *, group: read(tuple(sys.path), group))
        yield


@pytest.fixture(scope="session", autouse=True)
def statements_compiled_once():
    """
    Let engines without master keys share their dialect, and so the compiled statements: compiling
    them for each test is a quarter of the CPU time of the tests that have a service of their own.
    """
    connect, shared = connections.connect, {}

    def sharing(url, **options):
        engine = connect(url, **options)
        if (options.get("keyring") or NO_KEYS).masters:
            return engine
        shared_engine = shared.setdefault(engine.name, engine)
        if shared_engine.dialect.server_version_info is None:  # it has never had a connection
            shared[engine.name] = engine
        else:
            engine.dialect, engine._compiled_cache = (
                shared_engine.dialect,
                shared_engine._compiled_cache,
            )
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "connect", sharing)
        yield


@pytest.fixture(scope="session")
def postgresql_server():
    try:
        with postgresql.serving() as server:
            yield server
    except postgresql.NoServer as error:
        not_run(str(error))


@cache  # once per process: the forks of mutmut have it, too
def migrated():
    """Return an SQLite database with the newest schema, as bytes."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "ingot.db")
        schema.upgrade(f"sqlite:///{path}")
        engine = create_engine(f"sqlite:///{path}")
        with engine.connect() as connection:  # all of it into the one file
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        engine.dispose()
        return path.read_bytes()


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory):
    """Template file with the newest schema."""
    path = tmp_path_factory.mktemp("migrated") / "ingot.db"
    path.write_bytes(migrated())
    return path


@pytest.fixture(scope="session")
def migrated_postgresql(postgresql_server):
    """Name of a template database with the newest schema."""
    url = postgresql_server.database()
    schema.upgrade(url)
    return postgresql.name_of(url)


@pytest.fixture(scope="session")
def postgresql_copies(postgresql_server, migrated_postgresql):
    with postgresql_server.connect() as session:
        yield postgresql.Copies(postgresql_server, session, migrated_postgresql)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(request, tmp_path):
    """URL of a database without tables, of either kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ingot.db'}"
        return
    server = request.getfixturevalue("postgresql_server")
    url = server.database()
    yield url
    server.drop(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """URL of a database with the newest schema and no rows, of either kind."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "ingot.db")
        (tmp_path / "ingot.db").chmod(0o600)  # as the service creates it
        yield f"sqlite:///{tmp_path / 'ingot.db'}"
        return
    copies = request.getfixturevalue("postgresql_copies")
    url = copies.take()
    yield url
    copies.give_back(url)
