"""Rotations of BMC passwords, while a conductor dies: all are known to the service, and to it alone."""

import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tests.chaos import judge, rotation
from tests.chaos.leaks import Search, Watch, forms
from tests.support.fleet import until
from tests.support.postgresql import NoServer, find
from tests.support.prerequisites import not_run


@pytest.fixture
def programs():
    try:
        find()
    except NoServer as error:
        not_run(str(error))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_passwords_are_known_and_nowhere_to_be_read(programs, tmp_path):
    """`make rotation-storm`, with one death."""
    sizes = {"conductors": 2, "apis": 1, "beats": 1, "waits": 0.003}
    with rotation.RotationSite(tmp_path, nodes=8, seed=5, **sizes) as site:

        def harm():
            until(lambda: ordered(site) >= 3, "orders of new passwords")
            site.kill("c-1")
            site.start("c-1")
            until(lambda: rotation.rotations(site)["succeeded"] >= 3, "rotations")

        verdict, _ = rotation.run(site, harm, clients=3, rest_limit=120)
    assert {} == dict(verdict.wrong)


def ordered(site):
    """Number of rotations whose new password is recorded."""
    return site.query(
        "SELECT count(*) FROM nodes WHERE driver_internal_info::text LIKE '%password_rotation%'"
    )[0][0]


class Known:
    """A site of two BMCs, one of which has another password than its node's row."""

    machines = [{"number": number, "uuid": f"n-{number}"} for number in range(2)]

    def __init__(self, stored):
        self.stored = stored

    def rows(self):
        row = {"redfish_password": "one"}, {}
        return {"n-0": row, "n-1": ({"redfish_password": "old"}, self.stored)}

    def account(self, number):
        return {"password": ("one", "two")[number]}


@pytest.mark.parametrize(
    ("stored", "wrong", "unsettled"),
    [
        ({}, 1, 0),
        ({"password_rotation": {"old": "old", "new": "two", "unsettled": True}}, 0, 1),
        ({"password_rotation": {"old": "old", "new": "two", "unsettled": False}}, 1, 0),
        ({"password_rotation": {"old": "old", "new": "other", "unsettled": True}}, 1, 1),
    ],
)
def test_the_judge_finds_a_password_that_no_row_has(stored, wrong, unsettled):
    verdict = judge.Verdict()
    assert unsettled == rotation.judge_known(verdict, Known(stored))
    assert wrong == len(verdict.wrong["unknown"])


SECRET = "kX9_aw.Rq2-mVbT7"


@contextmanager
def searched(tmp_path):
    folders = [tmp_path / name for name in ("site", "database")]
    for folder in folders:
        folder.mkdir()
    site = SimpleNamespace(folder=folders[0], postgres_folder=str(folders[1]), machines=[])
    with Search(site, [SECRET, "never seen"]) as search:
        yield site, search


@pytest.mark.parametrize("place", ["site/logs/c-1", "site/data/agent.log", "database/base/1/2"])
@pytest.mark.parametrize("form", sorted(forms("admin", SECRET)))
def test_a_password_in_a_file_is_found_in_each_form(tmp_path, place, form):
    with searched(tmp_path) as (_, search):
        path = tmp_path / place
        path.parent.mkdir(parents=True)
        path.write_bytes(b"\0\xff" + f"<{form}>".encode())
        (path.parent / "harmless").write_text(SECRET[:-1])
        assert [str(path)] == search.results()


def test_a_password_in_an_answer_is_found(tmp_path):
    with searched(tmp_path) as (_, search):
        search.add("answers of the API", "/v1/nodes", b"harmless")
        search.add("answers of the API", "/v1/ports", f'{{"a": "{SECRET}"}}'.encode())
        assert ["answers of the API: /v1/ports"] == search.results()


def test_arguments_and_environments_of_descendants_are_watched(tmp_path):
    program = "import sys; print(flush=True); sys.stdin.read()"
    child = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}, '{SECRET}'])"
    )
    with (
        searched(tmp_path) as (site, search),
        subprocess.Popen(
            [sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={"SECRET": SECRET},
        ) as process,
    ):  # fmt: skip
        process.stdout.readline()
        site.pids, site.roles = {"c-1": process.pid, "redis": 1}, ["c-1"]
        watch = Watch(site)
        watch.look()
        process.stdin.close()
        search.add_processes(watch)
        places = {place.partition(":")[0] for place in search.results()}
    assert {"/proc/PID/cmdline", "/proc/PID/environ"} == places
    assert {"c-1"} == watch.core_sizes.keys()
