"""
The storm of rotations: new passwords for all BMCs, again and again, while conductors die.

Some BMCs refuse a new password, do not apply it, cut the connection, or lock their user out, which
strangers with wrong passwords cause, too. At the end, each node's row has a password that its BMC
accepts, and no password is where it must not be (`tests.chaos.leaks`). The simulator knows all.
"""

import base64
import secrets
import threading
import time
from collections import Counter
from contextlib import suppress
from random import Random

import requests
from sqlalchemy import select

from app.config import settings as app_settings
from app.models import Node
from app.runtime import make
from drivers.core.password_rotation import KEY
from tests.chaos import audit, judge, table
from tests.chaos import storm as storms
from tests.chaos.clients import Client, Ledger, step
from tests.chaos.leaks import Search, Watch
from tests.chaos.roles import HURRY
from tests.chaos.site import Site
from tests.chaos.storm import Disturbance, Storm
from workers.supervisor import location

ROTATE = step("management", "rotate_bmc_password")
#: Kind of BMC -> its faults; their weights follow. `lockout_seconds` is a factor of the waits.
REFUSING = {
    "refuses": {"password_refused": "the password {password} was used before"},
    "does not apply": {"password_unapplied": True},
    "cuts before": {"password_cut": "before"},
    "cuts after": {"password_cut": "after"},
    "locks at the first wrong login": {"lockout_after": 1, "password_cut": "before"},
    "locks after two, cuts": {"lockout_after": 2, "password_cut": "after"},
    "locks after three, hidden": {"lockout_after": 3, "lockout_hidden": True},
    "drops": {"drop_rate": 0.05, "error_rate": 0.05},
    "dead at times": {"latency_jitter": 0.5},
}
#: Share of the machines with one of these.
REFUSING_PART = 0.75
#: Seconds of a lock-out at normal waits.
LOCKOUT = 600.0
#: Most seconds until all rotations without faults have ended.
SETTLED = 1200.0

ROWS = {
    "unknown": "BMCs that accept no password of their node's row",
    "leaks": "places with a password: logs, answers, arguments, environments, dumps, files",
    "unsettled": "nodes whose rotation fails without faults",
    "core": "processes that may write a core dump",
}


class RotationSite(Site):
    """A site with a master key, whose BMCs have passwords of their own."""

    def __init__(self, folder, nodes, seed, *, waits, **options):
        super().__init__(folder, nodes, seed, **options)
        self.waits = waits
        key = self.folder / "master.key"
        self.folder.mkdir(parents=True, exist_ok=True)
        key.write_text(base64.b64encode(secrets.token_bytes(32)).decode())
        self.environ |= {
            "INGOT_DATABASE_SECRETS_KEY_FILE": str(key),
            HURRY: str(waits),
            "INGOT_CONDUCTOR_MAX_CONCURRENT_CLEAN": "5000",
        }
        self.first_passwords = {}

    def password(self, machine):
        return self.first_passwords.setdefault(machine["number"], f"Old-{secrets.token_hex(8)}")

    def enrol(self):
        for machine in self.machines:
            self.set_password(machine["number"], self.password(machine))
        return super().enrol()

    def rows(self):
        """Return UUID -> (driver_info, driver_internal_info), decrypted."""
        environ = {**self.environ, "INGOT_DATABASE_CONNECTION": self.database}
        environ["INGOT_DATA_DIR"] = str(self.folder / "data")
        settings = location.complete(app_settings.load(environ))
        runtime = make(settings, send=lambda _message: False)
        try:
            with runtime.reading() as session:
                query = select(Node.uuid, Node.driver_info, Node.driver_internal_info)
                return {uuid: (info, internal) for uuid, info, internal in session.execute(query)}
        finally:
            runtime.engine.dispose()


class Rotator(Client):
    """A caller that rotates the passwords of its nodes, and begins again when one has ended."""

    @property
    def first(self):
        return self.visit

    def visit(self, node):
        fields = "provision_state,maintenance,reservation"
        answer = self.ask("GET", f"nodes/{node}?fields={fields}")
        if answer is None or answer.status_code != 200:
            return
        row = answer.json()
        if row["maintenance"]:
            self.request(node, row, "maintenance", False)
        elif row["reservation"]:
            return
        elif row["provision_state"] == "manageable":
            self.request(node, row, "clean", clean_steps=[ROTATE], disable_ramdisk=True)
        elif row["provision_state"] in ("enroll", "clean failed"):
            self.request(node, row, "manage")


