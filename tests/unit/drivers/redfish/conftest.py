"""Fixtures of the tests of Redfish drivers."""

import pytest

from drivers.redfish.transport import http_rules


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    """Repeat reads at once: the pauses of the rules have tests of their own."""
    monkeypatch.setattr(http_rules, "PAUSES", tuple(0.0 for _ in http_rules.PAUSES))
