"""Folders of nodes on the file servers, and the links into them."""

import pytest

from drivers.images import files

LINKS = {"52-54-00-00-00-01": "one", "52-54-00-00-00-02": "other"}


@pytest.mark.parametrize("removed", LINKS)
def test_a_link_that_another_operation_removes_meanwhile_is_no_error(
    tmp_path, monkeypatch, removed
):
    subdir = tmp_path / "pxelinux.cfg"
    subdir.mkdir()
    monkeypatch.setattr(files, "_subdir", lambda _options: subdir.name)
    folders = {}
    for name, node in LINKS.items():
        folders[node] = tmp_path / "nodes" / node / "ramdisk-1"
        folders[node].mkdir(parents=True)
        (folders[node] / "config").touch()
        (subdir / name).symlink_to(f"../nodes/{node}/ramdisk-1/config")

    path_class = type(subdir)
    is_symlink, readlink = path_class.is_symlink, path_class.readlink

    def vanishing(function):
        def looked_at(path):
            if path.name == removed:  # the other one is done with it at this moment
                path.unlink(missing_ok=True)
                return True if function is is_symlink else readlink(path)
            return function(path)

        return looked_at

    monkeypatch.setattr(path_class, "is_symlink", vanishing(is_symlink))
    monkeypatch.setattr(path_class, "readlink", vanishing(readlink))
    files.remove(None, folders["one"])
    monkeypatch.undo()
    assert not folders["one"].exists()
    assert folders["other"].exists()
    assert {*LINKS} - {removed, "52-54-00-00-00-01"} == {path.name for path in subdir.iterdir()}
