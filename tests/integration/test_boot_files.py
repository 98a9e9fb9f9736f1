"""Removal of unused boot files; files in use and foreign files are kept."""

import dataclasses
import uuid

import pytest
from sqlalchemy import event

from workers.periodic import boot_files

UNKNOWN = str(uuid.uuid4())


@pytest.fixture
def site(inside, tmp_path):
    """Service with private directories of boot files."""
    settings = inside.runtime.settings
    inside.runtime.settings = dataclasses.replace(
        settings,
        deploy=dataclasses.replace(settings.deploy, http_root=str(tmp_path / "http")),
        pxe=dataclasses.replace(
            settings.pxe,
            tftp_root=str(tmp_path / "tftp"),
            instance_master_path=str(tmp_path / "kept"),
        ),
    )
    return inside


def create_files(root, node, use):
    folder = root / "nodes" / node / f"{use}-secret"
    folder.mkdir(parents=True)
    (folder / "config-0").touch()
    links = root / "pxelinux.cfg"
    links.mkdir(exist_ok=True)
    (links / f"{node}-{use}").symlink_to(f"../nodes/{node}/{use}-secret/config-0")


@pytest.mark.parametrize(
    ("state", "columns", "stay"),
    [
        ("available", {}, set()),
        ("active", {}, {"instance"}),
        ("active", {"reservation": "c-1"}, {"ramdisk", "instance"}),
        ("clean wait", {}, {"ramdisk", "instance"}),
        ("clean failed", {}, {"ramdisk", "instance"}),
        ("rescue", {}, {"instance"}),
    ],
)
def test_the_state_of_the_node_decides_which_files_are_kept(site, tmp_path, state, columns, stay):
    node = site.read(site.node(state, **columns)).uuid
    for root in (tmp_path / "http", tmp_path / "tftp"):
        for use in ("ramdisk", "instance"):
            create_files(root, node, use)
    boot_files.sweep(site.runtime)
    for root in (tmp_path / "http", tmp_path / "tftp"):
        uses = {path.name.partition("-")[0] for path in root.glob(f"nodes/{node}/*")}
        assert stay == uses
        assert {f"{node}-{use}" for use in stay} == {
            path.name for path in (root / "pxelinux.cfg").iterdir()
        }


def test_an_agent_that_is_kept_running_keeps_its_medium(site, tmp_path):
    node_id = site.node("available")
    site.agent(node_id)
    create_files(tmp_path / "http", site.read(node_id).uuid, "ramdisk")
    assert {"folders": 0, "copies": 0} == boot_files.sweep(site.runtime)


def test_files_created_while_the_rows_are_read_are_kept(site, tmp_path):
    node = site.read(site.node("active")).uuid
    create_files(tmp_path / "http", node, "instance")

    def begin(*_):
        create_files(tmp_path / "tftp", node, "ramdisk")

    event.listen(site.runtime.engine, "before_cursor_execute", begin, once=True)
    assert [] == boot_files.unused_folders(site.runtime)
    assert (tmp_path / "tftp" / "nodes" / node / "ramdisk-secret").is_dir()


def test_files_of_deleted_nodes_are_removed_and_foreign_files_are_kept(site, tmp_path):
    root = tmp_path / "http"
    create_files(root, UNKNOWN, "ramdisk")
    for path in ("nodes/notes/ramdisk-secret", f"nodes/{UNKNOWN}/mine-file", "boot/grub/i386-pc"):
        (root / path).mkdir(parents=True)
    assert 1 == boot_files.sweep(site.runtime)["folders"]
    assert [
        "boot/grub/i386-pc",
        f"nodes/{UNKNOWN}/mine-file",
        "nodes/notes/ramdisk-secret",
    ] == sorted(str(entry.relative_to(root)) for entry in root.glob("*/*/*"))
