"""
Clients: callers of the API that request every verb at random, and record the accepted requests.

They act as a careful client does: each request carries an `Idempotency-Key` and is repeated until
it is answered. One client at a time sends requests for a node.
"""

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import requests

from tests.chaos.site import VERSION, wait

#: Seconds for one response; the API process may be stopped.
ANSWER = 6.0
#: Seconds of repetition after which a request is given up: its result is unknown then.
GIVE_UP = 180.0
#: Conclusive responses; after any other one the request is repeated.
ACCEPTED, REFUSED = (200, 201, 202, 204), (400, 403, 404, 406, 409)


@dataclass(slots=True)
class Entry:
    """A request that was accepted."""

    verb: str  # target of states/provision, "power" or "maintenance"
    state: str  # provision state before it
    arguments: dict
    sent_at: float  # seconds since 1970
    answered_at: float  # seconds since 1970, of the response
    tries: int

    @property
    def hold(self):
        """Whether it requests a step that holds the node."""
        steps = [
            step
            for name, value in self.arguments.items()
            if name.endswith("_steps")
            for step in value
        ]
        return any(step["step"] == "hold" for step in steps)


@dataclass(slots=True)
class Held:
    """A hold that was set."""

    node: str
    uuid: str
    refused: bool | None = None  # it has refused a change of the power; None: not answered
    ended: bool | None = None  # None: not answered


@dataclass(slots=True)
class Ledger:
    """Results of all requests."""

    accepted: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))  # by node
    holds: list[Held] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    unknown: list[tuple[str, str]] = field(default_factory=list)  # (node, verb) without a response
    #: (node, verb) that was refused after an attempt without a response. That one may be executed
    #: later: docs/api.md says so.
    late: list[tuple[str, str]] = field(default_factory=list)

    def refuse(self, node, verb, answer):
        """Note a refused request."""
        if answer.tries > 1:
            self.late.append((node, verb))


def step(interface, name, **args):
    return {"interface": interface, "step": name, "args": args}


class Client(threading.Thread):
    """One caller. When `stop` is set, it completes its present request and ends."""

    def __init__(self, site, number, nodes, locks, ledger, stop, think=0.3):
        super().__init__(name=f"client-{number}", daemon=True)
        self.site, self.nodes, self.locks, self.ledger = site, nodes, locks, ledger
        self.stop, self.think = stop, think
        self.random = Random(f"{site.seed}/client/{number}")
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.headers.update(VERSION)

    def run(self):
        act = self.first
        while not wait(self.random.uniform(0, 2 * self.think), self.stop):
            node = self.random.choice(self.nodes)
            if self.locks[node].acquire(blocking=False):
                try:
                    act(node)
                finally:
                    self.locks[node].release()
                act = self.visit
        self.http.close()

    @property
    def first(self):
        """The first act: in the shortest storm, too, there are holds."""
        return self.hold

    def visit(self, node):
        fields = "provision_state,maintenance,fault,reservation,power_state"
        answer = self.ask("GET", f"nodes/{node}?fields={fields}")
        if answer is None or answer.status_code != 200:
            return
        row = answer.json()
        if row["maintenance"] and row["fault"] in (None, "service failure", "rescue abort failure"):
            self.request(node, row, "maintenance", False)
            return
        choices = CHOICES.get(row["provision_state"], ())
        if not choices or row["reservation"]:
            return
        (verb,) = self.random.choices(
            [choice[0] for choice in choices], [choice[1] for choice in choices]
        )
        if verb == "nothing":
            return
        if verb == "maintenance":
            self.request(node, row, verb, True)
            wait(self.random.uniform(0, 3), self.stop)
            self.request(node, row, verb, False)
        elif verb == "hold":
            self.hold(node)
        elif verb == "power":
            target = self.random.choice(["power on", "power off", "rebooting"])
            self.request(node, row, verb, target=target)
        elif verb == "active" and not self.prepare(node):
            return
        else:
            self.request(node, row, verb, **self.arguments(verb))

    def hold(self, node):
        """Hold a node, request a change of its power, which must be refused, and end the hold."""
        body = {"uuid": self.identifier(), "kind": "investigation", "reason": "storm"}
        creation = self.ask("POST", f"nodes/{node}/holds", body)
        if creation is None:
            self.ledger.unknown.append((node, "hold"))
            return
        if creation.status_code == 409 and creation.tries > 1:  # perhaps the first answer was lost
            creation = self.ask("GET", f"holds/{body['uuid']}")
        if creation is None or creation.status_code not in (200, 201):
            return
        hold = Held(node, body["uuid"])
        self.ledger.holds.append(hold)
        power = {"target": "rebooting"}
        answer = self.ask("PUT", f"nodes/{node}/states/power", power, key=self.identifier())
        hold.refused = None if answer is None else answer.status_code in REFUSED
        if hold.refused:
            self.ledger.refuse(node, "power", answer)
        wait(self.random.uniform(0, 3), self.stop)
        answer = self.ask("DELETE", f"holds/{hold.uuid}")
        if answer is not None:
            hold.ended = answer.status_code in (204, 404)  # 404: an answer was lost: it has ended

    def identifier(self):
        """Return a random UUID."""
        return str(UUID(int=self.random.getrandbits(128)))

    def prepare(self, node):
        """Set the image to deploy: a node that was torn down has none."""
        change = [{"op": "add", "path": "/instance_info", "value": self.site.image()}]
        answer = self.ask("PATCH", f"nodes/{node}", change)
        return answer is not None and answer.status_code == 200

    def arguments(self, verb):
        """Random arguments of a verb."""
        if verb == "rescue":
            return {"rescue_password": "open sesame"}
        pool = STEPS.get(verb)
        if pool is None:
            return {}
        steps = self.random.sample(pool, self.random.randint(1, 3))
        if self.random.random() < 0.15:
            steps.insert(self.random.randint(0, len(steps)), step("power", "hold"))
        steps = [{**item, "args": dict(item["args"])} for item in steps]
        for item in steps:
            if item["interface"] == "firmware":  # its URL identifies the order in the machine's log
                number = f"{self.random.getrandbits(64):016x}"
                url = f"{self.site.control}/firmware/{number}.bin"
                item["args"] = {"settings": [{"component": "bios", "url": url}]}
        return {f"{verb}_steps": steps}

    def request(self, node, row, verb, on=None, **arguments):
        """Send a request until it is answered, and record the result."""
        if verb == "maintenance":
            method, path, body = ("PUT" if on else "DELETE"), f"nodes/{node}/maintenance", None
            arguments = {"on": on}
        elif verb == "power":
            method, path, body = "PUT", f"nodes/{node}/states/power", arguments
        else:
            method, path = "PUT", f"nodes/{node}/states/provision"
            body = {"target": verb, **arguments}
        sent_at = time.time()
        answer = self.ask(method, path, body, key=self.identifier())
        if answer is None:
            self.ledger.unknown.append((node, verb))
            return
        if answer.status_code in ACCEPTED:
            entry = Entry(
                verb, row["provision_state"], arguments, sent_at, time.time(), answer.tries
            )
            self.ledger.accepted[node].append(entry)
            self.ledger.counts["accepted"] += 1
        else:
            self.ledger.counts[f"refused {answer.status_code}"] += 1
            self.ledger.counts["refused"] += 1
            self.ledger.refuse(node, verb, answer)
        self.site.note(
            "request",
            node=node,
            verb=verb,
            status=answer.status_code,
            tries=answer.tries,
            text=answer.text[:300],
        )

    def ask(self, method, path, body=None, key=None):
        """Repeat a request until it is answered; None after `GIVE_UP` seconds."""
        headers = {"Idempotency-Key": key} if key else {}
        end, tries = time.monotonic() + GIVE_UP, 0
        while time.monotonic() < end:
            tries += 1
            url = f"{self.site.url}/v1/{path}"  # of another host each time, if there are several
            self.ledger.counts["sent"] += 1
            try:
                answer = self.http.request(method, url, json=body, headers=headers, timeout=ANSWER)
            except requests.RequestException:
                self.ledger.counts["unanswered"] += 1
            else:
                if answer.status_code in ACCEPTED + REFUSED:
                    answer.tries = tries
                    return answer
                self.ledger.counts[f"answered {answer.status_code}"] += 1
            if method == "GET" and self.stop.is_set():
                return None
            time.sleep(self.random.uniform(0.1, 1.0))
        return None


