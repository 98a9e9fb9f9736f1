"""Rendering of templates that tenants write, in a process of its own with limits."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from drivers.core.errors import InvalidDriverInfo

_CHILD = Path(__file__).with_name("template_child.py")
MEMORY = 256 << 20  # bytes of address space
SECONDS = 5  # of CPU time
#: Seconds until the child is killed; more than SECONDS, as the machine may be busy.
TIMEOUT = 30.0
LONGEST = 1 << 20  # characters of the rendered text


def render(template: str, values: Mapping[str, object], field: str) -> str:
    """
    Render a Jinja template with `ks_options`. field: the field of the template, for errors.

    Raises InvalidDriverInfo: the template is wrong, or exceeds a limit.
    """
    request = {
        "template": template,
        "values": values,
        "memory": MEMORY,
        "seconds": SECONDS,
        "longest": LONGEST,
    }
    try:
        process = subprocess.run(
            [sys.executable, "-I", str(_CHILD)],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            check=False,
            env={},  # the passwords of the service are in its environment
            timeout=TIMEOUT,
        )
        answer = json.loads(process.stdout)
    except (subprocess.TimeoutExpired, ValueError):  # killed, or out of memory while it answered
        answer = {"error": f"it needs more than {SECONDS} s or {MEMORY >> 20} MiB"}
    if "text" not in answer:
        raise InvalidDriverInfo(f"{field}: the template cannot be rendered: {answer['error']}")
    return str(answer["text"])
