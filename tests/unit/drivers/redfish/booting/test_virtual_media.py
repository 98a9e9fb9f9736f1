"""Virtual media: which drive gets the image, and when an insertion or ejection is believed."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.core.errors import (
    HardwareError,
    LeaseLost,
    NotSupported,
    Refused,
    Unconfirmed,
    Unexpected,
)
from drivers.core.steps import Done
from drivers.redfish.booting import boot_device, virtual_drives, virtual_media
from drivers.redfish.booting.virtual_drives import Report
from drivers.redfish.transport.client import Connection, Reply
from tests.unit.drivers.machines import with_option
from tests.unit.drivers.redfish.boot_bmc import MEDIA, BootBmc, Drive, run

ISO, OLD = "http://192.0.2.1/agent.iso", "http://192.0.2.1/old.iso"
BRIEF = with_option("redfish", vmedia_insert_timeout=20.0, vmedia_insert_poll_interval=2.0)


@pytest.fixture
def bmc(monkeypatch):
    monkeypatch.setattr(boot_device, "LOOK_INTERVAL", 0.0)
    return BootBmc().install(monkeypatch)


@pytest.fixture
def node(bmc):
    return bmc.node(options=BRIEF)


def attach(node, url=ISO, device_type="cdrom"):
    return run(node, "management", "attach_virtual_media", device_type=device_type, image_url=url)


def media(bmc):
    return {name: drive.medium for name, drive in bmc.drives.items() if drive.medium}


@pytest.mark.vendor("Cisco", "virtual media")
@pytest.mark.vendor("OpenBMC", "virtual media")
@pytest.mark.parametrize(
    "drive",
    [
        Drive(has_actions=False),
        Drive(insertion=400),
        Drive(insertion=405),
        Drive(insertion=409),
        Drive(insertion=501),
        Drive(insertion="ignored"),
        Drive(types=["USBStick"]),
        Drive(types=None, insertion=400),
    ],
    ids=repr,
)
def test_a_drive_that_does_not_take_the_image_is_left_for_the_next(bmc, node, drive):
    bmc.drives = {"Slot_0": drive, "Slot_2": Drive()}
    assert Done() == attach(node)[0]
    assert {"Slot_2": ISO} == media(bmc)


@pytest.mark.vendor("Lenovo", "virtual media")
def test_a_drive_without_the_action_takes_the_image_by_patch(bmc, node):
    bmc.drives = {"Cd": Drive(has_actions=False, can_patch=True)}
    outcome, node = attach(node)
    assert (Done(), {"Cd": ISO}) == (outcome, media(bmc))
    assert {"Image": ISO, "Inserted": True, "WriteProtected": True} == bmc.orders[-1][2]
    run(node, "management", "detach_virtual_media", device_types=["cdrom"])
    assert {} == media(bmc)


@pytest.mark.vendor("Dell", "virtual media")
@pytest.mark.vendor("Supermicro", "virtual media")
@pytest.mark.parametrize("reports", [{"stale": 2}, {"stale": 50}, {"stale": 0}])
def test_a_medium_that_is_still_reported_after_its_ejection_is_inserted_again(bmc, node, reports):
    """A BMC reports an ejected medium for a while: https://bugs.launchpad.net/ironic 2115475."""
    bmc.drives = {"Cd": Drive(medium=ISO, **reports)}
    assert Done() == attach(node)[0]
    assert ["EjectMedia", "InsertMedia"] == bmc.named("EjectMedia", "InsertMedia")
    assert {"Cd": ISO} == media(bmc)


def test_a_drive_is_emptied_before_an_insertion_although_it_reports_to_be_empty(bmc, node):
    assert Done() == attach(node)[0]
    assert ["EjectMedia", "InsertMedia"] == bmc.named("EjectMedia", "InsertMedia")


