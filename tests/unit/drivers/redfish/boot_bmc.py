"""A BMC in this process whose virtual media, boot settings and secure boot behave as tests say."""

import json
from dataclasses import dataclass, field, replace

from drivers.core.steps import Wait
from drivers.simulator.redfish_bmc.documents import MANAGER, SYSTEM
from tests.unit.drivers.documents import LocalBmc

MEDIA = f"{MANAGER}/VirtualMedia"
TASK = "/redfish/v1/TaskService/Tasks/77"
REFUSED, GONE = (400, "wrong kind of device"), (405, "method not allowed")


@dataclass
class Drive:
    """
    A virtual drive.

    insertion: effect of an insertion: "works"; "ignored": accepted without effect; "lost": carried
    out, and its answer is lost; a status: refused; "task": made a task that ends as `task` says.
    stale: reads after an ejection that still show the ejected medium.
    """

    types: list | None = field(default_factory=lambda: ["CD", "DVD"])
    insertion: object = "works"
    has_actions: bool = True
    can_patch: bool = False
    demands: tuple = ()  # properties that an insertion must have
    stale: int = 0
    stuck: bool = False  # an ejection has no effect
    slow: int = 0  # reads after an insertion that do not show it
    shows_image: bool = True
    medium: str | None = None
    stale_medium: str | None = None  # of the ejected medium, or before a slow insertion
    delay: int = 0

    def report(self) -> dict:
        medium = self.medium
        if self.delay:
            self.delay, medium = self.delay - 1, self.stale_medium
        image = medium if self.shows_image else None
        return {"Inserted": medium is not None, "Image": image}

    def eject(self) -> int:
        if self.medium is None:
            return 400
        if not self.stuck:
            self.stale_medium, self.delay, self.medium = self.medium, self.stale, None
        return 204

    def insert(self, image: str) -> None:
        self.stale_medium, self.delay, self.medium = self.medium, self.slow, image


@dataclass
class BootBmc(LocalBmc):
    """drives: by name. task: (TaskState, TaskStatus) of the task of an insertion."""

    drives: dict = field(default_factory=lambda: {"Cd": Drive()})
    task: tuple = ("Completed", "OK")
    #: called with the Boot object of a PATCH; returns what reaches the machine, or a status
    on_boot: object = staticmethod(lambda boot: boot)
    orders: list = field(default_factory=list)  # (method, last part of the path, body)

    def answer(self, method, path, headers, body=b""):
        template = path.rstrip("/").replace(self.machine.uuid, "{id}")
        document = json.loads(body) if body else None
        if method != "GET":
            self.orders.append((method, template.rpartition("/")[2], document))
        if template == TASK:
            state, status = self.task
            return 200, json.dumps(
                {
                    "@odata.id": TASK, "Id": "77", "Name": "t", "TaskState": state,
                    "TaskStatus": status, "Messages": [{"Message": "no such image"}],
                }
            ).encode(), {}  # fmt: skip
        if template.startswith(MEDIA):
            return self._media(method, template.removeprefix(MEDIA).strip("/"), document)
        if method == "PATCH" and template == SYSTEM and "Boot" in document:
            boot = self.on_boot(dict(document["Boot"]))
            if isinstance(boot, int):
                return boot, b'{"error": {"message": "not like this"}}', {}
            body = json.dumps({"Boot": boot}).encode()
        return super().answer(method, path, headers, body)

    def _media(self, method, subpath, document):
        if not subpath:
            members = [{"@odata.id": f"{MEDIA}/{name}"} for name in self.drives]
            return (
                200,
                json.dumps({"@odata.id": MEDIA, "Name": "m", "Members": members}).encode(),
                {},
            )
        name, _, action = subpath.partition("/Actions/VirtualMedia.")
        drive = self.drives[name]
        if method == "GET":
            return 200, json.dumps(self._document(name, drive)).encode(), {}
        if method == "PATCH" and not drive.can_patch:
            return GONE[0], json.dumps({"error": {"message": GONE[1]}}).encode(), {}
        if action == "EjectMedia" or (method == "PATCH" and document["Image"] is None):
            return drive.eject(), b'{"error": {"message": "no medium"}}', {}
        return self._insert(drive, document)

    def _insert(self, drive, document):
        missing = [name for name in drive.demands if name not in document]
        if missing:
            words = f"The parameter {missing[0]} is missing."
            return 400, json.dumps({"error": {"message": words}}).encode(), {}
        insertion = drive.insertion.pop(0) if isinstance(drive.insertion, list) else drive.insertion
        if isinstance(insertion, int):
            return insertion, json.dumps({"error": {"message": "not for this drive"}}).encode(), {}
        if insertion == "task":
            if self.task == ("Completed", "OK"):
                drive.insert(document["Image"])
            return 202, b"", {"Location": TASK}
        if insertion != "ignored":
            drive.insert(document["Image"])
        return (500 if insertion == "works, 500" else 204), b"", {}

    def _document(self, name, drive):
        path = f"{MEDIA}/{name}"
        actions = {
            f"#VirtualMedia.{action}": {"target": f"{path}/Actions/VirtualMedia.{action}"}
            for action in ("InsertMedia", "EjectMedia")
        }
        return {
            "@odata.id": path, "Id": name, "Name": name, "MediaTypes": drive.types,
            "Actions": actions if drive.has_actions else {}, **drive.report(),
        }  # fmt: skip

    def named(self, *names):
        """Return the names of the orders of these kinds, in order."""
        return [name.rpartition(".")[2] for _, name, _ in self.orders if name.endswith(names)]


def run(node, kind, method, **args):
    """
    Call a step until it ends, each time with its recorded reports; return (outcome, node).

    Raises HardwareError.
    """
    for _ in range(300):
        outcome = node.driver.by_kind[kind].run(node, method, args)
        facts = {**node.driver_internal_info, **node.reports.get("driver_internal_info", {})}
        node = replace(node, driver_internal_info=facts, reports={}, progress={})
        if not isinstance(outcome, Wait):
            return outcome, node
        node = replace(node, progress=json.loads(json.dumps(dict(outcome.progress))))
    raise AssertionError(f"no end: {outcome}")
