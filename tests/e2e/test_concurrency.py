"""Many concurrent clients that write, over HTTP to several processes, on each database."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.support.fleet import Fleet

CLIENTS = 32
VERSION = {"X-OpenStack-Ironic-API-Version": "1.96"}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def fleet(request, tmp_path_factory):
    options = []
    if request.param == "postgresql":
        server = request.getfixturevalue("postgresql_server")
        options = ["--database", server.database()]
    folder = tmp_path_factory.mktemp("fleet")
    with Fleet(folder, *options, conductors=1) as running:
        yield running


def at_once(work):
    """Results of `work(session, number)` of each of the clients, which start together."""

    def one(number):
        with requests.Session() as session:
            session.trust_env = False
            # an address may have few long polls
            session.headers.update(VERSION | {"X-Forwarded-For": f"192.0.2.{number + 1}"})
            return work(session, number)

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(one, range(CLIENTS)))


def test_concurrent_changes_of_one_node_are_all_made(fleet):
    """Each client adds a key to the same document: none overwrites another's."""
    (node,) = fleet.create_nodes(1)
    url = f"{fleet.url}/v1/nodes/{node}"

    def change(session, number):
        patch = [{"op": "add", "path": f"/extra/key-{number}", "value": number}]
        return session.patch(url, json=patch, timeout=60).status_code

    assert [200] * CLIENTS == at_once(change)
    expected = {f"key-{number}": number for number in range(CLIENTS)}
    assert expected == fleet.get(f"nodes/{node}")["extra"]


def test_changes_with_an_outdated_tag_are_refused_until_they_are_repeated_with_the_present_one(
    fleet,
):
    """Read a counter, increment it, write it back with If-Match: no increment is lost."""
    creation = requests.post(
        f"{fleet.url}/v1/nodes", json={"driver": "fake-hardware", "extra": {"n": 0}},
        headers=VERSION, timeout=60,
    )  # fmt: skip
    url = f"{fleet.url}/v1/nodes/{creation.json()['uuid']}"

    def count_up(session, _number):
        refused = 0
        while True:
            read = session.get(url, timeout=60)
            patch = [{"op": "replace", "path": "/extra/n", "value": read.json()["extra"]["n"] + 1}]
            tag = {"If-Match": read.headers["ETag"]}
            answer = session.patch(url, json=patch, headers=tag, timeout=60)
            if answer.status_code != 412:
                return answer.status_code, refused
            refused += 1
            assert refused < 50 * CLIENTS

    answers = at_once(count_up)
    assert [200] * CLIENTS == [status for status, _ in answers]
    assert 0 < sum(refused for _, refused in answers), "no two clients conflicted"
    assert CLIENTS == requests.get(url, headers=VERSION, timeout=60).json()["extra"]["n"]


def test_concurrent_creations_with_one_name_succeed_once(fleet):
    body = {"driver": "fake-hardware", "name": "the-one"}

    def create(session, _number):
        return session.post(f"{fleet.url}/v1/nodes", json=body, timeout=60).status_code

    assert sorted([201] + [409] * (CLIENTS - 1)) == sorted(at_once(create))


def test_different_nodes_do_not_disturb_each_other(fleet):
    """Each client takes its own node through creation, changes, a verb and deletion."""

    def live(session, number):
        creation = session.post(
            f"{fleet.url}/v1/nodes",
            json={"driver": "fake-hardware", "name": f"own-{number}"},
            timeout=60,
        )
        url = f"{fleet.url}/v1/nodes/own-{number}"
        patch = [{"op": "add", "path": "/description", "value": f"of {number}"}]
        changed = session.patch(url, json=patch, timeout=60)
        verb = session.put(f"{url}/states/provision", json={"target": "manage"}, timeout=60)
        rested = session.get(f"{url}/states", params={"wait": 30}, timeout=60)
        deletion = session.delete(url, timeout=60)
        codes = [answer.status_code for answer in (creation, changed, verb, rested, deletion)]
        return codes, rested.json()["provision_state"]

    assert [([201, 200, 202, 200, 204], "manageable")] * CLIENTS == at_once(live)
