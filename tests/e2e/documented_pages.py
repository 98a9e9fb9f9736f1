"""
Set-up that each page of the documentation presumes, and the commands that no test types.

Every command of a page in `PAGES` is typed, in the order of the page; those of other pages, and those in
`NOT_TYPED`, are not, for the reason in the table.
"""

import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support import postgresql
from tests.support.command_blocks import ROOT, commands, fences
from tests.support.ironic_databases import recorded
from tests.support.ports import free_port
from tests.support.reader import CTRL_C
from tests.support.sol_bmc import SolBmc

#: Start of no line.
NONE = "\0"
PROVIDE = "nodes/rack1-u7/states/provision"
#: Waits until the conductor has reached the console.
CONNECTED = (
    "until curl -H 'X-OpenStack-Ironic-API-Version: 1.115' $INGOT_URL/v1/nodes/rack1-u1/console"
    " | grep '\"connected\"'; do sleep 0.1; done"
)
CTRL_BRACKET = "\x1d"
#: Ends the service of the node before, and makes it one that can be cleaned.
MANAGEABLE = """
until ingot node show NODE --fields provision_state -o value | grep -x active; do sleep 0.1; done
ingot node provision-state NODE undeploy --wait && ingot node provision-state NODE manage --wait"""
DEFAULT_URL = "http://127.0.0.1:6385"
SIZES = {"properties": {"memory_mb": 131072}}
FAKE_BIOS = {"interface": "bios", "step": "factory_reset"}
FIRMWARE = {
    "interface": "firmware", "step": "update",
    "args": {"settings": [{"component": "bmc", "url": "http://files.example/6.10.30"}]},
}  # fmt: skip
SERVICE = {
    "interface": "bios", "step": "apply_configuration",
    "args": {"settings": [{"name": "BootMode", "value": "Uefi"}]},
}  # fmt: skip
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2Tb0zPxFkWlB2t1t7wGZ3zPmYx0vHn0mQf5dA8Wk1r"


@dataclass(frozen=True)
class Page:
    """
    A page whose commands are typed.

    set_up: makes what the page presumes; takes a `Site`. replaced: text of commands -> text that is
    typed in its place, or a function of the site that returns it. before: start of a command -> what
    the reader does first, in the shell. keys: start of a command -> (text to wait for, keys that the
    reader presses then, or a function of the site), in their order. fails: starts of commands that the page shows being refused. differs: starts of shown lines that have
    other facts here. slow: only `make test-slow` types it. alone: without the service.
    """

    set_up: Callable[[Any], None] | None = None
    replaced: Mapping[str, str | Callable[[Any], str]] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, tuple[tuple[str, str | Callable[[Any], None]], ...]] = field(
        default_factory=dict
    )
    fails: tuple[str, ...] = (NONE,)
    differs: tuple[str, ...] = (NONE,)
    environ: Mapping[str, str] = field(default_factory=dict)
    slow: bool = True
    alone: bool = False


def baselines(site):
    site.node("a-07", "manageable", resource_class="compute", extra={"rack": "a", "model": "r650"})
    site.clean("a-07", FIRMWARE)


def benchmarks(site):
    site.machine("r1-u7", "manageable")
    metrics = {
        "disk.read": {"value": 512.7, "unit": "MB/s"},
        "disk.write": {"value": 478.2, "unit": "MB/s"},
    }
    number = site.simulator.machines.index(site.spare)
    site.simulator.set_faults(number, step_results={"deploy.burnin_disk": {"metrics": metrics}})


def boot(site):
    site.machine("NODE", "enroll")


def cleaning(site):
    site.node("m1", "clean failed", maintenance=True)


def cli(site):
    for name in ("rack1-u1", "rack1-u2"):
        site.node(name)
    site.node("x1", shard="row7")
    site.machine("rack1-u7", "manageable")
    site.node("x2", "clean failed")
    (site.folder / "spreadsheet.txt").write_text("# of the rack\nx1\n")
    (site.folder / "bmc").write_text("admin\n")


def consoles(site):
    bmc = site.until_the_end.enter_context(SolBmc(site.folder))
    site.create("nodes", name="rack1-u1", driver="ipmi", driver_info=bmc.driver_info)
    site.provision("rack1-u1", "manage", "manageable")
    site.bmc = bmc


def deploying(site):
    site.machine("m1", "available")


def events(site):
    site.machine("rack1-u7", "manageable")
    (site.folder / "fail.py").write_text(
        "import sqlite3\n"
        "with sqlite3.connect('.ingot/ingot.db', timeout=20) as database:\n"
        "    database.execute('INSERT INTO webhook_failures"
        " (webhook_id, created_at, after, last, error)"
        " SELECT id, created_at, 1, 3, ? FROM webhooks', ['the receiver answered 503'])\n"
    )


def fleet(site):
    for number in range(1, 31):
        site.node(f"r1-u{number}", "manageable", resource_class="gpu", extra={"rack": "r1"})
    site.node("r7-u2", "manageable", resource_class="gpu", maintenance=True)
    site.node("r7-u1", "active", extra={"rack": "r7"})
    for name, step in {"bios-2026": FAKE_BIOS, "bmc-7.10": SERVICE}.items():
        site.create("runbooks", name=name, steps=[{"args": {}} | step | {"order": 1}])
        site.put(f"runbooks/{name}/traits", traits=["CUSTOM_R750"])
    for node in site.service.states():
        site.put(f"nodes/{node}/traits", traits=["CUSTOM_R750"])


