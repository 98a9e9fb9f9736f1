"""Processes on a host, as functions that a forked program runs: see `tests.chaos.roles`."""

from tests.chaos import roles
from tests.hosts import network


def run(host, name, role, *arguments):
    """Run a role of the service on a host."""
    network.enter(host)
    roles.run(name, role, *arguments)


def execute(host, command, account):
    """Execute a command on a host as an account; None: as this one."""
    network.enter(host)
    roles.execute(command, account)
