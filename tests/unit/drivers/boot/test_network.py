"""Network boot: files of machines, their names, and their removal."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from drivers.boot import dnsmasq, scripts
from drivers.core.errors import BadImage, InvalidDriverInfo, NotSupported
from drivers.core.target import Agent, Nic, VolumeConnector, VolumeTarget
from drivers.fake.hardware import FakeManagement
from drivers.images import files
from tests.support import debian
from tests.support.prerequisites import not_run
from tests.unit.drivers.machines import KERNEL, OPTIONS, RAMDISK, target

MAC = "52-54-00-aa-00-01"
VOLUME = VolumeTarget(
    "v", "iscsi", "1", 0,
    {"target_portal": "192.0.2.1:3260", "target_iqn": "iqn.2026-01.org:disk", "target_lun": 10,
     "auth_username": "me", "auth_password": "secret"},
)  # fmt: skip


@pytest.fixture
def options(tmp_path):
    loader = tmp_path / "loader"
    loader.write_bytes(b"a boot loader")
    changes = {
        "api": {"public_endpoint": "http://service:6385"},
        "deploy": {"http_root": str(tmp_path / "http"), "http_url": "http://conductor:8080/"},
        "pxe": {
            "tftp_root": str(tmp_path / "tftp"),
            "tftp_server": "192.0.2.9",
            "instance_master_path": str(tmp_path / "kept"),
            "kernel_append_params": "quiet",
            "loader_file_paths": {"snponly.efi": str(loader)},
        },
    }
    return {group: {**values, **changes.get(group, {})} for group, values in OPTIONS.items()}


@pytest.fixture
def ordered(monkeypatch):
    """(device, persistent) of every command to the management interface"""
    orders = []

    def order(_self, _target, device, persistent=False):
        orders.append((device, persistent))

    monkeypatch.setattr(FakeManagement, "set_boot_device", order)
    return orders


@pytest.fixture
def node(images, options, ordered):
    def make(boot, deploy="direct", **fields):
        return target(
            interfaces={"boot": boot, "deploy": deploy},
            options=options,
            driver_info={
                "deploy_kernel": f"{images.url}/kernel",
                "deploy_ramdisk": f"{images.url}/ramdisk",
            },
            nics=(
                Nic("1", "52:54:00:AA:00:01"),
                Nic("2", "52:54:00:aa:00:02", pxe_enabled=False),
            ),
            **fields,
        )

    return make


def root(node, server):
    return Path(node.options["deploy" if server == "http" else "pxe"][f"{server}_root"])


def contents(place):
    """All files below a directory: name -> content"""
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file()
    }


def test_ipxe_finds_its_script_by_mac_address(node, ordered):
    it = node("ipxe")
    it.driver.boot.validate(it)
    it.driver.boot.prepare_ramdisk(it)
    (folder,) = (root(it, "http") / "nodes" / it.uuid).iterdir()
    script = (root(it, "http") / "pxelinux.cfg" / MAC).read_text()
    url = f"http://conductor:8080/nodes/{it.uuid}/{folder.name}"
    assert (
        f"kernel {url}/kernel quiet ipa-api-url=http://service:6385 BOOTIF=${{mac}} initrd=ramdisk"
        in script
    )
    assert f"initrd --name ramdisk {url}/ramdisk" in script
    assert (KERNEL, RAMDISK) == tuple((folder / n).read_bytes() for n in ("kernel", "ramdisk"))
    assert "token" not in script
    assert [("pxe", False)] == ordered
    for server in ("http", "tftp"):
        boot_script = (root(it, server) / "boot.ipxe").read_text()
        assert "chain --autofree http://conductor:8080/pxelinux.cfg/${mac:hexhyp}" in boot_script
        assert b"a boot loader" == (root(it, server) / "snponly.efi").read_bytes()
    it.driver.boot.clean_up_ramdisk(it)
    assert {"boot.ipxe", "snponly.efi"} == set(contents(root(it, "http")))
    assert [] == list((root(it, "http") / "pxelinux.cfg").iterdir())


def test_pxelinux_and_grub_find_their_configuration_over_tftp(node):
    it = node("pxe")
    it.driver.boot.prepare_ramdisk(it)
    tftp = root(it, "tftp")
    (folder,) = (tftp / "nodes" / it.uuid).iterdir()
    at, line = f"nodes/{it.uuid}/{folder.name}", "quiet ipa-api-url=http://service:6385"
    pxelinux = (tftp / "pxelinux.cfg" / f"01-{MAC}").read_text()
    assert (
        f"  kernel {at}/kernel\n  initrd {at}/ramdisk\n  append {line}\n  ipappend 2\n" in pxelinux
    )
    grub = (tftp / "52:54:00:aa:00:01.conf").read_text()
    assert f"linux /{at}/kernel {line} BOOTIF=${{net_default_mac}}\ninitrd /{at}/ramdisk" in grub
    assert "${net_default_mac}.conf" in (tftp / "grub" / "grub.cfg").read_text()
    it.driver.boot.clean_up_ramdisk(it)
    assert {"grub/grub.cfg", "snponly.efi"} == set(contents(tftp))


def test_grub_finds_its_configuration_over_http(node, ordered):
    it = node("http")
    it.driver.boot.validate(it)
    it.driver.boot.prepare_ramdisk(it)
    http = root(it, "http")
    (folder,) = (http / "nodes" / it.uuid).iterdir()
    at, line = f"/nodes/{it.uuid}/{folder.name}", "quiet ipa-api-url=http://service:6385"
    grub = (http / "52:54:00:aa:00:01.conf").read_text()
    assert f"linux {at}/kernel {line} BOOTIF=${{net_default_mac}}\ninitrd {at}/ramdisk" in grub
    assert "configfile /${net_default_mac}.conf" in (http / "grub" / "grub.cfg").read_text()
    assert (KERNEL, RAMDISK) == tuple((folder / n).read_bytes() for n in ("kernel", "ramdisk"))
    assert b"a boot loader" == (http / "snponly.efi").read_bytes()
    assert [("uefihttp", False)] == ordered
    it.driver.boot.clean_up_ramdisk(it)
    assert {"grub/grub.cfg", "snponly.efi"} == set(contents(http))
    assert {"snponly.efi"} == set(contents(root(it, "tftp")))


def test_grub_names_files_below_the_path_of_the_web_server(node):
    it = node("http")
    it.options["deploy"]["http_url"] = "http://conductor:8080/boot/"
    it.driver.boot.prepare_ramdisk(it)
    http = root(it, "http")
    assert "linux /boot/nodes/" in (http / "52:54:00:aa:00:01.conf").read_text()
    configuration = (http / "grub" / "grub.cfg").read_text()
    assert "configfile /boot/${net_default_mac}.conf" in configuration


def test_http_boot_needs_a_web_server(node):
    it = node("http")
    it.options["deploy"]["http_url"] = None
    with pytest.raises(InvalidDriverInfo, match=r"\[deploy\]http_url is not set"):
        it.driver.boot.validate(it)


@pytest.fixture
def grub_script_check():
    program = debian.provide(lambda: shutil.which("grub-script-check"), "grub-common")
    if program is None:
        not_run("grub-script-check")
    return program


@pytest.mark.parametrize("boot", ["pxe", "http"])
@pytest.mark.parametrize("arguments", ["quiet", "a=$b 'c;d' \"e f\" {g} (h)", "x=1,2 y=<z> |"])
def test_grub_understands_its_configurations(node, grub_script_check, boot, arguments):
    it = node(boot)
    it.options["pxe"]["enable_netboot_fallback"] = True
    it = replace(it, driver_info={**it.driver_info, "kernel_append_params": arguments})
    for prepare in (it.driver.boot.prepare_ramdisk, it.driver.boot.prepare_instance):
        prepare(it)
        place = root(it, "http" if boot == "http" else "tftp")
        for path in (place / "52:54:00:aa:00:01.conf", place / "grub" / "grub.cfg"):
            subprocess.run([grub_script_check, path], check=True, timeout=20)


@pytest.mark.parametrize(
    ("extra", "name"),
    [
        ({}, f"01-{MAC}"),
        ({"client-id": "ff:00:00:00:00:00:02:00:00:02:c9:00:52:54:00:03:00:aa:00:01"}, f"20-{MAC}"),
        ({"client-id": ""}, f"01-{MAC}"),
    ],
)
def test_pxelinux_finds_the_file_of_its_ports_hardware_type(node, extra, name):
    it = replace(node("pxe"), nics=(Nic("1", "52:54:00:AA:00:01", extra=extra),))
    it.options["pxe"]["enable_netboot_fallback"] = True
    for prepare in (it.driver.boot.prepare_ramdisk, it.driver.boot.prepare_instance):
        prepare(it)
        links = (root(it, "tftp") / "pxelinux.cfg").iterdir()
        assert [name] == [path.name for path in links]
        assert (root(it, "tftp") / "52:54:00:aa:00:01.conf").is_file()
    it.driver.boot.clean_up_instance(it)
    assert [] == list((root(it, "tftp") / "pxelinux.cfg").iterdir())


@pytest.mark.parametrize(
    ("boot", "path"),
    [("ipxe", f"pxelinux.cfg/{MAC}"), ("http", "52:54:00:aa:00:01.conf")],
)
def test_ipxe_and_grub_name_a_port_of_infiniband_by_its_address_alone(node, boot, path):
    it = replace(node(boot), nics=(Nic("1", "52:54:00:aa:00:01", extra={"client-id": "ff:00"}),))
    it.driver.boot.prepare_ramdisk(it)
    assert (root(it, "http") / path).is_file()


@pytest.mark.parametrize("boot", ["http", "http-ipxe"])
def test_a_machine_whose_bmc_knows_no_http_boot_boots_from_the_network(node, monkeypatch, boot):
    orders = []

    def order(_self, _target, device, persistent=False):
        if device == "uefihttp":
            raise NotSupported("IPMI has no such device")
        orders.append((device, persistent))

    it = node(boot)
    monkeypatch.setattr(FakeManagement, "set_boot_device", order)
    it.driver.boot.prepare_ramdisk(it)
    assert [("pxe", False)] == orders


def test_a_repeated_preparation_replaces_the_files(node):
    it = node("ipxe")
    it.driver.boot.prepare_ramdisk(it)
    folder = (root(it, "http") / "pxelinux.cfg" / MAC).resolve()
    it.driver.boot.prepare_ramdisk(it)
    new_folder = (root(it, "http") / "pxelinux.cfg" / MAC).resolve()
    assert (False, True) == (folder.exists(), new_folder.exists())


@pytest.mark.parametrize(
    ("fallback", "offered"),
    [(False, set()), (True, {"instance"})],
)
def test_a_deployed_machine_boots_its_disk(node, ordered, fallback, offered):
    it = node("ipxe")
    it.options["pxe"]["enable_netboot_fallback"] = fallback
    it.driver.boot.prepare_ramdisk(it)
    it.driver.boot.prepare_instance(it)
    assert ("disk", True) == ordered[-1]
    assert offered == {
        files.use_of(folder) for folder in files.published_folders(it.options, it.uuid)
    }
    if fallback:
        assert "sanboot --no-describe" in (root(it, "http") / "pxelinux.cfg" / MAC).read_text()
    it.driver.boot.clean_up_instance(it)
    assert [] == files.published_folders(it.options)


def test_a_missing_live_image_is_not_offered(node, images, ordered):
    it = node("ipxe", "ramdisk", instance_info={"boot_iso": f"{images.url}/gone.iso"})
    with pytest.raises(BadImage, match=r"/gone\.iso cannot be fetched: the server answered 404"):
        it.driver.boot.prepare_instance(it)
    assert [] == ordered


def then(it):
    """Return the node as its next step gets it, with the reports recorded."""
    internal_info = {**it.driver_internal_info, **it.reports.get("driver_internal_info", {})}
    return replace(it, driver_internal_info=internal_info, reports={})


@pytest.mark.parametrize("boot", ["ipxe", "http-ipxe", "pxe", "http"])
def test_a_machine_whose_agent_booted_late_in_a_deployment_boots_its_disk(node, ordered, boot):
    it = node(boot, instance_info={"image_type": "whole-disk", "capabilities": "boot_mode:bios"})
    deploy = it.driver.deploy
    it.driver.boot.prepare_ramdisk(it)
    deploy.prepare_instance_boot(it)
    it = then(it)
    it.driver.boot.boot_agent_next(it)
    assert {"ramdisk"} == {
        files.use_of(folder) for folder in files.published_folders(it.options, it.uuid)
    }
    it = then(it)
    for again in (it, replace(it, resumed=True)):  # the second call follows a crash
        deploy.tear_down_agent(again)
        assert [] == files.published_folders(it.options)
        assert ("disk", True) == ordered[-1]
    it, count = then(it), len(ordered)
    deploy.tear_down_agent(it)
    assert count == len(ordered)  # the boot device of a later step is kept


@pytest.mark.parametrize(
    ("boot", "info", "words"),
    [
        ("ipxe", {"boot_iso": "http://x/live.iso"}, "sanboot http://x/live.iso"),
        ("ipxe", {}, "root=/dev/ram0 quiet BOOTIF"),
        ("pxe", {}, "append root=/dev/ram0 quiet\n"),
        ("http", {}, "root=/dev/ram0 quiet BOOTIF"),
    ],
)
def test_a_ramdisk_instance_is_booted_at_each_start(node, images, ordered, boot, info, words):
    pair = {"kernel": f"{images.url}/kernel", "ramdisk": f"{images.url}/ramdisk"}
    it = node(boot, "ramdisk", instance_info=info or pair)
    it.driver.deploy.validate(it)
    it.driver.boot.prepare_instance(it)
    server, name = {
        "ipxe": ("http", f"pxelinux.cfg/{MAC}"),
        "pxe": ("tftp", f"pxelinux.cfg/01-{MAC}"),
        "http": ("http", "52:54:00:aa:00:01.conf"),
    }[boot]
    assert words in (root(it, server) / name).read_text()
    assert ("uefihttp" if boot == "http" else "pxe", True) == ordered[-1]


def test_a_machine_boots_from_its_volume(node, ordered):
    data = replace(
        VOLUME, uuid="d", boot_index=1, properties={**VOLUME.properties, "target_lun": 11}
    )
    it = replace(
        node("ipxe"),
        volume_targets=(VOLUME, data),
        volume_connectors=(VolumeConnector("c", "iqn", "iqn.2026-01.org:node"),),
    )
    it.driver.boot.prepare_instance(it)
    script = (root(it, "http") / "pxelinux.cfg" / MAC).read_text().splitlines()
    assert [
        "set initiator-iqn iqn.2026-01.org:node", "", ":boot",
        "set username me", "set password secret",
        "sanhook --drive 0x80 iscsi:192.0.2.1::3260:a:iqn.2026-01.org:disk || goto again",
        "set username me", "set password secret",
        "sanhook --drive 0x81 iscsi:192.0.2.1::3260:b:iqn.2026-01.org:disk || goto again",
        "set username me", "set password secret",
        "sanboot --no-describe --drive 0x80 || goto again",
    ] == script[3:15]  # fmt: skip
    assert ("pxe", True) == ordered[-1]


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"target_lun": "x"}, "target_lun is not a number"),
        ({"target_iqn": None}, "target_iqn is required"),
        ({"auth_password": "a\nshell"}, "auth_password: must be one line"),
        ({"auth_username": "a shell"}, "auth_username: must not contain spaces"),
    ],
)
def test_a_volume_that_ipxe_cannot_open_is_refused(changed, complaint):
    with pytest.raises(InvalidDriverInfo, match=complaint):
        scripts.volume({**VOLUME.properties, **changed}, "volume target v")


def test_an_installer_gets_its_kickstart_file_and_a_token(node, images, ordered):
    info = {name: f"{images.url}/{name}" for name in ("kernel", "ramdisk", "stage2")} | {
        "image_source": "http://mirror/root.squashfs",
        "configdrive": {"meta_data": {"uuid": "u"}},
    }
    it = node("ipxe", "anaconda", instance_info=info)
    it.driver.deploy.validate(it)
    it.driver.boot.prepare_instance(it)
    script = (root(it, "http") / "pxelinux.cfg" / MAC).read_text()
    url = next(word for word in script.split() if word.startswith("inst.ks=")).partition("=")[2]
    kickstart = (root(it, "http") / url.removeprefix("http://conductor:8080/")).read_text()
    assert f"inst.stage2={images.url}/stage2" in script
    assert "liveimg --url http://mirror/root.squashfs" in kickstart
    assert 3 == kickstart.count(f'"agent_token": "{it.reports["agent_token"]}"')
    assert 3 == kickstart.count(f"http://service:6385/v1/heartbeat/{it.uuid}")
    assert "/openstack/latest/meta_data.json" in kickstart
    assert ("pxe", False) == ordered[-1]
    it.driver.boot.clean_up_instance(it)
    assert [] == files.published_folders(it.options)


def test_a_tenants_template_runs_no_code(node, images):
    images.files["/ks"] = b"{{ ''.__class__.__mro__[1].__subclasses__() }}"
    info = {name: f"{images.url}/{name}" for name in ("kernel", "ramdisk", "stage2")}
    info |= {"image_source": "http://mirror/", "ks_template": f"{images.url}/ks"}
    it = node("ipxe", "anaconda", instance_info=info)
    with pytest.raises(InvalidDriverInfo, match=r"instance_info/ks_template: .*unsafe"):
        it.driver.boot.prepare_instance(it)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"nics": ()}, "no port with pxe_enabled"),
        ({"driver_info": {}}, "deploy_kernel and deploy_ramdisk are required"),
        (
            {"driver_info": {"force_persistent_boot_device": "maybe"}},
            "force_persistent_boot_device",
        ),
    ],
)
def test_a_node_that_cannot_boot_is_refused_by_validation(node, fields, complaint):
    it = replace(node("ipxe"), **fields)
    with pytest.raises(InvalidDriverInfo, match=complaint):
        it.driver.boot.validate(it)


def test_the_token_of_another_medium_is_removed(node):
    it = replace(node("ipxe"), agent=Agent(token="t", pregenerated=True))
    it.driver.boot.prepare_ramdisk(it)
    assert None is it.reports["agent_token"]


@pytest.mark.parametrize(
    ("info", "settings", "kernel"),
    [
        ({}, {"deploy_kernel": "http://c/k", "deploy_ramdisk": "http://c/r"}, "http://c/k"),
        (
            {},
            {
                "deploy_kernel_by_arch": {"x86_64": "http://a/k"},
                "deploy_ramdisk_by_arch": {"x86_64": "http://a/r"},
                "deploy_kernel": "http://c/k",
                "deploy_ramdisk": "http://c/r",
            },
            "http://a/k",
        ),
        (
            {"deploy_kernel": "http://n/k", "deploy_ramdisk": "http://n/r"},
            {"rescue_kernel": "http://s/k", "rescue_ramdisk": "http://s/r"},
            "http://n/k",
        ),
    ],
)
def test_a_nodes_ramdisk_overrides_the_settings(node, info, settings, kernel):
    from drivers.boot import ramdisks

    it = replace(node("ipxe"), driver_info=info, provision_state="cleaning")
    it = replace(it, options={**it.options, "conductor": it.options["conductor"] | settings})
    assert kernel == ramdisks.of_agent(it).kernel


@pytest.fixture
def dnsmasq_program():
    path = f"{os.environ['PATH']}:/usr/sbin"
    program = debian.provide(lambda: shutil.which("dnsmasq", path=path), "dnsmasq-base")
    if program is None:
        not_run("dnsmasq")
    return program


@pytest.mark.parametrize("boot", ["ipxe", "pxe", "http"])
def test_dnsmasq_accepts_its_configuration(node, boot, tmp_path, dnsmasq_program):
    text = dnsmasq.config(node(boot).options, boot, ["192.0.2.100,192.0.2.200"])
    (tmp_path / "tftp").mkdir()
    path = tmp_path / "dnsmasq.conf"
    path.write_text(text)
    checked = subprocess.run(
        [dnsmasq_program, "--test", "-C", path],
        check=False, capture_output=True, text=True, timeout=20,
    )  # fmt: skip
    assert 0 == checked.returncode, checked.stderr
    lines = text.splitlines()
    boot_lines = {
        "ipxe": "dhcp-boot=tag:!ipxe,tag:x86_64,snponly.efi,,192.0.2.9",
        "pxe": "dhcp-boot=tag:x86_64,bootx64.efi,,192.0.2.9",
        "http": "dhcp-boot=tag:x86_64-http,http://conductor:8080/bootx64.efi",
    }
    assert boot_lines[boot] in lines
    answer = "dhcp-option-force=tag:x86_64-http,option:vendor-class,HTTPClient"
    http = [answer, "dhcp-match=set:x86_64-http,option:client-arch,16"]
    assert [boot != "pxe"] * 2 == [line in lines for line in http]
    assert (boot != "http") == ("enable-tftp" in lines)
    assert ("dhcp-boot=tag:ipxe,http://conductor:8080/boot.ipxe" in lines) == (boot == "ipxe")


def test_dnsmasq_serves_the_files_that_a_machine_requests(node, options, tmp_path, dnsmasq_program):
    if os.geteuid() != 0 or shutil.which("curl") is None:
        not_run("root, who may listen on the port of TFTP, and curl")
    options["dhcp_server"]["backend"] = "dnsmasq"
    it, umask = node("pxe"), os.umask(0o077)  # as root, dnsmasq serves no private files
    it.driver.boot.prepare_ramdisk(it)
    os.umask(umask)
    address = f"127.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 250}.9"
    server = subprocess.Popen(
        [
            dnsmasq_program, "-k", "-C", "/dev/null", "--port=0", "--enable-tftp", "--user=root",
            f"--tftp-root={root(it, 'tftp')}", f"--listen-address={address}", "--bind-interfaces",
            f"--pid-file={tmp_path / 'pid'}",
        ],
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        fetched = subprocess.run(
            ["curl", "--silent", "--retry", "3", "--max-time", "20",
             f"tftp://{address}/pxelinux.cfg/01-{MAC}"],
            check=True, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        name = fetched.stdout.split("initrd ")[1].split()[0]
        ramdisk = subprocess.run(
            ["curl", "--silent", "--max-time", "20", f"tftp://{address}/{name}"],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        assert RAMDISK == ramdisk.stdout
    finally:
        server.terminate()
        server.communicate(timeout=20)
