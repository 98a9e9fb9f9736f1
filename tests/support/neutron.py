"""A little Neutron: networks, ports with its rules about bound ports and MAC addresses, and faults."""

import re
import threading
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from tests.support import web

NETWORKS = ("cleaning", "provisioning", "rescuing", "servicing", "inspection", "tenant")


class Neutron:
    """
    networks, ports, trunks: documents by id. requests: (method, path, body of an update) of all.

    binds: state of a port with a host: ACTIVE, DOWN (nothing connects it), or binding_failed. slow: reads of a bound port until it is ACTIVE.
    """

    def __init__(self):
        self.networks, self.ports, self.trunks, self.subnets, self.segments = {}, {}, {}, {}, {}
        self.requests = []
        self.binds, self.slow = "ACTIVE", 0
        self._faults = []
        self._lock = threading.RLock()
        for name in NETWORKS:
            self.add_network(name)

    def add_network(self, name, **fields):
        ident = str(uuid4())
        self.networks[ident] = {
            "id": ident,
            "name": name,
            "project_id": "admin",
            "mtu": 1500,
            **fields,
        }
        return ident

    def id_of(self, network):
        return next(entry["id"] for entry in self.networks.values() if entry["name"] == network)

    def add_port(self, network="tenant", **fields):
        """A tenant's port, as Nova makes it; return its id."""
        body = {"network_id": self.id_of(network), "device_owner": "compute:az", **fields}
        return self._create_port(body)[1]["port"]["id"]

    def fail(self, method, path, fault, times=1):
        """
        Let the next requests fail. path: a pattern.

        fault: a status; "lost" closes the connection after the request is carried out, "unheard" before.
        """
        self._faults.append([method, re.compile(path), fault, times])

    def on(self, network):
        """Ports of a network."""
        return [port for port in self.ports.values() if port["network_id"] == self.id_of(network)]

    def orders(self):
        """The requests that change something: (method, path)."""
        return [(method, path) for method, path, _ in self.requests if method != "GET"]

    # the protocol

    def answer(self, method, url, body):
        """(status, document); status None: no answer"""
        path = urlsplit(url).path
        with self._lock:
            self.requests.append((method, path, body))
            fault = self._fault(method, path)
            if fault == "unheard":
                return None, None
            if isinstance(fault, int):
                return fault, _error(
                    "ServiceUnavailable" if fault >= 500 else "Refused", "out of order"
                )
            status, document = self._carry_out(method, urlsplit(url), body)
            return (None, None) if fault == "lost" else (status, document)

    def _fault(self, method, path):
        for fault in self._faults:
            if fault[0] == method and fault[1].search(path) and fault[3]:
                fault[3] -= 1
                return fault[2]
        return None

    def _carry_out(self, method, url, body):
        if url.path in ("", "/"):
            return 200, {
                "versions": [{"id": "v2.0", "status": "CURRENT", "links": [{"rel": "self", "href": f"{self.url}/v2.0/"}]}]
            }  # fmt: skip
        if url.path.strip("/") == "v2.0":
            return 200, {"resources": []}
        kind, _, ident = url.path.removeprefix("/v2.0/").strip("/").partition("/")
        table = getattr(self, kind)
        if method == "POST":
            return self._create_port(body["port"])
        if not ident:
            query = parse_qs(url.query)
            entries = [entry for entry in table.values() if _fits(entry, query)]
            return 200, {kind: entries}
        if ident not in table:
            return 404, _error("PortNotFound", f"{kind[:-1]} {ident} could not be found.")
        if method == "DELETE":
            del table[ident]
            return 204, None
        if method == "PUT":
            return self._update_port(table[ident], body["port"])
        self._settle(table[ident])
        return 200, {kind[:-1]: table[ident]}

    def _create_port(self, fields):
        if fields["network_id"] not in self.networks:
            return 404, _error(
                "NetworkNotFound", f"Network {fields['network_id']} could not be found."
            )
        port = {
            "id": str(uuid4()), "project_id": "admin", "device_id": "", "device_owner": "", "status": "DOWN",
            "mac_address": _mac(), "binding:host_id": "", "binding:profile": {}, "binding:vnic_type": "normal",
            "binding:vif_type": "unbound", "extra_dhcp_opts": [], "admin_state_up": True,
            "fixed_ips": [{"subnet_id": "s", "ip_address": "192.0.2.7"}],
            **fields,
        }  # fmt: skip
        if clash := self._clash(port):
            return clash
        self.ports[port["id"]] = port
        self._bind(port)
        return 201, {"port": port}

    def _update_port(self, port, fields):
        if "mac_address" in fields:
            fields = {**fields, "mac_address": fields["mac_address"] or _mac()}
            if fields["mac_address"] != port["mac_address"] and port["binding:host_id"]:
                # Neutron looks at the port before the update
                return 409, _error(
                    "PortBound",
                    f"Unable to complete operation on port {port['id']}, port is already bound",
                )
            if clash := self._clash({**port, **fields}):
                return clash
        if "extra_dhcp_opts" in fields:
            options_by_name = {
                (option["opt_name"], option.get("ip_version", 4)): option
                for option in port["extra_dhcp_opts"]
            }
            for option in fields["extra_dhcp_opts"]:
                options_by_name[option["opt_name"], option.get("ip_version", 4)] = option
            options = [
                option for option in options_by_name.values() if option["opt_value"] is not None
            ]
            fields = {**fields, "extra_dhcp_opts": options}
        port.update(fields)
        if fields.keys() & {"binding:host_id", "binding:profile", "binding:vnic_type"}:
            self._bind(port)
        return 200, {"port": port}

    def _clash(self, port):
        for other_port in self.ports.values():
            same = (
                other_port["network_id"] == port["network_id"]
                and other_port["mac_address"] == port["mac_address"]
            )
            if same and other_port["id"] != port["id"]:
                return 409, _error(
                    "MacAddressInUse", f"The mac address {port['mac_address']} is in use."
                )
        return None

    def _bind(self, port):
        port["reads"] = 0
        if not port["binding:host_id"]:
            port["binding:vif_type"], port["status"] = "unbound", "DOWN"
        elif self.binds == "binding_failed":
            port["binding:vif_type"], port["status"] = "binding_failed", "DOWN"
        else:
            port["binding:vif_type"] = "other"
            port["status"] = "DOWN" if self.slow else self.binds

    def _settle(self, port):
        if port.get("binding:vif_type") == "other" and self.binds == "ACTIVE":
            port["reads"] += 1
            if port["reads"] > self.slow:
                port["status"] = "ACTIVE"


def _error(kind, message):
    return {"NeutronError": {"type": kind, "message": message, "detail": ""}}


def _fits(document, query):
    return all(
        str(document.get(name, "")) in values for name, values in query.items() if name != "fields"
    )


def _mac():
    return "fa:16:3e:" + ":".join(uuid4().hex[at : at + 2] for at in (0, 2, 4))


@contextmanager
def serving():
    """A Neutron on a free port."""
    neutron = Neutron()

    class Asked(web.Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            status, document = neutron.answer(self.command, self.path, self.body())
            if status is None:
                self.close_connection = True
                self.connection.close()
                return
            self.answer(status, b"" if document is None else document)

        do_POST = do_PUT = do_DELETE = do_GET

    with web.serving(Asked) as server:
        neutron.url = server.url
        yield neutron
