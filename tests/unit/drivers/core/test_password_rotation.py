"""Rotation of a BMC's password: at each moment the record has one that the BMC accepts."""

import string
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.core.errors import (
    AccountLocked,
    Busy,
    InvalidDriverInfo,
    LoginRefused,
    NotSupported,
    PasswordUnsettled,
    Refused,
    Unconfirmed,
    Unexpected,
    Unreachable,
)
from drivers.core.password_rotation import KEY, LONGEST, Candidates, require_settled, rotate
from drivers.core.passwords import Policy, policy_of
from drivers.core.steps import Done, Failed, Wait
from tests.unit.drivers.machines import target

FIELD = "redfish_password"
INFO = {"redfish_address": "https://bmc.example", "redfish_username": "admin", FIELD: "old-secret"}


class Died(BaseException):
    """The conductor died."""


class Bmc:
    """
    A BMC with one password, which keeps sessions of the old one; see `password_rotation.Account`.

    faults: one for each request, in their order; "": none. deaths: numbers of the requests after
    which the conductor dies.
    """

    field, bmc, policy = FIELD, "BMC bmc.example", Policy()

    def __init__(self, faults=(), deaths=()):
        self.password, self.faults, self.deaths = "old-secret", list(faults), set(deaths)
        self.requests = self.logins = self.writes = 0
        self.late = None  # a password that is applied at the next request

    def prepare(self):
        return self.policy

    def write(self, password):
        self.writes += 1
        with_fault = self._begin()
        if with_fault in ("cut", "busy"):
            raise {"cut": Unreachable, "busy": Busy}[with_fault]("no")
        if with_fault == "refused":
            raise Refused(f"the password {password} is too short")
        if with_fault == "late":
            self.late = password
        elif with_fault not in ("unapplied", "lost before"):
            self.password = password
        self._end()
        if with_fault in ("lost", "lost before"):
            raise Unconfirmed("answer lost")
        if with_fault == "malformed":
            raise Unexpected("malformed")

    def log_in(self, password):
        self.logins += 1
        fault = self._begin()
        self._end()
        if fault == "locked":
            raise AccountLocked("locked out")
        if fault in ("cut", "busy", "lost"):
            raise {"cut": Unreachable, "busy": Busy, "lost": Unexpected}[fault]("no")
        if password != self.password:
            raise LoginRefused("wrong")

    def _begin(self):
        if self.late is not None:
            self.password, self.late = self.late, None
        self.requests += 1
        return self.faults.pop(0) if self.faults else ""

    def _end(self):
        if self.requests in self.deaths:
            raise Died


class LockingBmc(Bmc):
    """
    A BMC that locks its user out after so many wrong logins in a row, until `pass_time`.

    hidden: it answers the logins of a locked user as those with a wrong password.
    """

    def __init__(self, faults=(), *, lockout_after, hidden=False):
        super().__init__(faults)
        self.lockout_after, self.hidden = lockout_after, hidden
        self.wrong = self.lockouts = 0
        self.locked = False

    def pass_time(self):
        self.locked, self.wrong = False, 0

    def log_in(self, password):
        if self.locked:
            raise LoginRefused("wrong") if self.hidden else AccountLocked("locked out")
        try:
            super().log_in(password)
        except LoginRefused:
            self.wrong += 1
            if self.wrong >= self.lockout_after:
                self.locked, self.lockouts = True, self.lockouts + 1
            raise
        self.wrong = 0


class Node:
    """The record of a node, and the worker that writes outcomes of the step to it."""

    def __init__(self, **info):
        self.info, self.internal = {**INFO, **info}, {}
        self.other_nodes = []
        self.waited = 0.0  # seconds

    def target(self, progress=(), **fields):
        return replace(
            target("redfish", driver_info=self.info),
            driver_internal_info=self.internal,
            progress=dict(progress),
            nodes_with=lambda _text: self.other_nodes,
            **fields,
        )

    def run(self, bmc, *, unrecorded=()):
        """
        Run the step until it ends; return its outcome.

        unrecorded: numbers of the attempts whose conductor dies before it records the outcome.
        """
        progress, crashes = {}, 0
        for attempt in range(200):
            it = self.target(progress, crashes=crashes)
            try:
                outcome = rotate(it, bmc)
            except Died:
                crashes += 1
                continue
            if attempt in unrecorded:
                crashes += 1
                continue
            merged = {**self.internal, **it.reports.get("driver_internal_info", {})}
            self.internal = {key: value for key, value in merged.items() if value is not None}
            self.info = {**self.info, **it.reports.get("login_passwords", {})}
            if not isinstance(outcome, Wait):
                return outcome
            progress = outcome.progress
            assert outcome.timeout
            self.waited += outcome.poll_after
            if outcome.poll_after >= 60:
                getattr(bmc, "pass_time", list)()
        raise AssertionError("never ends")

    def passwords(self):
        """Return all passwords in the record."""
        stored = self.internal.get(KEY, {})
        return {self.info[FIELD], *(stored[name] for name in ("old", "new") if stored)}


