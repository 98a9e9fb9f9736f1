"""The crawl of a BMC: its order, its limits, and what it leaves out."""

import json

from drivers.core.recording.bundle import Answer
from drivers.core.recording.crawl import BATCH, Limits, crawl

ORIGIN = "https://bmc"


def document(*paths):
    return json.dumps({"Members": [{"@odata.id": path} for path in paths]})


class Bmc:
    """Answers requests from a table of path -> body, or (status, Location)."""

    def __init__(self, table, batch_size=BATCH):
        self.table, self.batch_size, self.request_log = table, batch_size, []

    def ask(self, paths):
        assert len(paths) <= BATCH
        answers = []
        for path in paths[: self.batch_size]:
            self.request_log.append(path)
            entry = self.table.get(path, (404, None))
            if isinstance(entry, str):
                answers.append(Answer(path, 200, body=entry))
            else:
                status, place = entry
                answers.append(Answer(path, status, {"Location": place} if place else {}))
        return answers

    def crawl(self, system=None, limits=None):
        *_, recording = crawl(self.ask, ORIGIN, system, limits or Limits())
        return recording


V1 = "/redfish/v1"


def test_documents_are_read_breadth_first_and_once():
    bmc = Bmc({
        f"{V1}/": document(f"{V1}/Systems", f"{V1}/Managers", f"{V1}/Systems/"),
        f"{V1}/Systems": document(f"{V1}/Systems/1", f"{V1}"),
        f"{V1}/Managers": document(f"{V1}/Managers/1"),
        f"{V1}/Systems/1": document(f"{V1}/Managers/1", f"{V1}/Systems/1#/Boot"),
    }, batch_size=1)  # fmt: skip
    recording = bmc.crawl()
    paths = [
        "/redfish",
        f"{V1}/",
        *(f"{V1}/{name}" for name in ("Systems", "Managers", "Systems/1", "Managers/1")),
    ]
    assert paths == bmc.request_log == [answer.path for answer in recording.answers]
    assert [] == recording.unread
    assert 404 == recording.answers[-1].status


def test_pages_and_redirects_are_followed_to_their_end():
    bmc = Bmc({
        f"{V1}/": document(f"{V1}/Systems"),
        f"{V1}/Systems": (308, f"{V1}/Systems/"),
        f"{V1}/Systems/": json.dumps({"Members": [], "Members@odata.nextLink": f"{V1}/Systems?$skip=1"}),
        f"{V1}/Systems?$skip=1": (302, f"{V1}/Systems?$skip=1"),
    })  # fmt: skip
    bmc.crawl()
    assert [f"{V1}/Systems", f"{V1}/Systems/", f"{V1}/Systems?$skip=1"] == bmc.request_log[2:]


def test_documents_of_the_owner_are_left_out():
    left_out = [
        f"{V1}/Managers/1/LogServices/Sel/Entries", f"{V1}/AccountService/Accounts/1",
        f"{V1}/SessionService/Sessions/7", f"{V1}/CertificateService/Certificates/1",
        f"{V1}/JsonSchemas/Chassis", f"{V1}/EventService/Subscriptions/1", f"{V1}/$metadata",
    ]  # fmt: skip
    bmc = Bmc({f"{V1}/": document(*left_out, f"{V1}/AccountService/Accounts")})
    bmc.crawl()
    assert [f"{V1}/AccountService/Accounts"] == bmc.request_log[2:]


def test_the_number_of_documents_is_limited_and_the_others_are_listed():
    bmc = Bmc({f"{V1}/": document(*(f"{V1}/Chassis/{i}" for i in range(100)))})
    recording = bmc.crawl(limits=Limits(documents=10))
    assert (10, 92) == (len(recording.answers), len(recording.unread))


def test_size_and_time_are_limited():
    endless = {f"{V1}/": document(*(f"{V1}/Chassis/{i}" for i in range(500)))}
    endless |= {f"{V1}/Chassis/{i}": "x" * 1000 for i in range(500)}
    recording = Bmc(endless).crawl(limits=Limits(size=40_000))
    assert 20 < len(recording.answers) < 80
    assert recording.unread
    assert not list(crawl(Bmc(endless).ask, ORIGIN, None, Limits(seconds=0)))


def test_a_path_without_an_answer_is_listed_and_not_asked_for_again():
    bmc = Bmc({f"{V1}/": document(f"{V1}/Bad", f"{V1}/Good"), f"{V1}/Bad": (0, None)})
    recording = bmc.crawl()
    assert [f"{V1}/Bad"] == recording.unread
    assert 1 == bmc.request_log.count(f"{V1}/Bad")
    assert f"{V1}/Bad" not in {answer.path for answer in recording.answers}


def test_the_system_of_the_node_is_read_early():
    bmc = Bmc({f"{V1}/": document(f"{V1}/Chassis")})
    assert f"{V1}/Systems/2" == bmc.crawl(system=f"{V1}/Systems/2").system
    assert f"{V1}/Systems/2" == bmc.request_log[2]
