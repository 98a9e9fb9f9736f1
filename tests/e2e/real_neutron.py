"""
The real Neutron, from PyPI, with networking-generic-switch, and Open vSwitch as the switch.

Neutron's mechanism driver logs in to a real sshd on loopback, and configures the bridge by
`ovs-vsctl`; no packet flows.
"""

import json
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.e2e import real_switch
from tests.support import environments
from tests.support.ports import free_port

SERVE = Path(__file__).with_name("real_neutron_host") / "serve.py"
SWITCH = "0c:c4:7a:00:00:01"
PORTS = ("p7", "p8")
#: Network -> its VLAN; `free` is not switched.
VLANS = {
    name: 110 + at for at, name in enumerate(("cleaning", "provisioning", "servicing", "tenant"))
}

NEUTRON = """[DEFAULT]
auth_strategy = noauth
core_plugin = ml2
service_plugins =
transport_url = fake:/
api_paste_config = {environment}/etc/neutron/api-paste.ini
state_path = {folder}
rpc_workers = 0
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
[oslo_concurrency]
lock_path = {folder}/locks
[database]
connection = {database}
[oslo_policy]
policy_file = {folder}/policy.yaml
[ml2]
type_drivers = vlan,flat
tenant_network_types = vlan
mechanism_drivers = genericswitch
extension_drivers =
[ml2_type_vlan]
network_vlan_ranges = rack1:100:199
[ml2_type_flat]
flat_networks = rack2
[genericswitch:leaf-1]
device_type = netmiko_ovs_linux
ngs_mac_address = {switch}
ip = 127.0.0.1
port = {ssh}
username = root
key_file = {folder}/key
use_keys = True
"""
#: Without Keystone, callers are administrators, and have no role `service`.
POLICY = "".join(
    f'"{verb}_port:binding:profile": "rule:admin_only"\n' for verb in ("create", "update", "get")
)


class RealNeutron:
    """A Neutron at `url`, whose switch is `folder`'s Open vSwitch."""

    def __init__(self, folder, url):
        self.folder, self.url = folder, url

    def ask(self, method, path, document=None):
        body = None if document is None else json.dumps(document).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/v2.0{path}", body, headers, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read() or b"null")

    def add_networks(self):
        for at, (name, vlan) in enumerate(VLANS.items()):
            self._add_network(
                at, name, network_type="vlan", physical_network="rack1", segmentation_id=vlan
            )
        self._add_network(len(VLANS), "free", network_type="flat", physical_network="rack2")

    def _add_network(self, at, name, **provider):
        fields = {f"provider:{key}": value for key, value in provider.items()}
        network = self.ask("POST", "/networks", {"network": {"name": name, **fields}})["network"]
        subnet = {"network_id": network["id"], "cidr": f"10.{at}.0.0/24", "ip_version": 4}
        self.ask("POST", "/subnets", {"subnet": subnet})

    def id_of(self, network):
        return self.ask("GET", f"/networks?name={network}")["networks"][0]["id"]

    def add_port(self, network="tenant"):
        port = {"network_id": self.id_of(network), "device_owner": "compute:az"}
        return self.ask("POST", "/ports", {"port": port})["port"]["id"]

    def ports(self):
        return {port["id"]: port for port in self.ask("GET", "/ports")["ports"]}

    def on(self, network):
        ident = self.id_of(network)
        return [port for port in self.ports().values() if port["network_id"] == ident]

    def clear(self):
        for ident in self.ports():
            self.ask("DELETE", f"/ports/{ident}")

    def vlan(self, port):
        """VLAN of a port of the switch; None: it has none."""
        tag = real_switch.vsctl(self.folder, "get", "port", port, "tag").strip()
        return None if tag == "[]" else int(tag)


@contextmanager
def serving(folder):
    """Skips the test if a part is not available."""
    real_switch.require()
    environment = environments.installed("neutron")
    with ExitStack() as scope:
        real_switch.start_switch(scope, folder, PORTS)
        ssh = real_switch.start_sshd(scope, folder)
        yield _start_neutron(scope, folder, environment, ssh)


def _start_neutron(scope, folder, environment, ssh):
    database, port = f"sqlite:///{folder}/neutron.db", free_port()
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "neutron.conf").write_text(
        NEUTRON.format(
            environment=environment, folder=folder, database=database, ssh=ssh, switch=SWITCH
        )
    )
    python = environment / "bin" / "python"
    command = [python, SERVE, str(port), database, folder / "neutron.conf"]
    neutron = RealNeutron(folder, f"http://127.0.0.1:{port}")
    environments.start(
        scope, command, folder / "neutron.log", lambda: neutron.ask("GET", "/networks"),
        away=urllib.error.URLError,
    )  # fmt: skip
    neutron.add_networks()
    return neutron
