"""The config drives' real reader: cloud-init, from Debian's package, which is not installed."""

import base64
import gzip
import json
import os
import shutil
import subprocess
import sys

from tests.support import debian
from tests.support.prerequisites import not_run

#: Prints the data that cloud-init reads from a folder, as an instance would get them.
_READ = """
import json, sys
from cloudinit.sources import DataSourceConfigDrive as config_drive, convert_vendordata
from cloudinit.sources.helpers import openstack
read = config_drive.read_config_drive(sys.argv[1])
network, user_data = read.get("networkdata"), read["userdata"]
print(json.dumps({
    "instance": read["metadata"]["instance-id"],
    "name": read["metadata"].get("name"),
    "hostname": read["metadata"].get("local-hostname"),
    "keys": read["metadata"].get("public_keys"),
    "user_data": user_data.decode() if isinstance(user_data, bytes) else user_data,
    "network": network and openstack.convert_net_json(network, known_macs={"52:54:00:00:00:01": "eth0"}),
    "vendor_data": convert_vendordata(read.get("vendordata2")),
}))
"""


def read_folder(folder):
    """Return what cloud-init reads from the files of a config drive; None: it ignores them."""
    unpacked = debian.unpacked("cloud-init", "python3-configobj")
    if unpacked is None:
        not_run("the packages cloud-init and python3-configobj of Debian")
    environ = {**os.environ, "PYTHONPATH": str(unpacked / "usr/lib/python3/dist-packages")}
    reader = subprocess.run(
        [sys.executable, "-c", _READ, folder], env=environ, check=False, capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    if reader.returncode == 0:
        return json.loads(reader.stdout)
    assert any(error in reader.stderr for error in ("BrokenMetadata", "NonReadable")), reader.stderr
    return None


def read_drive(drive, folder):
    """
    Return what cloud-init reads from a config drive for the agent, a gzipped ISO image in base64.

    The image is found by its label, and its files are read by a reader that did not write them.
    """
    image = folder / "drive.iso"
    image.write_bytes(gzip.decompress(base64.b64decode(drive, validate=True)))
    assert "config-2" == _label(image)
    extract("/", image, folder / "drive")
    return read_folder(folder / "drive")


def extract(path, image, folder):
    """Write a path of an ISO 9660 image to a folder, by the names of Rock Ridge."""
    arguments = ["-osirrox", "on", "-indev", image, "-extract", path, folder]
    subprocess.run([xorriso(), *arguments], check=True, capture_output=True, timeout=60)
    subprocess.run(["chmod", "-R", "u+rwX", folder], check=True)


def xorriso():
    program = debian.provide(lambda: shutil.which("xorriso"), "xorriso")
    if program is None:
        not_run("xorriso")
    return program


def _label(image):
    """Return the label by which the instance's system finds the drive."""
    find = lambda: shutil.which("blkid", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")  # noqa: E731
    program = debian.provide(find, "util-linux")
    if program is None:
        not_run("blkid")
    command = [program, "-p", "-o", "value", "-s", "LABEL", image]
    process = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return process.stdout.strip()
