"""The environment of started programs has no setting of the service: some are passwords."""

from drivers.ipmi import ipmitool
from drivers.ipmi.credentials import Credentials
from drivers.net import child_environment


def test_programs_get_no_setting_of_the_service(monkeypatch):
    monkeypatch.setenv("INGOT_BROKER_URL", "redis://:pw@h/0")
    monkeypatch.setenv("LANG", "C.UTF-8")
    environment = child_environment.without_settings()
    assert "C.UTF-8" == environment["LANG"]
    for environ in (environment, ipmitool.environment(Credentials("192.0.2.1", password="bmc"))):
        assert [] == [name for name in environ if name.startswith("INGOT_")]
