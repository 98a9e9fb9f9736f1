"""A file of settings."""

import pytest


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "ingot.toml"

    def write(text):
        path.write_text(text)
        return path

    return write