POWER = ("power", 1)
MAINTENANCE = ("maintenance", 0.3)
HOLD = ("hold", 0.7)
DELETED = ("deleted", 1)
#: state -> verbs that are requested in it, with their weights
CHOICES = {
    "enroll": [("manage", 5), HOLD],
    "manageable": [
        ("provide", 4),
        ("inspect", 2),
        ("clean", 3),
        ("adopt", 0.5),
        POWER,
        MAINTENANCE,
        HOLD,
    ],
    "available": [("active", 5), ("manage", 1), POWER, HOLD],
    "active": [
        ("rebuild", 1),
        ("deleted", 2),
        ("rescue", 1),
        ("service", 3),
        POWER,
        MAINTENANCE,
        HOLD,
    ],
    "inspect failed": [("inspect", 1), ("manage", 1)],
    "clean failed": [("manage", 1), ("provide", 1), ("clean", 1)],
    "deploy failed": [("active", 1), ("rebuild", 1), DELETED],
    "error": [DELETED, ("rebuild", 1)],
    "adopt failed": [("adopt", 1), ("manage", 1)],
    "rescue": [("unrescue", 3), ("rescue", 1), DELETED],
    "rescue failed": [("rescue", 1), ("unrescue", 1), DELETED],
    "unrescue failed": [("unrescue", 1), ("rescue", 1), DELETED],
    "service failed": [("service", 1), ("rescue", 1), DELETED],
    "clean hold": [("unhold", 4), ("abort", 1)],
    "deploy hold": [("unhold", 4), ("abort", 1)],
    "service hold": [("unhold", 4), ("abort", 1)],
    "inspect wait": [("abort", 0.05), ("nothing", 1)],
    "clean wait": [("abort", 0.05), ("nothing", 1)],
    "wait call-back": [("abort", 0.05), ("deleted", 0.05), ("nothing", 1)],
    "rescue wait": [("abort", 0.05), ("deleted", 0.05), ("nothing", 1)],
    "service wait": [("abort", 0.05), ("deleted", 0.05), ("nothing", 1)],
}
_OUT_OF_BAND = [
    step("firmware", "update"),
    step("bios", "apply_configuration", settings=[{"name": "ProcTurboMode", "value": "Disabled"}]),
]
#: verb -> steps, some of which are requested
STEPS = {
    "clean": [
        step("raid", "create_configuration"),
        step("raid", "delete_configuration"),
        step("deploy", "erase_devices_metadata"),
        step("deploy", "burnin_cpu"),
        *_OUT_OF_BAND,
    ],
    "service": [
        step("raid", "create_configuration"),
        step("raid", "delete_configuration"),
        *_OUT_OF_BAND,
    ],
}
