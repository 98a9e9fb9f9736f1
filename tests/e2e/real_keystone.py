"""The real Keystone, from PyPI: users, roles, and a catalog that names the service."""

from contextlib import ExitStack, contextmanager
from pathlib import Path

import requests

from tests.support import environments
from tests.support.ports import free_port

SERVE = Path(__file__).with_name("real_keystone_host") / "serve.py"
#: Password of the administrator and of the service.
PASSWORD = "sesame"
KEYSTONE = """[database]
connection = sqlite:///{folder}/keystone.db
[fernet_tokens]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/credentials
[oslo_policy]
enforce_scope = true
[cache]
enabled = false
[identity]
password_hash_rounds = 4
"""
DEFAULT = {"id": "default"}


class RealKeystone:
    """A Keystone at `url`; `environment` has its programs, and those of Tempest."""

    def __init__(self, environment, url):
        self.environment, self.url = environment, url
        self._http = requests.Session()
        self._http.trust_env = False
        #: Settings of the service for this Keystone.
        self.settings = {
            "INGOT_AUTH_STRATEGY": "keystone", "INGOT_KEYSTONE_AUTHTOKEN_AUTH_URL": url,
            "INGOT_KEYSTONE_AUTHTOKEN_USERNAME": "ingot",
            "INGOT_KEYSTONE_AUTHTOKEN_PASSWORD": PASSWORD,
        }  # fmt: skip

    def log_in(self):
        """Send further requests as the administrator."""
        user = {"name": "admin", "domain": DEFAULT, "password": PASSWORD}
        scope = {"project": {"name": "admin", "domain": DEFAULT}}
        identity = {"methods": ["password"], "password": {"user": user}}
        answer = self._send("POST", "/auth/tokens", auth={"identity": identity, "scope": scope})
        self._http.headers["X-Auth-Token"] = answer.headers["X-Subject-Token"]

    def add_service_user(self):
        """Create the user of the service, who validates tokens."""
        project = self._create("project", name="service", domain_id="default")
        user = self._create("user", name="ingot", domain_id="default", password=PASSWORD)
        roles = self._send("GET", "/roles?name=service").json()["roles"]
        self._send("PUT", f"/projects/{project}/users/{user}/roles/{roles[0]['id']}")

    def list_in_catalog(self, url):
        """Name the URL of the service in the catalog."""
        service = self._create("service", type="baremetal", name="ingot")
        for interface in ("public", "internal"):
            self._create(
                "endpoint", service_id=service, interface=interface, region_id="RegionOne", url=url
            )

    def _create(self, kind, **fields):
        return self._send("POST", f"/{kind}s", **{kind: fields}).json()[kind]["id"]

    def _send(self, method, path, **document):
        url = f"{self.url}/v3{path}"
        answer = self._http.request(method, url, json=document or None, timeout=60)
        assert answer.ok, answer.text
        return answer


@contextmanager
def serving(folder):
    """Skips the test if a part is not available."""
    environment, port = environments.installed("tempest"), free_port()
    folder.mkdir()
    (folder / "keystone.conf").write_text(KEYSTONE.format(folder=folder))
    keystone = RealKeystone(environment, f"http://127.0.0.1:{port}")
    with ExitStack() as scope:
        command = [environment / "bin" / "python", SERVE, str(port), folder]
        environments.start(
            scope, command, folder / "keystone.log", keystone.log_in, away=requests.ConnectionError
        )
        keystone.add_service_user()
        yield keystone
