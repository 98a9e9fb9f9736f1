"""Proofs of the faults of power, virtual media and boot settings."""

from .proofs import CLOCK, EJECT, IMAGE, INSERT, MEDIA, proves
from .update_proofs import end_of


@proves({"status": 503, "seconds": 0.2, "retry_after": 2})
def power_refused_in_transition(bmc):
    assert 204 == bmc.reset("On").status_code
    answer = bmc.reset("ForceOff")
    assert (503, "2") == (answer.status_code, answer.headers.get("Retry-After"))
    assert "On" == bmc.power()
    CLOCK.pass_time(0.25)
    assert 204 == bmc.reset("ForceOff").status_code


@proves()
def power_refused_when_there(bmc):
    assert [409, 204, 409] == [bmc.reset(kind).status_code for kind in ("ForceOff", "On", "On")]


@proves({"state": "Reset", "seconds": 0.2})
def power_state_odd(bmc):
    assert "Off" == bmc.power()
    bmc.reset("On")
    assert "Reset" == bmc.power()
    CLOCK.pass_time(0.25)
    assert "On" == bmc.power()


@proves()
def power_state_unknown(bmc):
    assert bmc.power() is None


@proves({"types": ["On", "GracefulShutdown"]})
def power_reset_types(bmc):
    action = bmc.read(bmc.system)["Actions"]["#ComputerSystem.Reset"]
    assert ["On", "GracefulShutdown"] == action["ResetType@Redfish.AllowableValues"]
    assert [204, 400] == [bmc.reset(kind).status_code for kind in ("On", "ForceOff")]


@proves()
def reset_types_hidden(bmc):
    assert ["target"] == list(bmc.read(bmc.system)["Actions"]["#ComputerSystem.Reset"])


@proves()
def media_slot_without_insert(bmc):
    first_path, second_path, _ = bmc.members(MEDIA)
    slot = bmc.read(first_path)
    assert (["CD", "DVD"], {}) == (slot["MediaTypes"], slot["Actions"])
    assert 404 == bmc.post(f"{first_path}/Actions/VirtualMedia.InsertMedia", IMAGE).status_code
    assert "InsertMedia" in str(bmc.read(second_path)["Actions"])


@proves()
def media_slot_refuses(bmc):
    first_path, _, _ = bmc.members(MEDIA)
    target = bmc.read(first_path)["Actions"]["#VirtualMedia.InsertMedia"]["target"]
    assert [400, 204] == [bmc.post(path, IMAGE).status_code for path in (target, INSERT)]


@proves()
def media_insert_by_patch(bmc):
    path = f"{MEDIA}/Cd"
    assert "Actions" not in bmc.slot()
    assert 405 == bmc.post(INSERT, IMAGE).status_code
    assert 204 == bmc.patch({**IMAGE, "Inserted": True}, path).status_code
    assert IMAGE["Image"] == bmc.slot()["Image"]
    assert 204 == bmc.patch({"Image": None, "Inserted": False}, path).status_code
    assert not bmc.slot()["Inserted"]


@proves()
def media_types_missing(bmc):
    assert "MediaTypes" not in bmc.slot()


@proves({"seconds": 0.3})
def media_stale_after_eject(bmc):
    bmc.post(INSERT, IMAGE)
    bmc.post(EJECT)
    assert (True, IMAGE["Image"]) == (bmc.slot()["Inserted"], bmc.slot()["Image"])
    assert not bmc.machine.media["Cd"]
    CLOCK.pass_time(0.35)
    assert (False, None) == (bmc.slot()["Inserted"], bmc.slot()["Image"])
    bmc.post(INSERT, IMAGE)
    bmc.post(EJECT)
    other = {"Image": "http://127.0.0.1:1/b.iso"}
    assert 204 == bmc.post(INSERT, other).status_code
    assert other["Image"] == bmc.slot()["Image"]


@proves()
def media_lost_at_power_off(bmc):
    bmc.reset("On")
    bmc.post(INSERT, IMAGE)
    bmc.reset("ForceOff")
    assert ("", True) == (bmc.machine.media["Cd"], bmc.slot()["Inserted"])
    assert [409, 204, 204] == [
        bmc.post(path, IMAGE).status_code for path in (INSERT, EJECT, INSERT)
    ]
    assert IMAGE["Image"] == bmc.machine.media["Cd"]


@proves({"seconds": 0.2})
def media_shown_late(bmc):
    bmc.post(INSERT, IMAGE)
    assert not bmc.slot()["Inserted"]
    CLOCK.pass_time(0.25)
    assert bmc.slot()["Inserted"]


@proves({"seconds": 0.1})
def media_insert_by_task(bmc):
    answer = bmc.post(INSERT, IMAGE)
    assert not bmc.slot()["Inserted"]
    assert "Completed" == end_of(bmc, answer)["TaskState"]
    assert bmc.slot()["Inserted"]


def boot(**values):
    return {"Boot": {f"BootSourceOverride{name}": value for name, value in values.items()}}


def boot_mode(bmc):
    return bmc.read(bmc.system)["Boot"].get("BootSourceOverrideMode")


@proves()
def boot_mode_lost(bmc):
    assert 204 == bmc.patch(boot(Target="Pxe", Enabled="Once")).status_code
    assert "Legacy" == boot_mode(bmc)
    bmc.patch(boot(Target="Pxe", Enabled="Once", Mode="UEFI"))
    assert "UEFI" == boot_mode(bmc)


@proves()
def boot_whole_demanded(bmc):
    orders = [boot(Target="Pxe", Enabled="Once"), boot(Target="Pxe", Enabled="Once", Mode="UEFI")]
    assert [400, 204] == [bmc.patch(order).status_code for order in orders]


@proves()
def boot_mode_fixed(bmc):
    assert [400, 204] == [bmc.patch(boot(Mode=mode)).status_code for mode in ("Legacy", "UEFI")]


@proves()
def boot_mode_not_shown(bmc):
    assert boot_mode(bmc) is None


@proves()
def secure_boot_absent(bmc):
    assert "SecureBoot" not in bmc.read(bmc.system)
    assert 404 == bmc.get(f"{bmc.system}/SecureBoot").status_code


@proves()
def patch_answers_document(bmc):
    answer = bmc.patch(boot(Target="Pxe", Enabled="Once"))
    assert (200, "None") == (answer.status_code, answer.json()["Boot"]["BootSourceOverrideTarget"])
    assert "Pxe" == bmc.read(bmc.system)["Boot"]["BootSourceOverrideTarget"]
