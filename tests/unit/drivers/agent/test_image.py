"""Checks of an image before a machine is booted for it, and its description for the agent."""

import bz2
import gzip
import hashlib
import io
import lzma
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path
from urllib.parse import quote

import pytest

from drivers.agent import image
from drivers.core.errors import BadImage, InvalidDriverInfo, Unreachable
from drivers.images import checksums, published
from tests.support import debian
from tests.support.prerequisites import not_run
from tests.unit.drivers.machines import changed_options, target

MBR = bytes(510) + b"\x55\xaa" + bytes(1 << 20)
QCOW2 = b"QFI\xfb\0\0\0\3" + bytes(16) + (3 << 30).to_bytes(8, "big") + bytes(480)
SHA256, SHA512, MD5 = "a" * 64, "b" * 128, "c" * 32
STATED = {"image_source": "http://images/disk.raw", "image_checksum": SHA256}
PARTITION = {"image_type": "partition", "root_gb": 2}


@pytest.fixture
def images(images):
    images.files = {"/disk.raw": MBR, "/disk.qcow2": QCOW2}
    return images


def node(images, path="/disk.raw", changed=None, properties=None, **info):
    return target(
        interfaces={"deploy": "direct"},
        instance_info={"image_source": images.url + path, "image_checksum": SHA256} | info,
        options=changed_options(**(changed or {})),
        properties=properties or {},
    )


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"image_source": None}, "image_source is required"),
        ({"image_source": "9f4c4fd8-glance-id"}, "neither a URL nor the UUID of an image"),
        ({"image_source": "s3://images/disk"}, "no http, https or file URL"),
        ({"image_source": "file:///disk"}, "files may only lie in no directory"),
        ({"image_download_source": "swift"}, "instance_info/image_download_source"),
        ({"image_download_source": "local"}, "http_url is not set"),
        ({"image_checksum": None}, "image_checksum"),
        ({"image_checksum": "0123"}, "neither sha256, sha384, sha512 nor"),
        ({"image_checksum": MD5}, "md5 is refused"),
        ({"image_os_hash_algo": "sha256"}, "image_os_hash_value"),
        ({"image_os_hash_algo": "md5", "image_os_hash_value": MD5}, "md5 is refused"),
        ({"image_os_hash_algo": "crc32", "image_os_hash_value": "1"}, "'crc32' is none of"),
        ({"image_os_hash_algo": "sha512", "image_os_hash_value": SHA256}, "128 hexadecimal"),
        ({"image_type": "partition"}, "root_gb"),
        ({"image_type": "tarball"}, "neither whole-disk nor partition"),
        ({"image_rootfs_uuid": 7}, "instance_info/image_rootfs_uuid: 7 is not a string"),
        ({"swap_mb": "much"}, "swap_mb"),
        ({"image_server_auth_strategy": "http_basic"}, "image_server_user is required"),
    ],
)
def test_a_wrong_field_of_an_image_is_named(wrong, field):
    with pytest.raises(InvalidDriverInfo, match=field):
        image.validate(target(instance_info=STATED | wrong))


@pytest.mark.parametrize(
    ("info", "algorithm"),
    [
        ({"image_checksum": SHA256}, "sha256"),
        ({"image_checksum": SHA512}, "sha512"),
        ({"image_os_hash_algo": "SHA512", "image_os_hash_value": SHA512}, "sha512"),
    ],
)
def test_a_checksum_is_passed_on_with_its_algorithm(images, info, algorithm):
    examination = image.examine(node(images, **info))
    assert (algorithm, (info.get("image_os_hash_value") or info["image_checksum"])) == (
        examination["os_hash_algo"],
        examination["os_hash_value"],
    )


def test_md5_is_accepted_if_settings_allow_it(images):
    allowed = node(images, changed={"agent__allow_md5_checksum": True}, image_checksum=MD5)
    assert "md5" == image.examine(allowed)["os_hash_algo"]