@pytest.mark.parametrize(
    ("insertion", "orders"),
    [([500, "works"], 2), ([502, "works"], 2), (["works, 500"], 1), ([500, 500, "works"], 3)],
)
def test_an_insertion_that_failed_is_ordered_again_only_without_effect(
    bmc, node, insertion, orders
):
    bmc.drives = {"Cd": Drive(insertion=list(insertion))}
    assert Done() == attach(node)[0]
    assert (orders, {"Cd": ISO}) == (len(bmc.named("InsertMedia")), media(bmc))


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_lost_answer_is_settled_by_reading(bmc, node, monkeypatch, is_carried_out):
    answers = [Unconfirmed("the answer was lost")]

    def order(connection, drive, url, send=virtual_drives.order_insertion):
        answer = send(connection, drive, url) if not answers or is_carried_out else None
        if answers:
            raise answers.pop()
        return answer

    monkeypatch.setattr(virtual_drives, "order_insertion", order)
    assert Done() == attach(node)[0]
    assert (1, {"Cd": ISO}) == (len(bmc.named("InsertMedia")), media(bmc))


@pytest.mark.parametrize(
    ("task", "words"),
    [(("Exception", "Critical"), "no such image"), (("Cancelled", "OK"), "Cancelled")],
)
def test_an_insertion_whose_task_fails_fails_with_its_words(bmc, node, task, words):
    bmc.task, bmc.drives = task, {"Cd": Drive(insertion="task")}
    with pytest.raises(Unexpected, match=f"Cd: .*{words}"):
        attach(node)


def test_an_insertion_with_a_task_is_followed_to_its_end(bmc, node):
    bmc.drives = {"Cd": Drive(insertion="task", slow=3)}
    assert Done() == attach(node)[0]


def test_an_accepted_insertion_without_effect_fails_and_names_the_drives(bmc, node):
    bmc.drives = {"A": Drive(insertion="ignored"), "B": Drive(insertion=400)}
    with pytest.raises(
        Unexpected, match=r"A: it accepted, and reports no medium; B: .*not for this"
    ):
        attach(node)
    assert [] == [name for name, drive in bmc.drives.items() if drive.medium]


def test_a_drive_that_needs_long_is_tried_once_more_if_no_other_works(bmc, node):
    bmc.drives = {"A": Drive(slow=7), "B": Drive(insertion=400)}
    assert Done() == attach(node)[0]
    assert {"A": ISO} == media(bmc)


def test_another_image_than_the_ordered_one_is_not_believed(bmc, node):
    bmc.drives = {"Cd": Drive(medium=OLD, stuck=True, insertion="ignored")}
    with pytest.raises(Unexpected, match="reports the medium"):
        attach(node)


@pytest.mark.vendor("Supermicro", "virtual media")
@pytest.mark.parametrize(
    "demands",
    [("TransferProtocolType",), ("TransferMethod",), ("UserName", "Password"), ("Inserted",),
     ("TransferMethod", "TransferProtocolType", "UserName")],
)  # fmt: skip
def test_properties_are_sent_only_on_demand(bmc, node, demands):
    bmc.drives = {"Cd": Drive(demands=demands)}
    assert Done() == attach(node)[0]
    bodies = [body for _, name, body in bmc.orders if name.endswith("InsertMedia")]
    assert {"Image": ISO} == bodies[0]
    assert set(demands) <= set(bodies[-1])


def test_a_drive_without_media_types_is_listed_and_used_last(bmc, node):
    bmc.drives = {"A": Drive(types=None), "B": Drive()}
    assert [[], ["CD", "DVD"]] == [
        medium["media_types"] for medium in node.driver.management.virtual_media(node)
    ]
    assert {"B": ISO} == (attach(node) and media(bmc))
    bmc.drives = {"A": Drive(types=None)}
    assert {"A": ISO} == (attach(node) and media(bmc))


def test_a_bmc_without_a_drive_of_the_kind_says_so(bmc, node):
    with pytest.raises(NotSupported, match="no virtual floppy drive"):
        attach(node, device_type="floppy")


def test_an_ejection_is_awaited(bmc, node):
    bmc.drives = {"Cd": Drive(stale=4)}
    _, node = attach(node)
    outcome, node = run(node, "management", "detach_virtual_media", device_types=["cdrom"])
    assert (Done(), {}, 0) == (outcome, media(bmc), bmc.drives["Cd"].delay)
    assert None is node.driver_internal_info[virtual_media.USED]


