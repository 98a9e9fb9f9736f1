"""
Child process that renders one template, with limits of memory and time.

It reads {"template", "values", "memory", "seconds", "longest"} as JSON, and writes {"text"} or
{"error"}. The sandbox of Jinja keeps a template from reaching Python's objects; the limits end one
that never ends or fills the memory. After the imports the process can open no file or connection.
"""

import json
import resource
import sys
from contextlib import suppress

import jinja2
from jinja2.sandbox import SandboxedEnvironment

_LONGEST_ERROR = 500  # characters


def main() -> None:
    request = json.load(sys.stdin)
    _load_modules()
    _limit(request["memory"], request["seconds"])
    try:
        text = _render(request["template"], request["values"])
        if len(text) > request["longest"]:
            raise ValueError(f"the text has more than {request['longest']} characters")
        answer = {"text": text}
    except MemoryError:
        answer = {"error": f"it needs more than {request['memory'] >> 20} MiB of memory"}
    except Exception as error:  # any operation of a template may fail, such as 1 / 0
        reason = str(error) if isinstance(error, jinja2.TemplateError) else f"{error!r}"
        answer = {"error": reason[:_LONGEST_ERROR]}
    json.dump(answer, sys.stdout)


def _load_modules() -> None:
    """Use Jinja once: it imports modules at their first use."""
    _render("{% for each in ['\\n'] %}{{ each|pprint }}{{ ks_options|tojson }}{% endfor %}", {})
    with suppress(jinja2.TemplateError):
        _render("{{ missing }}", {})


def _limit(memory: int, seconds: int) -> None:
    for kind, limit in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(kind, (limit, limit))


def _render(template: str, values: dict[str, object]) -> str:
    environment = SandboxedEnvironment(  # no HTML, so no escaping
        autoescape=False, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    return environment.from_string(template).render(ks_options=values)


if __name__ == "__main__":
    main()
