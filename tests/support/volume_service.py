"""A little Cinder: volumes, and the attachments of its API 3.44."""

from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from tests.support import web

IQN = "iqn.2026-11.org.example:"


class Volumes:
    """
    ids: of the volumes. type: of their connections. attachments: by id. request_log: (method, path, token) of all requests.

    broken: status of all answers; None: it works. dies_after: method whose next request is carried
    out and then answered by 503.
    """

    def __init__(self, *uuids):
        self.ids = set(uuids)
        self.type = "iscsi"
        self.attachments = {}
        self.request_log = []
        self.broken = self.dies_after = None

    def of(self, volume):
        return [
            attachment
            for attachment in self.attachments.values()
            if attachment["volume_id"] == volume
        ]

    def orders(self):
        """The requests that change something, as (method, last part of the path)."""
        changes = [(method, path) for method, path, _ in self.request_log if method != "GET"]
        return [(method, path.rpartition("/")[2]) for method, path in changes]

    def answer(self, method, url, body):
        """(status, document)"""
        if self.broken:
            return self.broken, {"error": {"code": self.broken, "message": "out of order"}}
        answer = self.carry_out(method, urlsplit(url), body)
        if method == self.dies_after:
            self.dies_after = None
            return 503, {"error": {"code": 503, "message": "restarting"}}
        return answer

    def carry_out(self, method, url, body):
        name = url.path.removeprefix("/v3/attachments").strip("/")
        if method == "POST" and not name:
            fields = body["attachment"]
            if fields["volume_uuid"] not in self.ids:
                return 404, {"itemNotFound": {"code": 404, "message": "no such volume"}}
            attachment = self.attach(
                fields["volume_uuid"], fields["instance_uuid"], fields["connector"]
            )
            return 200, {"attachment": attachment}
        if method == "GET" and not name:
            # as summaries, and all of them where the filter is not known
            query = parse_qs(url.query)
            mine = [
                attachment
                for attachment in self.attachments.values()
                if [attachment["volume_id"]] == query["volume_id"]
            ]
            return 200, {
                "attachments": [
                    {key: attachment[key] for key in ("id", "instance", "status")}
                    for attachment in mine
                ]
            }
        ident, _, action = name.partition("/")
        if ident not in self.attachments:
            return 404, {"itemNotFound": {"code": 404, "message": "no such attachment"}}
        if method == "DELETE":
            del self.attachments[ident]
            return 200, {"attachments": []}
        if action:
            assert {"os-complete": None} == body
            self.attachments[ident]["status"] = "attached"
            return 204, None
        return 200, {"attachment": self.attachments[ident]}

    def attach(self, volume, machine, connector=()):
        ident = str(uuid4())
        self.attachments[ident] = {
            "id": ident, "volume_id": volume, "instance": machine, "status": "attaching",
            "connector": connector,
            "connection_info": {
                "driver_volume_type": self.type, "target_portal": "192.0.2.9:3260",
                "target_iqn": IQN + volume, "target_lun": 1,
                "auth_method": "CHAP", "auth_username": "u", "auth_password": "sesame",
            },
        }  # fmt: skip
        return self.attachments[ident]


@contextmanager
def serving(*uuids):
    """A volume service on a free port, with these volumes."""
    volumes = Volumes(*uuids)

    class Asked(web.Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            assert "volume 3.44" == self.headers["OpenStack-API-Version"]
            path = self.path.partition("?")[0]
            volumes.request_log.append((self.command, path, self.headers.get("X-Auth-Token")))
            status, document = volumes.answer(self.command, self.path, self.body())
            self.answer(status, b"" if document is None else document)

        do_POST = do_DELETE = do_GET

    with web.serving(Asked) as server:
        volumes.url = f"{server.url}/v3"
        yield volumes
