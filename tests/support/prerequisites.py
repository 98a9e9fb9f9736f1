"""Tests whose prerequisites are missing on this machine."""

import os

import pytest

NOT_RUN = "NOT RUN: "


def not_run(reason):
    """Skip a test that needs a missing program; fail it in CI, where every program is expected."""
    if os.environ.get("CI"):
        pytest.fail(NOT_RUN + reason, pytrace=False)
    pytest.skip(NOT_RUN + reason)


def not_allowed(reason):
    """Skip a test that needs a privilege, in CI too."""
    pytest.skip(NOT_RUN + reason)
