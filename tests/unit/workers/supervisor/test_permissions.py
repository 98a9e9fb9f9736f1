"""Permissions of files that hold secrets."""

import os
import subprocess

from app.config import settings
from tests.support.prerequisites import not_run
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

    findings = list(permissions.too_wide(complete))

    assert [(database, 0o600), (log, 0o600)] == [
        (finding.path, finding.allowed_mode) for finding in findings
    ]
    for finding in findings:
        finding.restrict()
    assert [] == list(permissions.too_wide(complete))


def test_a_key_that_a_container_engine_mounts_is_protected_by_its_host(tmp_path):
    if os.geteuid():
        not_run("only root may mount")
    data, key, source = tmp_path / "data", tmp_path / "master_key", "/proc/version"
    data.mkdir(mode=0o700)
    key.touch(mode=0o644)
    environ = {"INGOT_DATA_DIR": str(data), "INGOT_DATABASE_SECRETS_KEY_FILE": str(key)}
    complete = location.complete(settings.load(environ))
    assert [key] == [wide.path for wide in permissions.too_wide(complete)]
    subprocess.run(["mount", "--bind", source, key], check=True, timeout=60)
    try:
        assert [] == list(permissions.too_wide(complete))
    finally:
        subprocess.run(["umount", key], check=True, timeout=60)