@pytest.mark.parametrize(
    "answer", [(200, b"{}", {}), (304, b"", {}), (404, b"", {}), (200, b'{"Members": 5}', {})]
)
def test_drives_that_are_not_listed_are_not_taken_for_empty_ones(bmc, node, monkeypatch, answer):
    _, node = attach(node)
    polite_answer = bmc.answer

    def answer_rudely(method, path, headers, body=b""):
        is_list = method == "GET" and path.rstrip("/") == MEDIA
        return answer if is_list else polite_answer(method, path, headers, body)

    monkeypatch.setattr(bmc, "answer", answer_rudely)
    for order in (
        lambda: run(node, "management", "detach_virtual_media", device_types=["cdrom"]),
        lambda: attach(node),
    ):
        with pytest.raises(Unexpected, match="does not list its virtual media"):
            order()
    assert {"Cd": ISO} == media(bmc)


@pytest.fixture
def malformed_drive(bmc, monkeypatch):
    """The drive Cd, whose document sushy cannot read; it still tells its medium."""
    answer = bmc.answer

    def answer_malformed(method, path, headers, body=b""):
        status, content, answer_headers = answer(method, path, headers, body)
        if method == "GET" and path == f"{MEDIA}/Cd":
            content = json.dumps({**json.loads(content), "Actions": True}).encode()
        return status, content, answer_headers

    def install():
        monkeypatch.setattr(bmc, "answer", answer_malformed)

    return install


def test_a_medium_in_a_drive_with_a_malformed_document_is_not_taken_for_ejected(
    bmc, node, malformed_drive
):
    bmc.drives = {"Cd": Drive(), "Floppy": Drive(types=["Floppy"])}
    node.driver.boot.run(node, "prepare_ramdisk", {})
    malformed_drive()
    for interface, method, arguments in (
        ("management", "detach_virtual_media", {"device_types": ["cdrom"]}),
        ("boot", "prepare_instance", {}),
    ):
        with pytest.raises(Refused, match=r"in Cd \(not ordered: its document is malformed\)"):
            run(replace(node, reports={}), interface, method, **arguments)
    outcome, _ = run(replace(node, reports={}), "boot", "clean_up_ramdisk")
    assert "its document is malformed" in outcome.result["warning"]
    outcome, _ = run(node, "management", "detach_virtual_media", device_types=["floppy"])
    assert Done() == outcome


def test_a_drive_with_a_malformed_document_and_no_medium_is_left_out(bmc, node, malformed_drive):
    bmc.drives = {"Cd": Drive(), "Dvd": Drive()}
    malformed_drive()
    assert Done() == attach(node)[0]
    assert {"Dvd": ISO} == media(bmc)
    outcome, _ = run(node, "management", "detach_virtual_media", device_types=["cdrom"])
    assert (Done(), {}) == (outcome, media(bmc))


@pytest.mark.parametrize("losses", [1, 3])
@pytest.mark.parametrize("answer", [Unconfirmed("lost"), 204, 400, 409, 500, 503])
def test_an_ejection_without_effect_is_ordered_again_until_the_drive_is_empty(
    bmc, node, monkeypatch, answer, losses
):
    _, node = attach(node)
    orders = []

    def order(connection, method, path, *body, send=Connection.order):
        orders.append(path)
        if len(orders) > losses:
            return send(connection, method, path, *body)
        if isinstance(answer, Unconfirmed):
            raise answer
        return Reply(answer, None)

    monkeypatch.setattr(Connection, "order", order)
    outcome, _ = run(node, "management", "detach_virtual_media", device_types=["cdrom"])
    assert (Done(), {}, losses + 1) == (outcome, media(bmc), len(orders))


def test_an_ejection_is_not_ordered_when_the_lease_is_lost(bmc, node):
    _, node = attach(node)

    def lost():
        raise LeaseLost("another conductor has it")

    node = replace(node, before_order=lost)
    with pytest.raises(LeaseLost):
        run(node, "management", "detach_virtual_media", device_types=["cdrom"])
    assert {"Cd": ISO} == media(bmc)


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("status", [409, 503])
def test_an_insertion_that_is_refused_for_now_is_ordered_again(bmc, node, status, count):
    bmc.drives = {"Cd": Drive(insertion=[status] * count + ["works"])}
    assert Done() == attach(node)[0]
    assert (count + 1, {"Cd": ISO}) == (len(bmc.named("InsertMedia")), media(bmc))