def locked_out(storm, number):
    """Log in with wrong passwords, as a stranger does, until the user is locked out."""
    machine = storm.site.machines[int(number)]
    url = f"{machine['redfish_address']}/redfish/v1/SessionService/Sessions"
    for _ in range(3):
        with suppress(requests.RequestException):
            requests.post(url, json={"UserName": "admin", "Password": "wrong"}, timeout=5)
    yield 0


def dead(storm, number):
    """Cut all connections of a BMC for a while."""
    storm.site.set_faults(int(number), bmc_dead=True)
    yield storm.random.uniform(1, 5)
    storm.site.set_faults(int(number), bmc_dead=None)


def _machines(storm):
    return [str(number) for number in range(storm.site.nodes)]


DISTURBANCES = (
    *(
        disturbance
        for disturbance in storms.DISTURBANCES
        if "conductor" in disturbance.name or "FLUSHALL" in disturbance.name
    ),
    Disturbance("a stranger's wrong logins", locked_out, _machines, 6),
    Disturbance("a BMC cut off", dead, _machines, 6),
)  # fmt: skip


def blowing(site, minutes, gap):
    """Return a storm that blows for some minutes, with a disturbance every `gap` seconds."""
    storm = Storm(site, [], gap, DISTURBANCES)

    def blow():
        stop = threading.Event()
        ending = threading.Timer(minutes * 60, stop.set)
        ending.start()
        try:
            storm.blow(stop)
        finally:
            ending.cancel()

    return storm, blow


def run(site, harm, *, clients, rest_limit, say=print):
    """
    Rotate while `harm` does harm, and until it returns; return (verdict, facts).

    rest_limit: most seconds until the site is at rest.
    """
    verdict = judge.Verdict()
    nodes = site.enrol()
    site.query("UPDATE nodes SET provision_state = 'manageable', power_state = 'power off'")
    audit.lay(site)
    kinds = give_faults(site)
    say(f"{site.nodes} nodes enrolled; the storm begins")
    stop, ledger, watch = threading.Event(), Ledger(), Watch(site)
    locks = {node: threading.Lock() for node in nodes}
    callers = [
        Rotator(site, number, nodes[number::clients], locks, ledger, stop, think=0.05)
        for number in range(clients)
    ]
    watch.start()
    for caller in callers:
        caller.start()
    try:
        harm()
    finally:
        stop.set()
    for caller in callers:
        caller.join()
    say("the storm is over; waiting for rest")
    took, stuck = judge.await_rest(site, rest_limit)
    for row in stuck:
        verdict.blame("unsettled", " ".join(map(str, row)))
    counts = rotations(site)
    unsettled = judge_known(verdict, site)
    say(f"at rest after {took:.0f} s: {dict(counts)}; {unsettled} unsettled")
    settle(site, nodes, verdict)
    judge_known(verdict, site, is_settled=True)
    watch.end()
    searched = judge_leaks(verdict, site, watch)
    facts = {
        "waits of the step, in parts of the usual ones": f"{site.waits:g}",
        "BMCs, of them with faults": f"{site.nodes}, {sum(kinds.values())}",
        "conductors": len(site.conductors),
        "seed": site.seed,
        "seconds from the end of the storm to rest": f"{took:.0f}",
        "rotations": counts.total(),
        **{f"rotations {state}": number for state, number in sorted(counts.items())},
        "steps taken over from dead conductors": audit.counts(site)[2],
        "lock-outs": sum(site.account(number)["lockouts"] for number in range(site.nodes)),
        "nodes unsettled at rest, with faults: one of two passwords works": unsettled,
        "passwords searched for": len(all_passwords(site)),
        **{f"searched: {kind}": number for kind, number in sorted(searched.items())},
    }
    return verdict, facts


def shown(facts, storm, verdict):
    """The result of a run, as Markdown."""
    must = {f"**{text}**": len(verdict.wrong.get(name, ())) for name, text in ROWS.items()}
    disturbances = dict(sorted(storm.counts.items(), key=lambda item: -item[1]))
    parts = [table.rows(facts), "Must be 0:", table.rows(must)]
    parts += [f"Disturbances, {storm.counts.total()} in total:", table.rows(disturbances)]
    return "\n\n".join(parts) + "\n"


