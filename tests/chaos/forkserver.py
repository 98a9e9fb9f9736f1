"""
Fork server: one process that forks all others of a site, each in its own session.

It imports their modules once, so that a killed process is restarted within a fraction of a second,
and has a single thread, which makes forking safe. Requests are JSON lines on standard input,
events are JSON lines on standard output:

    {"start": name, "role": "conductor", "arguments": ["c-1"], "environ": {...}, "log": path}
    {"start": name, "argv": [...], "account": "postgres", "environ": {...}, "log": path}
    {"started": name, "pid": 7}    {"ended": name, "pid": 7}

When a process ends, the rest of its process group is killed; at end of input, all are.
"""

import importlib
import json
import os
import pwd
import select
import sys

from app import log
from app.config import settings as app_settings
from app.parent import die_with_parent
from workers.supervisor import location, up
from workers.supervisor.children import Children

#: Seconds between looks for who has ended.
LOOK = 0.05


def tell(**facts):
    print(json.dumps(facts), flush=True)


def serve():
    log.set_up("warning")
    for name in up.PRELOAD:
        importlib.import_module(name)
    children = Children(restart=False)
    tell(ready=True)
    rest = b""
    while True:
        if select.select([0], [], [], LOOK)[0]:
            read = os.read(0, 65536)
            if not read:
                break
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                order = json.loads(line)
                child = children.start("any", order["start"], lambda order=order: become(order))
                tell(started=child.name, pid=child.pid)
        running = {child.name: child.pid for child in children.all}
        for child in children.reap():
            tell(ended=child.name, pid=running[child.name])
        children.all = [child for child in children.all if child.pid]
    children.kill_orphans()


def become(order):
    """Be what an order says, for the rest of this process."""
    lines = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((nothing, 0), (lines, 1), (lines, 2)):
        os.dup2(number, target)
    environ = order["environ"]
    if "argv" in order:
        if order.get("account"):
            parent, account = os.getppid(), pwd.getpwnam(order["account"])
            os.setgroups([])
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            die_with_parent(parent)  # again: who changes his account is forgotten
            os.chdir("/")
        os.execve(order["argv"][0], order["argv"], {**os.environ, **environ})
    os.environ.update(environ)
    settings = location.complete(app_settings.load(environ))
    up.become(settings, order["start"], up.ROLES[order["role"]], *order["arguments"])


if __name__ == "__main__":
    sys.exit(serve())
