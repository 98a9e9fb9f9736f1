"""Files of checksums: as coreutils and openssl write them, and as distributions publish them."""

import hashlib
import shutil
import subprocess

import pytest

from drivers.images.checksum_files import checksum_of
from drivers.images.checksums import Checksum
from tests.support.prerequisites import not_run

MINE, OTHER = hashlib.sha256(b"mine").hexdigest(), hashlib.sha256(b"other").hexdigest()
SHA512, MD5 = hashlib.sha512(b"mine").hexdigest(), hashlib.md5(b"mine").hexdigest()
EXPECTED = Checksum("sha256", MINE)


def written(command, folder):
    if shutil.which(command[0]) is None:
        not_run(command[0])
    run = subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    return run.stdout.decode()


@pytest.mark.parametrize(
    "name", ["i.img", "an image.img", "back\\slash.img", "line\nfeed.img", "a) = b.img", "#1.img"]
)
@pytest.mark.parametrize("option", [[], ["--tag"], ["--binary"]], ids=str)
@pytest.mark.parametrize("algorithm", ["md5", "sha256", "sha384", "sha512"])
def test_what_coreutils_write_is_read(tmp_path, algorithm, option, name):
    (tmp_path / "old").mkdir()
    for place, content in ((name, b"mine"), (f"old/{name}", b"other"), ("j.img", b"j")):
        (tmp_path / place).write_bytes(content)
    files = [f"./old/{name}", f"./{name}", "j.img"]
    text = written([f"{algorithm}sum", *option, *files], tmp_path)
    expected = Checksum(algorithm, hashlib.new(algorithm, b"mine").hexdigest())
    assert expected == checksum_of(text, f"/images/{name}")
    other = Checksum(algorithm, hashlib.new(algorithm, b"other").hexdigest())
    assert other == checksum_of(text, f"/images/old/{name}")


@pytest.mark.parametrize("algorithm", ["md5", "sha256", "sha512"])
def test_what_openssl_writes_is_read(tmp_path, algorithm):
    (tmp_path / "i.img").write_bytes(b"mine")
    text = written(["openssl", "dgst", f"-{algorithm}", "i.img"], tmp_path)
    assert hashlib.new(algorithm, b"mine").hexdigest() == checksum_of(text, "/i.img").value


@pytest.mark.parametrize(
    "text",
    [
        MINE,
        f"\ufeff{MINE}\r\n",
        f"# of 2026-11-26\n\n{MINE.upper()}\n",
        f"{MINE}\ti.img\n",
        f"{MINE} i.img",
        f"{OTHER}  ./old/i.img\r\n{MINE}  ./i.img\r\n",
        f"{MINE}  i.img\n{OTHER}  old/i.img\n",
        f"{OTHER}  j.img  # not i.img\n{MINE}  i.img\n",
        f"{OTHER}  j.img i.img\n{MINE}  i.img\n",
        f"{OTHER}  not-i.img\n{OTHER}  i.img.xz\n{MINE}  i.img\n",
        f"{OTHER}  I.IMG\n{MINE}  i.img\n",
        f"i.img was built on 2026-11-26\nSHA256 (i.img) = {MINE}\n",
        f"{MINE}  elsewhere/i.img\n",  # no other file has this name
        f"{MINE}  a/i.img\n{MINE}  b/i.img\n",
        f"{MD5}  i.img\n{MINE}  i.img\n{OTHER[:40]}  i.img\n",
        f"SHA1 (i.img) = {OTHER}\nSHA512 (i.img) = {OTHER}\nSHA256 (i.img) = {MINE}\n",
        (
            f"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n# i.img: 4 bytes\n"
            f"SHA256 (i.img) = {MINE}\n-----BEGIN PGP SIGNATURE-----\n\niQIzBAEBCAAdFiEE\n"
        ),
    ],
)
def test_the_line_of_the_image_is_meant(text):
    assert EXPECTED == checksum_of(text, "/i.img")


@pytest.mark.parametrize(
    ("path", "value"), [("/d/netboot/mini.iso", MINE), ("/d/netboot/gtk/mini.iso", OTHER)]
)
def test_the_longest_folder_of_the_url_is_meant(path, value):
    text = f"{MINE}  ./netboot/mini.iso\n{OTHER}  ./netboot/gtk/mini.iso\n{'0' * 64}  mini.iso\n"
    assert value == checksum_of(text, path).value


def test_the_strongest_checksum_is_taken_unless_an_algorithm_is_requested():
    text = f"{MD5}  i.img\n{SHA512}  i.img\n{MINE}  i.img\n"
    assert Checksum("sha512", SHA512) == checksum_of(text, "/i.img")
    assert Checksum("md5", MD5) == checksum_of(text, "/i.img", "md5")
    assert EXPECTED == checksum_of(text, "/i.img", "sha256")


@pytest.mark.parametrize(
    ("text", "algorithm", "reason"),
    [
        ("", None, "no checksum of 'i.img'"),
        ("404 not found", None, "no checksum"),
        (f"{MINE}  j.img\n", None, "no checksum"),
        (f"{MINE}  j.img # i.img\n", None, "no checksum"),
        (f"{MINE}  ../i.img.sig\n", None, "no checksum"),
        (f"{MINE[:-1]}  i.img\n", None, "no checksum"),
        (f"{MINE}\n{OTHER}\n", None, "no checksum"),
        (SHA512, "sha256", "no sha256 checksum"),
        (f"SHA512 (i.img) = {SHA512}", "sha256", "no sha256 checksum"),
        (f"SHA256 (i.img) = {SHA512}", None, "no checksum"),
        (f"{MINE}  i.img\n{OTHER}  i.img\n", None, "2 different checksums of 'i.img'"),
        (f"{MINE}  a/i.img\n{OTHER}  b/i.img\n", None, "2 different checksums"),
        (f"{MINE}  i.img\nSHA256 (i.img) = {OTHER}\n", "sha256", "2 different checksums"),
    ],
)
def test_a_file_that_does_not_say_which_is_refused(text, algorithm, reason):
    with pytest.raises(ValueError, match=reason):
        checksum_of(text, "/i.img", algorithm)
