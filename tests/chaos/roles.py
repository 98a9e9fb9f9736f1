"""The processes of a site, as functions that a forked program runs."""

import os
import pwd

from app.config import settings as app_settings
from app.observe import log
from app.process.parent_death import die_with_parent
from drivers.core import password_rotation
from workers.supervisor import location, roles

#: Variable with a factor of all waits of the rotation of passwords, so that minutes are enough.
HURRY = "CHAOS_ROTATION_WAITS"


def hurry(factor):
    """Multiply the waits of the rotation of passwords by a factor."""
    for name in ("LONGEST", "SILENT", "UNAPPLIED", "LOCKED"):
        setattr(password_rotation, name, getattr(password_rotation, name) * factor)
    password_rotation.ROUNDS = tuple(seconds * factor for seconds in password_rotation.ROUNDS)


def run(name, role, *arguments):
    """Run a role of the service under a name of its own; its settings are in the environment."""
    hurry(float(os.environ.get(HURRY, "1")))
    settings = location.complete(app_settings.load(os.environ))
    log.set_up(settings.default.log_level, settings.default.log_format)
    roles.become(settings, name, roles.ROLES[role], *arguments)


def execute(command, account):
    """Execute a command as an account; None: as this one."""
    if account:
        parent, entry = os.getppid(), pwd.getpwnam(account)
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
        die_with_parent(parent)  # again: the kernel forgets it at a change of user
        os.chdir("/")
    os.execv(command[0], command)
