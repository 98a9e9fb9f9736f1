"""Fixtures of all driver tests: a scripted agent, and a server of images."""

import pytest

from tests.unit.drivers.machines import KERNEL, RAMDISK, image_server, scripted_agent


@pytest.fixture
def agent():
    with scripted_agent() as agent:
        yield agent


@pytest.fixture
def images():
    with image_server() as server:
        server.files |= {"/kernel": KERNEL, "/ramdisk": RAMDISK}
        yield server