@pytest.mark.parametrize(
    "text",
    [
        SHA256,
        f"# of today\n{'d' * 64}  other.raw\n{SHA256}  disk.raw\n",
        f"{SHA256} *./build/disk.raw",
        f"MD5 (disk.raw) = {MD5}\nSHA256 (disk.raw) = {SHA256}\n",
    ],
)
def test_the_checksum_of_an_image_is_found_in_a_checksum_file(images, text):
    images.files["/SUMS"] = text.encode()
    examination = image.examine(node(images, image_checksum=f"{images.url}/SUMS"))
    assert SHA256 == examination["os_hash_value"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"{SHA256}  other.raw", "/SUMS holds no checksum of 'disk.raw'"),
        ("<html>", "/SUMS holds no checksum"),
        (None, "/SUMS cannot be fetched: the server answered 404"),
    ],
)
def test_a_file_without_the_images_checksum_is_named(images, text, complaint):
    if text:
        images.files["/SUMS"] = text.encode()
    with pytest.raises(BadImage, match=complaint):
        image.examine(node(images, image_checksum=f"{images.url}/SUMS"))


@pytest.mark.parametrize(
    ("path", "content", "info", "disk_format"),
    [
        ("/disk.raw", MBR, {}, "raw"),
        ("/disk.raw", MBR, {"image_disk_format": "raw"}, "raw"),
        ("/disk.raw", bytes(512) + b"EFI PART" + bytes(512), {}, "raw"),
        ("/disk.qcow2", QCOW2, {}, "qcow2"),
        ("/disk", b"who knows" * 100, {}, None),
        ("/disk", b"who knows" * 100, {"image_disk_format": "raw"}, "raw"),
    ],
)
def test_the_format_of_an_image_is_detected_or_left_to_the_agent(
    images, path, content, info, disk_format
):
    images.files[path] = content
    assert disk_format == image.examine(node(images, path, **info))["disk_format"]


@pytest.mark.parametrize("declared_format", [{}, {"image_disk_format": "qcow2"}], ids=str)
def test_an_unsafe_image_is_refused_unless_settings_trust_images(images, declared_format):
    images.files["/disk.qcow2"] = QCOW2[:8] + b"\1" + QCOW2[9:]
    with pytest.raises(BadImage, match=r"/disk\.qcow2 must not be written: it has a backing"):
        image.examine(node(images, "/disk.qcow2", **declared_format))
    trusting = {"conductor__disable_deep_image_inspection": True}
    assert image.examine(node(images, "/disk.qcow2", changed=trusting, **declared_format))


@pytest.mark.parametrize(
    ("path", "info", "properties", "complaint"),
    [
        ("/none", {}, {}, "/none cannot be fetched: the server answered 404"),
        (
            "/disk.qcow2",
            {"image_disk_format": "raw"},
            {},
            "is qcow2, but .*image_disk_format says raw",
        ),
        ("/disk.raw", {"image_disk_format": "vmdk"}, {}, "is raw, but"),
        ("/disk.vmdk", {}, {}, "is vmdk; only raw, gpt, qcow2, iso may be deployed"),
        ("/disk.qcow2", PARTITION, {}, "takes 3072 MiB, more than the 2048 MiB of"),
        ("/disk.big", {}, {"memory_mb": 2}, "has 3 MiB, but the agent has only 2 MiB of memory"),
    ],
)
def test_an_image_that_cannot_be_deployed_is_refused(images, path, info, properties, complaint):
    images.files |= {"/disk.vmdk": b"KDMV" + bytes(600), "/disk.big": QCOW2 + bytes(3 << 20)}
    with pytest.raises(BadImage, match=complaint):
        image.examine(node(images, path, properties=properties, **info))


def by_program(name):
    """Return a function that compresses by a program of this name and Debian package."""

    def compress(content):
        program = debian.provide(lambda: shutil.which(name), name)
        if program is None:
            not_run(name)
        process = subprocess.run([program, "-c"], input=content, check=True, capture_output=True)
        return process.stdout

    return compress


def tarred(content):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo("disk.raw")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def zipped(content):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("disk.raw", content)
    return archive.getvalue()


