"""What all tests share: databases of both kinds, and the honest report of what was not run."""

import os
import shutil
import sys
from functools import cache
from importlib.metadata import entry_points

import pytest
import structlog
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from sqlalchemy import create_engine

from app.db import schema
from drivers.core import registry
from tests.support import postgresql
from tests.support.prerequisites import NOT_RUN, not_run

# a busy machine makes the same examples more slowly
hypothesis_settings.register_profile(
    "busy", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("busy")

pytest_plugins = ["tests.support.rings"]


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
        for name, why in missed:
            terminalreporter.line(f"{name}: {why}")


@pytest.fixture(autouse=True)
def usual_umask():
    """Commands that are run inside the test process set its umask for good."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def usual_logging(monkeypatch):
    """Logging that a test configures ends with it, and no logger keeps that configuration."""
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
    """Reading the entry points of all installed packages is most of loading the drivers."""

    @cache
    def read(_path, group):
        return entry_points(group=group)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "entry_points", lambda *, group: read(tuple(sys.path), group))
        yield


@pytest.fixture(scope="session")
def postgresql_server():
    try:
        with postgresql.serving() as server:
            yield server
    except postgresql.NoServer as error:
        not_run(str(error))


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory):
    """A file with the newest schema, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "ingot.db"
    schema.upgrade(f"sqlite:///{path}")
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:  # all of it into the one file that is copied
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    engine.dispose()
    return path


@pytest.fixture(scope="session")
def migrated_postgresql(postgresql_server):
    """The name of a database with the newest schema, to be copied."""
    url = postgresql_server.database()
    schema.upgrade(url)
    return postgresql.name_of(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(request, tmp_path):
    """The URL of a database without any table, of either kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ingot.db'}"
        return
    server = request.getfixturevalue("postgresql_server")
    url = server.database()
    yield url
    server.drop(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """The URL of a database with the newest schema and no rows, of either kind."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "ingot.db")
        yield f"sqlite:///{tmp_path / 'ingot.db'}"
        return
    server = request.getfixturevalue("postgresql_server")
    url = server.database(request.getfixturevalue("migrated_postgresql"))
    yield url
    server.drop(url)
