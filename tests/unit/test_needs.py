"""The table of the needs of all roles."""

import inspect

import pytest

from docs.needs import NEEDS


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: f"{need.role}: {need.need}")
def test_each_need_has_a_probe_in_the_code(need):
    assert inspect.unwrap(need.probe).__module__.partition(".")[0] in ("app", "workers")
    assert need.within
    assert need.without


def test_each_process_of_the_service_says_what_it_needs():
    roles = {role.strip().lower() for need in NEEDS for role in need.role.split(",")}
    assert {"api", "conductor", "beat", "files", "exporter"} == roles