def give_faults(site):
    """Give a part of the BMCs lasting faults; return their number by kind."""
    random, kinds = Random(f"{site.seed}/rotation"), Counter()
    faulty = random.sample(range(site.nodes), round(site.nodes * REFUSING_PART))
    for place, number in enumerate(faulty):
        name = sorted(REFUSING)[place % len(REFUSING)]
        kinds[name] += 1
        site.set_faults(number, **REFUSING[name])
    for number in range(site.nodes):
        site.set_faults(number, lockout_seconds=LOCKOUT * site.waits)
    for number in set(range(site.nodes)) - set(faulty):
        site.set_faults(number, lockout_after=5)
    return kinds


def rotations(site):
    """Return the rotations by the state of their operations."""
    rows = site.query("SELECT state, count(*) FROM operations WHERE kind = 'clean' GROUP BY state")
    return Counter(dict(rows))


def settle(site, nodes, verdict):
    """Take all faults away; one more rotation of each node must succeed."""
    for number in range(site.nodes):
        site.set_faults(number, **{name: None for faults in REFUSING.values() for name in faults})
        site.set_faults(number, lockout_after=None, bmc_dead=None)
    time.sleep(LOCKOUT * site.waits)
    ledger, stop = Ledger(), threading.Event()
    caller = Rotator(site, 1000, nodes, {}, ledger, stop)
    (newest_id,) = site.query("SELECT coalesce(max(id), 0) FROM operations")[0]
    states, end = {}, time.monotonic() + SETTLED
    while not is_ended(states, nodes) and time.monotonic() < end:
        for node in nodes:
            if node not in states:  # a second rotation would go on while the rows are judged
                caller.visit(node)
        time.sleep(0.2)
        states = dict(
            site.query(
                "SELECT nodes.uuid, operations.state FROM operations JOIN nodes"
                " ON nodes.id = operations.node_id WHERE kind = 'clean' AND operations.id > %s",
                newest_id,
            )
        )
    for node in nodes:
        if states.get(node) != "succeeded":
            verdict.blame(
                "unsettled", f"node {node}: a rotation without faults: {states.get(node)}"
            )


def is_ended(states, nodes):
    """Whether the operations of all nodes have ended."""
    return all(states.get(node) in judge.ENDED for node in nodes)


def judge_known(verdict, site, *, is_settled=False):
    """
    Compare the passwords of all rows with those of the BMCs; return the number of unsettled nodes.

    is_settled: that of driver_info must be right, and a login with it succeed; else one of both
    candidates must be right, and no login is tried, as users may be locked out.
    """
    rows, unsettled = site.rows(), 0
    for machine in site.machines:
        info, internal = rows[machine["uuid"]]
        passwords = [info["redfish_password"]]
        candidates = internal.get(KEY)
        if candidates and candidates["unsettled"]:
            unsettled += 1
            if not is_settled:
                passwords.append(candidates["new"])
        if site.account(machine["number"])["password"] not in passwords:
            verdict.blame("unknown", f"machine {machine['number']}: it has a password of no row")
        elif is_settled and not accepts(machine, passwords[0]):
            verdict.blame("unknown", f"machine {machine['number']}: it refuses the login")
    return unsettled


def accepts(machine, password):
    """Whether a BMC accepts a login."""
    url = f"{machine['redfish_address']}/redfish/v1/SessionService/Sessions"
    login = {"UserName": "admin", "Password": password}
    return requests.post(url, json=login, timeout=60).status_code == 201


def all_passwords(site):
    """Return all passwords that BMCs had or were sent, but those of strangers."""
    password_lists = (site.account(number)["seen_passwords"] for number in range(site.nodes))
    return {password for passwords in password_lists for password in passwords} - {"wrong", "admin"}


def judge_leaks(verdict, site, watch):
    """Search for all passwords; return the number of searched places by kind."""
    with Search(site, all_passwords(site)) as search:
        search.add_processes(watch)
        search.add_answers()
        search.add_dumps()
        for place in search.results():
            verdict.blame("leaks", place)
    for role, limit in watch.core_sizes.items():
        if limit != "0":
            verdict.blame("core", f"{role}: {limit}")
    return search.counts