def test_a_new_password_is_verified_and_replaces_the_old_one():
    node, bmc = Node(), Bmc()
    assert Done({"rotated": [FIELD]}) == node.run(bmc)
    assert bmc.password == node.info[FIELD] != "old-secret"
    assert {} == node.internal
    assert (1, 1) == (bmc.writes, bmc.logins)


def test_both_passwords_are_recorded_before_the_order():
    node, bmc = Node(), Bmc()
    it = node.target()
    assert isinstance(rotate(it, bmc), Wait)
    stored = it.reports["driver_internal_info"][KEY]
    assert ("old-secret", True, 0) == (stored["old"], stored["unsettled"], bmc.writes)


@pytest.mark.parametrize(
    ("faults", "code", "words"),
    [
        (["refused"], "refused", "too short"),
        (["unapplied"], "unexpected_answer", "does not apply"),
        (["lost before", "", "", "", "", "", "", "", ""] * 3, "unconfirmed", "answer lost"),
        (["busy", ""] * 3, "busy", "old password was verified"),
    ],
)
def test_a_bmc_that_keeps_the_old_password_leaves_it_in_use(faults, code, words):
    node, bmc = Node(), Bmc(faults)
    failed = node.run(bmc)
    assert isinstance(failed, Failed)
    assert code == failed.code
    assert words in failed.reason
    assert "old-secret" == node.info[FIELD] == bmc.password
    require_settled(node.target(), FIELD)
    assert node.internal[KEY]["new"] not in failed.reason


def test_an_order_that_takes_effect_after_the_failure_is_found_by_the_next_rotation():
    node, bmc = Node(), Bmc(["unapplied"])
    assert isinstance(node.run(bmc), Failed)
    bmc.password = node.internal[KEY]["new"]
    assert isinstance(node.run(bmc), Done)
    assert bmc.password == node.info[FIELD]


def test_no_command_is_sent_while_the_valid_password_is_unknown():
    node, bmc = Node(), Bmc(["", *["cut"] * 10])
    it = node.target()
    progress = rotate(it, bmc).progress
    node.internal = it.reports["driver_internal_info"]
    assert isinstance(rotate(node.target(progress), bmc), Wait)
    with pytest.raises(PasswordUnsettled, match="rotate_bmc_password"):
        require_settled(node.target(), FIELD)
    node.info[FIELD] = "set by an operator"
    require_settled(node.target(), FIELD)


def test_neither_password_is_tried_three_times_and_no_more():
    node, bmc = Node(), Bmc()
    bmc.write = lambda _password: setattr(bmc, "password", "another")
    failed = node.run(bmc)
    assert "password_unsettled" == failed.code
    assert 6 == bmc.logins
    with pytest.raises(PasswordUnsettled):
        require_settled(node.target(), FIELD)
    bmc.password = node.internal[KEY]["new"]  # a lock-out has ended
    del bmc.write
    assert isinstance(node.run(bmc), Done)


def test_a_lock_out_is_waited_for_with_growing_pauses():
    node, bmc = Node(), Bmc(["", "locked", "locked"])
    progress, pauses = {}, []
    while True:
        it = node.target(progress)
        outcome = rotate(it, bmc)
        node.internal |= it.reports.get("driver_internal_info", {})
        if isinstance(outcome, Done):
            break
        pauses.append(outcome.poll_after)
        progress = outcome.progress
    assert [0, 300.0, 600.0] == pauses
    assert 3 == bmc.logins  # one for each look: a lock-out is not fed


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("lockout_after", [1, 2])
@pytest.mark.parametrize("fault", ["", "lost", "lost before", "late", "unapplied"])
def test_the_step_does_not_lock_the_user_out_again_and_again(fault, lockout_after, hidden):
    node, bmc = Node(), LockingBmc([fault], lockout_after=lockout_after, hidden=hidden)
    outcome = node.run(bmc)
    assert isinstance(outcome, Failed if fault == "unapplied" else Done)
    assert bmc.password == node.info[FIELD]
    assert bmc.lockouts <= 1
    assert node.waited < LONGEST