def fleet_files(site):
    site.node("x1", shard="row7")
    (site.folder / "passwords.yaml").write_text(
        "nodes:\n- name: x1\n  driver_info: {a_password: battery staple}\n"
    )


def holds(site):
    site.node("rack1-u7", "manageable")
    site.write_json("steps.json", [FAKE_BIOS])


def images(site):
    site.machine("NODE", "manageable")


def install(site):
    (site.folder / "compose").mkdir()
    for name in ("secrets.sh", "redis-users.acl"):
        shutil.copy(ROOT / "compose" / name, site.folder / "compose")


def moving(site):
    recorded(site.folder / "ironic.db")
    (site.folder / "ironic.conf").write_text(
        f"[database]\nconnection = sqlite:///{site.folder / 'ironic.db'}\n"
    )


def networks(site):
    (site.folder / "leaf-1.password").write_text("s3cret\n")


def quickstart(site):
    site.spare_machine()


def recording(site):
    site.machine("rack7-node3", "manageable")


def redfish(site):
    site.machine("NODE", "active")


def sanitation(site):
    site.machine("rack1-07", "manageable")
    site.provision("rack1-07", "provide", "available")


def security(site):
    """Make a database, with the users of the page; its URL is in the file `environment`."""
    server = site.until_the_end.enter_context(postgresql.serving())
    url = server.database()
    (users,) = (text for _, language, text in fences("security") if language == "sql")
    psql = [postgresql.find() / "psql", "--set", "ON_ERROR_STOP=1", "--no-psqlrc", "--command"]
    subprocess.run([*psql, users, url], check=True, timeout=60)
    (site.folder / "environment").write_text(f"export INGOT_DATABASE_CONNECTION='{url}'\n")


def selection(site):
    site.node("rack1-01", "clean failed", extra={"rack": "r1"}, **SIZES)


def simulator(site):
    (faults,) = (text for _, language, text in fences("simulator") if language == "toml")
    (site.folder / "faults.toml").write_text(faults)


def users(site):
    site.run("ingot db upgrade && printf 'correct horse\\n' | ingot user create admin")


PAGES = {
    "README": Page(
        replaced={".venv/bin/": ""},
        keys={".venv/bin/ingot events": (("operation.state", CTRL_C),)},
        environ={"OS_ENDPOINT": "", "OS_AUTH_TYPE": ""},
        slow=False,
    ),
    "audit": Page(),
    "baselines": Page(
        baselines,
        before={
            "ingot baseline nodes": "until ingot node compliance a-07 | grep differs; do sleep 0.1; done"
        },
        differs=("a-07",),
        slow=False,
    ),
    "benchmarks": Page(benchmarks, differs=("2026-",), slow=False),
    "bmc-recording": Page(
        recording,
        replaced={"21000": lambda _: str(free_port())},
        keys={"python -m": (("{", CTRL_C),)},
    ),
    "boot": Page(boot, replaced={"/etc/dnsmasq.d/": "", "http://images": "http://192.0.2.1"}),
    "cleaning": Page(cleaning, slow=False),
    "cli": Page(
        cli,
        replaced={"/run/secrets/": ""},
        # another command of the page has made it available
        before={
            "ingot node set rack1-u7": (
                "until ingot node provision-state rack1-u7 manage --wait; do sleep 0.1; done"
            )
        },
    ),
    "consoles": Page(
        consoles,
        before={"ingot node console open": CONNECTED},
        keys={
            "ingot node console open": (
                ("", lambda site: site.bmc.prints(b"login: ")),
                ("login: ", CTRL_BRACKET),
            )
        },
    ),
    "deploying": Page(deploying),
    "events": Page(
        events,
        replaced={"after=1040": "after=1"},
        before={"ingot webhook failures": "python fail.py"},
        keys={
            "ingot events": (
                ("manageable", lambda site: site.put(PROVIDE, target="provide")),
                ("power.power_off", CTRL_C),
            ),
            "curl -N": (("node.provision_state", CTRL_C),),
        },
    ),
    "fleet": Page(
        fleet,
        replaced={"0c6a7f0e-...": "$(ingot fleet list -o value -c uuid | head -1)"},
        differs=("paused: error budget",),
    ),
    "fleet-files": Page(
        fleet_files, fails=("eval ingot node import",), environ={"EDITOR": "true"}, slow=False
    ),
    "holds": Page(
        holds,
        fails=("ingot node provision-state rack1-u7 clean",),
        differs=("ingot: Node",),
        slow=False,
    ),
    "images": Page(images),
    "install": Page(
        install,
        replaced={"ingot up ": lambda _: f"ingot up --port {free_port()} "},
        keys={"ingot up": (("ready http", CTRL_C),)},
        alone=True,
    ),
    "machines-without-bmc": Page(),
    "moving-from-ironic": Page(
        moving,
        replaced={"/etc/ironic/": ""},
        fails=("ingot import-ironic",),  # two nodes are in a state that is not imported
        alone=True,
    ),
    "networks": Page(networks, replaced={"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA...": ED25519}),
    "operations": Page(replaced={"vm-2": "fleet-2"}),
    "quickstart": Page(
        quickstart,
        replaced={
            "https://192.0.2.10": lambda site: (
                f"{site.spare.redfish_address} --driver-info redfish_verify_ca=False"
            ),
            "redfish_password=...": "redfish_password=admin",
            "http://192.0.2.1/ipa.kernel": lambda site: site.simulator.ramdisk()["deploy_kernel"],
            "http://192.0.2.1/ipa.initramfs": lambda site: site.simulator.ramdisk()[
                "deploy_ramdisk"
            ],
            "52:54:00:12:34:56": lambda site: site.spare.macs[0],
            "http://192.0.2.1/system.qcow2": lambda site: site.image["image_source"],
            "<sha256>": lambda site: site.image["image_checksum"],
        },
        environ={"OS_ENDPOINT": "", "OS_AUTH_TYPE": ""},
    ),
    "quotas": Page(),
    "redfish": Page(
        redfish,
        # a simulated BMC calls a version as its file
        replaced={'"version": "2.4"': '"version": "bios-2.4"'},
        before={"baremetal node set NODE --raid-interface": MANAGEABLE},
    ),
    "sanitation": Page(sanitation),
    "security": Page(security, before={"ingot db": ". ./environment"}, alone=True),
    "selection": Page(selection, slow=False),
    "simulator": Page(
        simulator,
        replaced={"21000": lambda _: str(free_port())},
        keys={"python -m": (("{", CTRL_C),)},
    ),
    "users": Page(users, alone=True),
}

