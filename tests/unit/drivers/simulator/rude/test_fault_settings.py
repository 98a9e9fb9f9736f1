"""Settings and files of faults."""

import pytest

from drivers.simulator import fault_settings
from drivers.simulator.fault_settings import BadFault
from drivers.simulator.rude.profiles import PROFILES
from drivers.simulator.rude.table import ROWS


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_the_settings_of_a_profile_are_valid(bmc, name):
    bmc.set_faults(profile=name)
    assert set(PROFILES[name]) & set(ROWS) == set(bmc.machine.faults.rude)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"busy": 2}, "busy: a share between 0 and 1, not 2"),
        ({"busy": "often"}, "busy: a number from 0 up, not 'often'"),
        ({"busy": {"share": 3}}, "busy.share: a share"),
        ({"busy": {"state": 503}}, "busy: unknown option 'state'; known: share, times, status"),
        ({"busy": {"status": "503"}}, "busy.status: a number"),
        ({"order_lost": {"orders": "power"}}, "order_lost.orders: a list of texts"),
        ({"profile": "polite"}, "profile: 'polite' is none of ami-like"),
        ({"politeness": True}, "unknown fault 'politeness'"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_with_its_name(bmc, settings, complaint):
    with pytest.raises(BadFault) as refused:
        bmc.set_faults(**settings)
    assert complaint in str(refused.value)


FILE = """
[all]
profile = "mine"
latency = 0.5
[machines."1-2"]
profile = ["dell-like", "mine"]
busy = false
[machines.2]
busy = 0.25
[profiles.mine]
busy = true
not_utf8 = 0.1
"""


def test_a_file_has_faults_of_all_and_of_single_machines(tmp_path):
    path = tmp_path / "faults.toml"
    path.write_text(FILE)
    for_all, for_one = fault_settings.read(path, 3)
    assert {"busy": True, "not_utf8": 0.1, "latency": 0.5} == for_all
    assert {1, 2} == set(for_one)
    assert {"busy": False, **PROFILES["dell-like"], "not_utf8": 0.1} == for_one[1]
    assert 0.25 == for_one[2]["busy"]
    faults = fault_settings.merge(for_all, for_one[1])
    assert "busy" not in faults.rude
    assert (0.1, 0.5) == (faults.rude["not_utf8"]["share"], faults.latency)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[all", "Expected"),
        ("[some]\na = 1", "[some] is none of [all], [machines.N], [profiles.NAME]"),
        ("[all]\nbusy = 7", "[all] busy: a share"),
        ("[machines.3]\nbusy = true", "[machines.3]: the machines are 0-2"),
        ("[machines.x]\nbusy = true", "[machines.x]: a number such as 3"),
        ("[machines.1]\nprofile = 'x'", "[machines.1] profile: 'x' is none of"),
        ("machines = 1", "[machines]: a table, not 1"),
    ],
)
def test_a_wrong_file_is_refused_with_its_entry(tmp_path, text, complaint):
    path = tmp_path / "faults.toml"
    path.write_text(text)
    with pytest.raises(BadFault) as refused:
        fault_settings.read(path, 3)
    assert str(refused.value).startswith(str(path))
    assert complaint in str(refused.value)
