"""
The real Glance, from PyPI, with a store of files and keystonemiddleware, which asks the Keystone of
`tests.support.keystone` for the project and the roles of each token.
"""

from contextlib import ExitStack, contextmanager
from pathlib import Path

import requests

from tests.support import environments, keystone
from tests.support.ports import free_port

SERVE = Path(__file__).with_name("real_glance_host") / "serve.py"
#: Token of an administrator of images, and of the owner of private ones.
ADMINISTRATOR, OWNER = "administrator", "owner"

GLANCE = """[DEFAULT]
enabled_backends = files:file
transport_url = fake:/
[database]
connection = sqlite:///{folder}/glance.db
[glance_store]
default_backend = files
[files]
filesystem_store_datadir = {folder}/images
[os_glance_staging_store]
filesystem_store_datadir = {folder}/staging
[os_glance_tasks_store]
filesystem_store_datadir = {folder}/tasks
[paste_deploy]
flavor = keystone
config_file = {environment}/etc/glance/glance-api-paste.ini
[keystone_authtoken]
www_authenticate_uri = {keystone}
auth_type = password
auth_url = {keystone}
username = glance
password = {password}
user_domain_name = Default
project_domain_name = Default
project_name = service
interface = internal
[oslo_policy]
policy_file = {folder}/policy.yaml
[oslo_concurrency]
lock_path = {folder}/locks
"""


class RealGlance:
    """A Glance at `url`; `keystone` knows its tokens. `folder` has its files."""

    def __init__(self, folder, url, keystone):
        self.folder, self.url, self.keystone = folder, url, keystone
        keystone.tokens |= {
            "ours": _token("reader", "member", "service", project="service"),
            ADMINISTRATOR: _token("reader", "member", "admin", project="operators"),
            OWNER: _token("reader", "member", project="tenant"),
        }
        #: Settings of the service for this Glance.
        self.settings = {
            "INGOT_GLANCE_AUTH_TYPE": "password", "INGOT_GLANCE_AUTH_URL": keystone.url,
            "INGOT_GLANCE_USERNAME": "ingot", "INGOT_GLANCE_PASSWORD": "sesame",
            "INGOT_GLANCE_ENDPOINT_OVERRIDE": url, "INGOT_GLANCE_NUM_RETRIES": "1",
        }  # fmt: skip

    def ask(self, method, path="", token=ADMINISTRATOR, **about):
        headers = {"X-Auth-Token": token, **about.pop("headers", {})}
        with requests.Session() as session:
            session.trust_env = False
            answer = session.request(
                method, f"{self.url}/v2/images{path}", headers=headers, timeout=60, **about
            )
        assert answer.ok, answer.text
        return answer.json() if answer.content else None

    def create(self, token=ADMINISTRATOR, **properties):
        """Create an image without content; return its UUID."""
        facts = {"name": "disk", "disk_format": "raw", "container_format": "bare"}
        return self.ask("POST", token=token, json={**facts, **properties})["id"]

    def put(self, uuid, content, token=ADMINISTRATOR):
        headers = {"Content-Type": "application/octet-stream"}
        self.ask("PUT", f"/{uuid}/file", token, data=content, headers=headers)

    def add(self, content, token=ADMINISTRATOR, **properties):
        """Create an active image, by default for all projects; return its UUID."""
        uuid = self.create(token, **{"visibility": "public", **properties})
        self.put(uuid, content, token)
        return uuid

    def let_download(self, rule):
        """Change the policy of the content of images; Glance reads it at its next request."""
        (self.folder / "policy.yaml").write_text(f'"download_image": "{rule}"\n')

    def stored(self, uuid):
        """The file of an image in the store."""
        return self.folder / "images" / uuid


def _token(*roles, project):
    return keystone.token(*roles, project=project, user=project)


@contextmanager
def serving(folder):
    """Skips the test if a part is not available."""
    environment, port = environments.installed("glance"), free_port()
    folder.mkdir()
    with ExitStack() as scope:
        identity = scope.enter_context(keystone.serving())
        text = GLANCE.format(
            folder=folder,
            environment=environment,
            keystone=identity.url,
            password=keystone.PASSWORD,
        )
        (folder / "glance-api.conf").write_text(text)
        glance = RealGlance(folder, f"http://127.0.0.1:{port}", identity)
        glance.let_download("role:reader")
        command = [environment / "bin" / "python", SERVE, str(port), folder]
        environments.start(
            scope, command, folder / "glance.log", lambda: glance.ask("GET"),
            away=requests.ConnectionError,
        )  # fmt: skip
        yield glance
