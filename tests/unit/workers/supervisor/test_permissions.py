"""Permissions of files that hold secrets."""

from app.config import settings
from workers.supervisor import location, permissions


def test_a_database_outside_of_the_data_directory_that_others_may_read_is_found(tmp_path):
    data, database = tmp_path / "data", tmp_path / "elsewhere.db"
    log = tmp_path / "elsewhere.db-wal"
    data.mkdir(mode=0o700)
    for path in (database, log):
        path.touch()
        path.chmod(0o640)
    environ = {"INGOT_DATA_DIR": str(data), "INGOT_DATABASE_CONNECTION": f"sqlite:///{database}"}
    complete = location.complete(settings.load(environ))

    found = list(permissions.too_wide(complete))

    assert [(database, 0o600), (log, 0o600)] == [(each.path, each.allowed_mode) for each in found]
    for each in found:
        each.restrict()
    assert [] == list(permissions.too_wide(complete))
