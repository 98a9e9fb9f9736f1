"""Tests whose prerequisites are missing on this machine."""

import os

import pytest

NOT_RUN = "NOT RUN: "


def not_run(why):
    """Skip a test that needs a missing program; fail it in CI, where every program is expected."""
    if os.environ.get("CI"):
        pytest.fail(NOT_RUN + why, pytrace=False)
    pytest.skip(NOT_RUN + why)


def not_allowed(why):
    """Skip a test that needs a privilege, in CI too."""
    pytest.skip(NOT_RUN + why)
