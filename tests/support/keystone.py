"""A minimal Keystone: it issues our service's token, and validates the tokens of callers."""

from contextlib import contextmanager

from tests.support import web

PASSWORD = "sesame"
NEVER = "2099-01-01T00:00:00.000000Z"


def token(*roles, project=None, system=False, domain=None, user="ann", project_name=None, **fields):
    """A token of version 3, in the form of its validation."""
    document = {
        "methods": ["password"],
        "user": {"id": user, "name": user, "domain": {"id": "default", "name": "Default"}},
        "roles": [{"id": f"role-{role}", "name": role} for role in roles],
        "issued_at": "2026-01-01T00:00:00.000000Z",
        "expires_at": NEVER,
        "audit_ids": ["a"],
        **fields,
    }
    if project:
        home = {"id": "default", "name": "Default"}
        document["project"] = {"id": project, "name": project_name or project, "domain": home}
    if system:
        document["system"] = {"all": True}
    if domain:
        document["domain"] = {"id": domain, "name": domain}
    return document


class Keystone:
    """State of the server."""

    def __init__(self, url):
        self.url = url
        self.tokens = {}  # text -> token
        self.request_log = []  # tokens whose validation was requested, in order
        self.broken = False  # answer 500

    def answer(self, method, path, headers, body):
        """(status, headers, document)"""
        if self.broken:
            return 500, {}, {"error": {"code": 500, "message": "down", "title": "Error"}}
        if path in ("", "/", "/v3"):
            version = {
                "id": "v3.14",
                "status": "stable",
                "links": [{"rel": "self", "href": f"{self.url}/v3/"}],
                "media-types": [],
            }
            many = {"versions": {"values": [version]}}
            return (200, {}, {"version": version}) if path == "/v3" else (300, {}, many)
        if path != "/v3/auth/tokens":
            return 404, {}, {"error": {"code": 404, "message": path, "title": "Not Found"}}
        if method == "POST":
            password = body["auth"]["identity"]["password"]["user"]["password"]
            if password != PASSWORD:
                return 401, {}, {"error": {"code": 401, "message": "no", "title": "Unauthorized"}}
            endpoints = [{"id": "1", "interface": "internal", "region": None,
                          "region_id": None, "url": f"{self.url}/v3"}]  # fmt: skip
            catalog = [{"id": "1", "type": "identity", "name": "keystone", "endpoints": endpoints}]
            ours = token("service", project="service", user="ingot", catalog=catalog)
            return 201, {"X-Subject-Token": "ours"}, {"token": ours}
        if headers.get("X-Auth-Token") != "ours":
            return 401, {}, {"error": {"code": 401, "message": "who?", "title": "Unauthorized"}}
        subject = headers.get("X-Subject-Token")
        self.request_log.append(subject)
        if subject not in self.tokens:
            return 404, {}, {"error": {"code": 404, "message": "no", "title": "Not Found"}}
        return 200, {"X-Subject-Token": subject}, {"token": self.tokens[subject]}


@contextmanager
def serving():
    """A Keystone on a free port."""

    class Handler(web.Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            path = self.path.partition("?")[0].rstrip("/")
            request = (self.command, path, self.headers, self.body())
            status, headers, document = keystone.answer(*request)
            self.answer(status, document, headers)

        do_POST = do_GET

    with web.serving(Handler) as server:
        keystone = Keystone(server.url)
        yield keystone