@pytest.mark.parametrize(
    ("compress", "name"),
    [
        (gzip.compress, "gzip"),
        (lzma.compress, "xz"),
        (lambda content: lzma.compress(content, lzma.FORMAT_ALONE), "lzma"),
        (bz2.compress, "bzip2"),
        (by_program("zstd"), "zstd"),
        (lambda content: b"\x50\x2a\x4d\x18\4\0\0\0skip" + by_program("zstd")(content), "zstd"),
        (by_program("lz4"), "lz4"),
        (tarred, "tar"),
        (zipped, "zip"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("stated", [{}, {"image_disk_format": "raw"}], ids=["unstated", "raw"])
def test_a_compressed_image_or_an_archive_is_no_disk(images, compress, name, stated):
    images.files["/disk.raw"] = compress(MBR)
    with pytest.raises(BadImage, match=f"is {name}[,;]"):
        image.examine(node(images, **stated))


def test_an_unreachable_server_is_named_with_the_cause_and_without_secrets():
    source = "http://me:secret@127.0.0.1:1/disk.raw?signature=abc"
    with pytest.raises(Unreachable) as raised:
        image.examine(target(instance_info=STATED | {"image_source": source}))
    assert "http://127.0.0.1:1/disk.raw cannot be fetched: Connection refused" == str(raised.value)


def test_only_the_beginning_of_an_image_is_read(images):
    image.examine(node(images))
    assert ["/disk.raw"] == images.request_log


@pytest.fixture
def web_root(tmp_path):
    return {
        "deploy__http_root": str(tmp_path / "www"),
        "deploy__http_url": "http://conductor:8080/",
        "conductor__file_url_allowed_paths": (str(tmp_path / "images"),),
    }


def test_a_local_image_is_fetched_checked_and_served_until_its_removal(images, web_root):
    checksum = hashlib.sha256(MBR).hexdigest()
    local = {"image_download_source": "local", "image_checksum": checksum}
    it = node(images, changed=web_root, **local)
    image.validate(it)
    (url,) = image.examine(it)["urls"]
    (place,) = Path(web_root["deploy__http_root"], "nodes", it.uuid).glob("image-*/disk.raw")
    secret = place.parent.name
    assert f"http://conductor:8080/nodes/{it.uuid}/{secret}/disk.raw" == url
    assert MBR == place.read_bytes()
    published.withdraw(it)
    assert not place.parent.exists()


def test_a_local_image_with_a_wrong_checksum_is_not_served(images, web_root):
    it = node(images, changed=web_root, image_download_source="local")
    with pytest.raises(BadImage, match=f"/disk.raw does not have the sha256 {SHA256}") as raised:
        image.examine(it)
    assert hashlib.sha256(MBR).hexdigest() not in str(raised.value)
    assert [] == list(Path(web_root["deploy__http_root"]).rglob("*.raw*"))


def test_a_file_is_served_from_allowed_directories_only(tmp_path, web_root):
    (tmp_path / "images").mkdir()
    for name in ("images/disk.raw", "secret"):
        (tmp_path / name).write_bytes(MBR)

    def node_with(path):
        info = {"image_source": f"file://{path}", "image_checksum": SHA256}
        return target(instance_info=info, options=changed_options(**web_root))

    it = node_with(tmp_path / "images" / "disk.raw")
    image.validate(it)
    (url,) = image.examine(it)["urls"]
    assert url.endswith("/disk.raw")
    for outside in (tmp_path / "secret", tmp_path / "images" / ".." / "secret"):
        with pytest.raises(InvalidDriverInfo, match="files may only lie in"):
            image.validate(node_with(outside))


def test_a_partition_image_is_described_with_its_sizes(images):
    info = image.image_info(
        node(images, kernel="k", ramdisk="r", root_gb="10", swap_mb=512, ephemeral_gb=1)
    )
    assert {
        "image_type": "partition", "root_mb": 10240, "swap_mb": 512, "ephemeral_mb": 1024,
        "deploy_boot_mode": "uefi", "kernel": "k", "ramdisk": "r",
    } == {
        name: info[name]
        for name in (
            "image_type", "root_mb", "swap_mb", "ephemeral_mb", "deploy_boot_mode", "kernel",
            "ramdisk",
        )
    }  # fmt: skip


def test_proxies_of_the_node_are_passed_to_the_agent(images):
    it = target(
        instance_info={"image_source": f"{images.url}/disk.raw", "image_checksum": SHA256},
        driver_info={"image_http_proxy": "http://proxy:3128", "image_no_proxy": "localhost"},
    )
    info = image.image_info(it)
    assert ({"http": "http://proxy:3128"}, "localhost") == (info["proxies"], info["no_proxy"])


@pytest.mark.parametrize(
    ("algorithm", "index"), [("md5", 0), ("sha256", 1), ("SHA512", 2), (None, 2)]
)
def test_the_checksum_of_the_requested_algorithm_is_read_from_a_file_of_several(
    images, algorithm, index
):
    sums = [hashlib.new(name, MBR).hexdigest() for name in ("md5", "sha256", "sha512")]
    images.files["/SUMS"] = "".join(f"{value}  disk.raw\n" for value in sums).encode()
    stated = {"image_checksum": f"{images.url}/SUMS"}
    if algorithm:
        stated = {"image_checksum": None, "image_os_hash_algo": algorithm}
        stated["image_os_hash_value"] = f"{images.url}/SUMS"
    it = node(images, changed={"agent__allow_md5_checksum": True}, **stated)
    image.validate(it)
    examination = image.examine(it)
    assert (sums[index], len(sums[index])) == (
        examination["os_hash_value"],
        checksums.DIGITS[examination["os_hash_algo"]],
    )


@pytest.mark.parametrize("algorithm", ["md5", "crc32", ["sha256"]])
def test_an_algorithm_that_no_image_may_have_is_refused_before_its_file_is_read(algorithm):
    info = {"image_os_hash_algo": algorithm, "image_os_hash_value": "http://images/SUMS"}
    it = target(instance_info=STATED | info, options=changed_options())
    with pytest.raises(InvalidDriverInfo, match=r"md5 is refused|is none of"):
        image.validate(it)


def test_a_file_without_the_requested_algorithm_is_refused(images):
    images.files["/SUMS"] = f"{SHA512}  disk.raw\n".encode()
    info = {"image_os_hash_algo": "sha256", "image_os_hash_value": f"{images.url}/SUMS"}
    with pytest.raises(BadImage, match=r"/SUMS holds no sha256 checksum of 'disk\.raw'"):
        image.examine(node(images, **info))


@pytest.mark.parametrize("name", ["disk.raw", "a disk%.raw"])
def test_the_checksum_of_a_local_file_is_computed(tmp_path, web_root, name):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / name).write_bytes(MBR)
    url = f"file://{tmp_path}/images/{quote(name)}"
    it = target(instance_info={"image_source": url}, options=changed_options(**web_root))
    image.validate(it)
    examination = image.examine(it)
    assert ("sha256", hashlib.sha256(MBR).hexdigest()) == (
        examination["os_hash_algo"],
        examination["os_hash_value"],
    )


def test_a_local_file_with_a_checksum_keeps_it(tmp_path, web_root):
    (tmp_path / "images").mkdir()
    (tmp_path / "images/disk.raw").write_bytes(MBR)
    info = {"image_source": f"file://{tmp_path}/images/disk.raw", "image_checksum": SHA512}
    examination = image.examine(target(instance_info=info, options=changed_options(**web_root)))
    assert ("sha512", SHA512) == (examination["os_hash_algo"], examination["os_hash_value"])


def test_no_checksum_is_computed_of_a_file_outside_the_allowed_directories(tmp_path, web_root):
    (tmp_path / "secret").write_bytes(MBR)
    it = target(
        instance_info={"image_source": f"file://{tmp_path}/secret"},
        options=changed_options(**web_root),
    )
    with pytest.raises(InvalidDriverInfo, match="files may only lie in"):
        image.validate(it)
