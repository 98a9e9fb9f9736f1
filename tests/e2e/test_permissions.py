"""The service's data is readable by its own user; boot files also by the file server's group."""

import grp
import os
import sqlite3
import stat

import requests

from drivers.simulator.simulator import running
from tests.support.fleet import AGENTS, ROOT, Fleet, until
from tests.support.ports import free_port

#: Slow enough to check a machine's boot files before they are removed.
PACE = {"boot_seconds": 5, "heartbeat_gap": 0.3, "retry_factor": 0.05, "step_seconds": 0.1}


def modes(folder):
    """Return path below the folder -> its permissions; links have none."""
    paths = [folder, *(path for path in folder.rglob("*") if not path.is_symlink())]
    return {
        path.relative_to(folder).as_posix(): stat.S_IMODE(path.lstat().st_mode) for path in paths
    }


def served(fleet, port, simulator):
    """Path of the boot image of a machine, after the machine has fetched it."""
    nodes = fleet.enrol(simulator, ramdisk=True)
    fleet.provision(nodes, "manage")
    fleet.await_state(nodes, "manageable")
    fleet.provision(nodes, "provide")
    root = fleet.data / "httpboot"
    (image,) = until(lambda: list(root.glob("nodes/*/*/boot.iso")), "an image")
    answer = requests.get(f"http://127.0.0.1:{port}/{image.relative_to(root)}", timeout=10)
    assert 200 == answer.status_code
    assert answer.content == image.read_bytes()
    return image


def another_group():
    """(name, number) of a secondary group of this process, which may own files."""
    may = [group.gr_gid for group in grp.getgrall()] if os.geteuid() == 0 else os.getgroups()
    number = next((group_id for group_id in may if group_id != os.getegid()), os.getegid())
    return grp.getgrgid(number).gr_name, number


def up(folder, port, **environ):
    ours = {
        "INGOT_DEPLOY_HTTP_PORT": str(port),
        "INGOT_ESP_IMAGE": str(ROOT / "LICENSE"),  # no firmware reads it
    }
    return Fleet(folder, conductors=1, **AGENTS, **ours, **environ)


def test_other_users_cannot_read_the_data_directory_and_boot_files_are_served(tmp_path):
    port = free_port()
    with running(machines=1, **PACE) as simulator, up(tmp_path, port) as fleet:
        image = served(fleet, port, simulator)
        modes_by_path = modes(fleet.data)
    assert {"ingot.db", "ingot.db-wal", "redis", "redis.log", "httpboot", "master_images"} < set(
        modes_by_path
    )
    assert any(path.endswith(".aof") for path in modes_by_path)
    # Ironic's setting gives images their own mode; the folders above them are closed
    assert 0o644 == modes_by_path.pop(image.relative_to(fleet.data).as_posix())
    assert {} == {path: f"{mode:o}" for path, mode in modes_by_path.items() if mode & 0o077}


def test_open_permissions_left_by_an_older_release_are_tightened(tmp_path):
    data = tmp_path / "data"
    (data / "redis").mkdir(parents=True)
    with sqlite3.connect(data / "ingot.db") as database:
        database.execute("CREATE TABLE there_was_one (id int)")
    database.close()
    assert {0o755, 0o644} == set(modes(data).values())
    with up(tmp_path, free_port()) as fleet:
        assert {} == {path: f"{mode:o}" for path, mode in modes(data).items() if mode & 0o077}
        tightened = {line["path"] for line in fleet.log("permissions.tightened")}
    assert {str(data), str(data / "redis"), str(data / "ingot.db")} == tightened


def test_a_directory_with_foreign_files_is_left_as_it_is_with_a_warning(tmp_path):
    data = tmp_path / "data"
    (data / "photographs").mkdir(parents=True)
    with up(tmp_path, free_port()) as fleet:
        assert [str(data)] == [line["path"] for line in fleet.log("permissions.too_wide")]
        modes_by_path = modes(data)
    assert 0o755 == modes_by_path.pop(".")
    assert 0o755 == modes_by_path.pop("photographs")
    assert {} == {path: f"{mode:o}" for path, mode in modes_by_path.items() if mode & 0o077}


def test_the_group_of_a_file_server_can_read_boot_files_only(tmp_path):
    name, group = another_group()
    port = free_port()
    with (
        running(machines=1, **PACE) as simulator,
        up(tmp_path, port, INGOT_DEPLOY_SERVED_GROUP=name) as fleet,
    ):
        image = served(fleet, port, simulator)
        modes_by_path = modes(fleet.data)
        way = [image, *(parent for parent in image.parents if parent.is_relative_to(fleet.data))]
        assert {group} == {path.stat().st_gid for path in way}
    assert 0o710 == modes_by_path["."]
    shared = {
        path for path in modes_by_path if path.startswith(("httpboot", "tftpboot", "master_images"))
    }
    assert [] == [path for path in shared if not modes_by_path[path] & 0o040]
    assert [] == [
        path for path in modes_by_path.keys() - shared - {"."} if modes_by_path[path] & 0o077
    ]
    assert [] == [
        path
        for path in modes_by_path
        if modes_by_path[path] & 0o007 and not path.endswith("boot.iso")
    ]