def test_a_refused_password_is_not_sent_again_while_the_other_one_has_no_verdict():
    node, bmc, sent_passwords = Node(), Bmc(["lost before", "", "cut", "busy", "lost"]), []
    log_in = bmc.log_in
    bmc.log_in = lambda password: (sent_passwords.append(password), log_in(password))
    assert isinstance(node.run(bmc), Done)
    assert ["old-secret"] * 4 == sent_passwords[1:5]
    assert bmc.password == node.info[FIELD] == sent_passwords[0] == sent_passwords[-1]


def test_a_password_that_a_caller_sets_meanwhile_stays():
    node, bmc = Node(), Bmc()
    it = node.target()
    progress = rotate(it, bmc).progress
    node.internal, node.info[FIELD] = it.reports["driver_internal_info"], "other"
    failed = rotate(node.target(progress), bmc)
    assert "was set by a caller" in failed.reason
    assert 0 == bmc.writes


def test_the_same_login_over_ipmi_gets_the_password_too():
    twin = {"ipmi_address": "BMC.example", "ipmi_username": "admin", "ipmi_password": "old-secret"}
    node, bmc = Node(**twin), Bmc()
    bmc.policy = Policy(20)
    node.run(bmc)
    assert bmc.password == node.info[FIELD] == node.info["ipmi_password"]
    assert 16 == len(bmc.password)
    node = Node(**twin | {"ipmi_username": "other"})
    node.run(Bmc())
    assert "old-secret" == node.info["ipmi_password"]


def test_candidates_that_cannot_be_decrypted_are_an_error():
    node = Node()
    node.internal = {KEY: "sealed:v2:x"}
    with pytest.raises(InvalidDriverInfo, match="decrypted"):
        Candidates.of(node.target(), FIELD)


FAULTS = st.sampled_from(
    ["", "", "", "cut", "busy", "refused", "lost", "lost before", "late", "unapplied", "malformed",
     "locked"]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(
    faults=st.lists(FAULTS, max_size=12),
    deaths=st.sets(st.integers(1, 12), max_size=4),
    unrecorded=st.sets(st.integers(0, 12), max_size=4),
)
def test_the_record_always_has_the_valid_password(faults, deaths, unrecorded):
    node, bmc = Node(), Bmc(faults, deaths)
    sent_passwords = []
    write = bmc.write
    bmc.write = lambda password: (sent_passwords.append(password), write(password))
    outcome = node.run(bmc, unrecorded=unrecorded)
    assert bmc.password in node.passwords()
    assert bmc.late in {None, *node.passwords()}
    if isinstance(outcome, Done):
        assert bmc.password == node.info[FIELD]
        assert {} == node.internal
    elif not node.internal[KEY]["unsettled"] and bmc.late is None:
        assert bmc.password == node.info[FIELD]
    words = f"{outcome} {outcome.__dict__ if hasattr(outcome, '__dict__') else ''}"
    assert not [password for password in sent_passwords if password in words]
    # after any faults: without further ones, one more rotation ends well
    bmc.faults, bmc.deaths = [], set()
    assert isinstance(node.run(bmc), Done)
    assert bmc.password == node.info[FIELD]


def test_passwords_are_long_and_of_all_kinds_and_differ():
    passwords = {policy_of(vendor).password() for vendor in ("Dell Inc.", "Lenovo", None) * 20}
    assert 60 == len(passwords)
    for password in passwords:
        assert 16 == len(password)
        assert password[0] in string.ascii_letters
        for kind in (string.ascii_lowercase, string.ascii_uppercase, string.digits, "-_."):
            assert set(password) & set(kind)


def test_limits_of_a_bmc_bound_the_length():
    assert 20 == Policy(16).within(20, None).length
    assert 14 == Policy(16).within(8, 14).length
    assert 16 == Policy(16).within("x", None).length
    for bounds in ((1, 8), (30, 20)):
        with pytest.raises(NotSupported):
            Policy(16).within(*bounds)