#: (page, start of a command or "" for all) -> why no test types it, or the test that does.
NOT_TYPED = {
    ("CONTRIBUTING", ""): "makes an environment from the package index",
    ("README", "make "): "tests/e2e/test_demo.py runs the demo; the service has the usual port",
    ("api", ""): "tests/contract/test_generated_client.py types them in an environment of its own",
    ("bmc-recording", "ingot bmc record rack7-node3 --operation"): (
        "tests/e2e/test_bmc_recording.py, as it needs two terminals"
    ),
    ("bmc-recording", "ingot node provision-state"): "tests/e2e/test_bmc_recording.py",
    ("boot", "grub-mkimage"): "a program of GRUB",
    ("vault", "bao "): "a program of OpenBao",
    ("vault", "ingot secrets move"): "tests/integration/vault/test_moves.py, as it needs a vault",
    ("cleaning", "ingot node set r1-u7"): "tests/e2e/test_burn_in.py",
    ("cleaning", "ingot node provision-state r1-u7"): "tests/e2e/test_burn_in.py",
    ("consoles", "ingot node console history"): (
        "needs a boot that has failed; tests/e2e/test_consoles.py reads a history"
    ),
    ("consoles", "ingot node set rack1-u2"): "needs a BMC with VNC: tests/e2e/test_screens.py",
    ("consoles", "ingot node console enable rack1-u2"): "needs a BMC with VNC",
    ("consoles", "ingot node console show rack1-u2"): "needs a BMC with VNC",
    ("containers", ""): "`make compose-test` types them, with a container engine",
    ("drivers", ""): "tests/e2e/test_own_driver.py types them on a service with that driver",
    ("images", "oras"): "needs a registry with TLS",
    ("inspection", "ingot node refresh"): "tests/integration/refreshes/test_refreshes.py",
    ("inspection", "ingot fleet run refresh"): "tests/integration/refreshes/test_refreshes.py",
    ("install", "pipx"): "tests/e2e/test_distribution.py installs the wheel",
    ("install", "kubectl"): "tests/unit/test_kubernetes.py types it, as a dry run",
    ("install", "helm"): "tests/unit/test_kubernetes.py types it, as a dry run",
    ("networks", "ssh-keyscan"): "needs a switch",
    ("night", ""): "`make night` types them; tests/e2e/test_night.py",
    ("quickstart", "make "): "tests/e2e/test_demo.py runs the demo; the service has the usual port",
    ("quickstart", "python3 -m venv"): "the package index",
    ("quickstart", "~/openstack/bin/pip"): "the package index",
    ("quickstart", "export PATH"): "belongs to the environment that is not made",
    ("redfish-events", ""): "tests/e2e/test_bmc_events.py",
    ("reliability", ""): "hours of `make chaos` and `make hosts`",
}  # fmt: skip


def set_state(path, name, state):
    """Move a node without its operations."""
    with sqlite3.connect(path, timeout=20) as database:
        database.execute("UPDATE nodes SET provision_state = ? WHERE name = ?", (state, name))


def typed(page):
    """Return the commands of a page that the reader types."""
    return [command for command in commands(page) if not excuses(command)]


def excuses(command):
    """Rows of `NOT_TYPED` that are about a command."""
    return [
        (page, start)
        for page, start in NOT_TYPED
        if page == command.page and command.text.startswith(start)
    ]