def test_a_refusal_in_an_answer_with_status_200_is_a_refusal(bmc, node, monkeypatch):
    """Some BMCs answer an error with status 200."""
    bmc.drives = {"A": Drive(), "B": Drive()}

    def order(connection, method, path, *body, send=Connection.order):
        if "/A/" in path and path.endswith("InsertMedia"):
            return Reply(200, {"error": {"code": "Base.1.0.GeneralError", "message": "no"}})
        return send(connection, method, path, *body)

    monkeypatch.setattr(Connection, "order", order)
    assert Done() == attach(node)[0]
    assert {"B": ISO} == media(bmc)


def test_a_drive_that_was_used_is_emptied_although_it_reports_to_be_empty(bmc, node):
    _, node = attach(node)
    bmc.drives["Cd"].report = lambda: {"Inserted": False, "Image": None}
    run(node, "management", "detach_virtual_media", device_types=["cdrom"])
    assert {} == media(bmc)


def test_the_agents_medium_that_stays_fails_the_instance_and_only_warns_elsewhere(bmc, node):
    node.driver.boot.run(node, "prepare_ramdisk", {})
    bmc.drives["Cd"].stuck = True
    with pytest.raises(Refused, match="still presents a virtual medium in Cd"):
        run(replace(node, reports={}), "boot", "prepare_instance")
    outcome, _ = run(replace(node, reports={}), "boot", "clean_up_ramdisk")
    assert "still presents" in outcome.result["warning"]


def test_the_boot_of_a_flow_uses_the_drive_that_takes_the_image(bmc, node):
    bmc.drives = {"Slot_0": Drive(insertion=400), "Slot_2": Drive()}
    outcome, _ = run(node, "boot", "prepare_ramdisk")
    assert (Done(), {"Slot_2": "http://images/agent.iso"}) == (outcome, media(bmc))
    assert "Cd" == bmc.machine.boot_target


URLS = st.sampled_from(
    ["", ISO, OLD, "agent.iso", "iso", "http://192.0.2.1/agent.iso?a=1", "http://[", "/agent.iso"]
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "Inserted": st.one_of(st.booleans(), st.none(), st.integers(0, 1), st.just("true")),
        "Image": st.one_of(URLS, st.none(), st.integers()),
        "ConnectedVia": st.one_of(st.sampled_from(["URI", "NotConnected", "Oem"]), st.none()),
    },
)


@given(before=DOCUMENTS, after=DOCUMENTS, looks=st.integers(1, 10))
def test_no_report_confirms_an_image_that_it_does_not_present(before, after, looks):
    first_report, last_report = Report.of(before), Report.of(after)
    if last_report.confirms(ISO, first_report, looks):
        assert last_report.inserted is not False
        assert last_report.inserted or last_report.image
        assert not last_report.confirms(OLD, first_report, looks) or last_report.image in (
            None,
            "iso",
        )
        assert first_report != last_report or looks >= virtual_drives.STALE_LOOKS


INSERTIONS = st.sampled_from(["works", "ignored", "works, 500", "task", 200, 204, 400, 409, 500])


@given(
    drives=st.lists(
        st.builds(
            Drive,
            insertion=INSERTIONS,
            has_actions=st.booleans(),
            can_patch=st.booleans(),
            stale=st.integers(0, 6),
            stuck=st.booleans(),
            slow=st.integers(0, 6),
            shows_image=st.booleans(),
            medium=st.sampled_from([None, OLD]),
            types=st.sampled_from([["CD"], ["DVD"], None, ["USBStick"], []]),
        ),
        max_size=3,
    ),
    task=st.sampled_from([("Completed", "OK"), ("Exception", "Critical"), ("Killed", "OK")]),
)
def test_an_insertion_succeeds_only_with_the_image_in_a_drive(drives, task):
    with pytest.MonkeyPatch.context() as patch:
        bmc = BootBmc(drives=dict(enumerate_names(drives)), task=task).install(patch)
        try:
            outcome, _ = attach(bmc.node(options=BRIEF))
        except HardwareError:
            return
        assert Done() == outcome
        assert ISO in media(bmc).values()


def enumerate_names(drives):
    return ((f"Slot_{number}", replace(drive)) for number, drive in enumerate(drives))
