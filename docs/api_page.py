"""docs/api.md: the routes, repeated and conditional requests, and the fields of a node."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from app.api.declarations import versions
from app.api.request import repeats
from app.api.transport.host_check import WRITING
from app.config.settings import load as load_settings
from app.runtime import Runtime
from app.server.application import create_app
from docs import node_fields
from docs.markdown import Lines, code, table
from drivers.core.registry import load

CLIENT = """## A client library

From the document of a running service, [openapi-python-client][1] generates a typed Python client,
with a function for each `operationId`. These names do not change.

```console
$ pip install openapi-python-client
$ echo 'content_type_overrides: {application/gzip: application/octet-stream}' > client.yaml
$ openapi-python-client generate --url http://127.0.0.1:6385/openapi.json --config client.yaml
$ pip install ./ingot-client
```

```python
from ingot_client import Client
from ingot_client.api.nodes import create_node, list_nodes
from ingot_client.models import NodeCreate

latest = {"x_open_stack_ironic_api_version": "latest"}
with Client("http://127.0.0.1:6385") as client:
    node = create_node.sync(client=client, body=NodeCreate(driver="fake-hardware"), **latest)
    page = list_nodes.sync(client=client, **latest)
```

openstacksdk and python-ironicclient know the routes of Ironic, and not the others.

[1]: https://github.com/openapi-generators/openapi-python-client
"""


def api() -> Lines:
    yield "# The API\n"
    yield f"OpenStack Ironic's API, versions 1.{versions.MIN} to 1.{versions.MAX}, with additions."
    yield f"The header `{versions.HEADER}` selects the version of a request;"
    yield f"the default is 1.{versions.MIN}. A running service describes parameters and bodies"
    yield "at `/docs` and `/openapi.json`. [policy.md](policy.md) lists the rules.\n"
    yield CLIENT
    by_tag: dict[str, list[tuple[str, ...]]] = {}
    paths = _openapi()["paths"]
    for path, methods in paths.items():
        for method, about in methods.items():
            rule = code(about["x-policy"]) if "x-policy" in about else ""
            row = (method.upper(), code(path), about["x-since"], about["summary"], _answers(about))
            by_tag.setdefault(about["tags"][0], []).append((*row, rule))
    for tag, rows in by_tag.items():
        yield f"## {tag.replace('_', ' ').capitalize()}\n"
        yield from table(("method", "path", "since", "action", "answers", "rule"), rows)
    yield "## Repeated and conditional requests\n"
    yield REPEATS
    yield from table(("answer", "the write", "a repetition with the same key"), OUTCOMES)
    yield CONDITIONS
    head = ("method", "path", repeats.HEADER, repeats.IF_MATCH)
    yield from table(head, _headers(paths))
    yield "## The fields of a node\n"
    yield "`since`: the version that introduced it. `set by`: the requests that may set it. `rule`:"
    yield "the rule for PATCH. `filter`: the version that introduced the parameter of lists.\n"
    yield from table(node_fields.HEAD, node_fields.rows())


#: About the header of repeated requests.
REPEATS = f"""\
A client that got no answer to a write repeats it with the same `{repeats.HEADER}`, a text
of 1 to {repeats.LONGEST} printable characters: the write is executed once, and each repetition
gets the first answer again, with status, body, `Location` and `ETag`, and
`{repeats.REPLAYED}: true`. A key belongs to one user and project; with another method, path,
body or API version it is refused with 400. An answer is kept for a day. Reads may be repeated
anyway, and ignore the header.

The key is recorded in the transaction of the write. A refused request has changed nothing, and its
key remains free: a repetition is checked as a new request, and executed if the reason of the
refusal is gone.
"""


#: Statuses, what they tell of the write, and the effect of a repetition with the same key.
OUTCOMES = (
    ("2xx", "executed", "gets this answer again"),
    (
        "400, 401, 403, 404, 405, 406, 412, 413",
        "refused",
        "is checked again; the client changes the request or gives up",
    ),
    (
        "409, 429",
        "refused",
        "is checked again; the client repeats it after `Retry-After`",
    ),
    (
        "500, 502, 503, 504, or none",
        "refused or executed",
        "gets the answer of the write if it was executed, and executes it if not",
    ),
)


#: About refusals, and the header of conditional requests.
CONDITIONS = f"""\
So repeat with one key until the answer is a 2xx, or a refusal that no repetition changes. A refusal
concerns one attempt: an earlier attempt without an answer may arrive later, and be executed. A
client that must exclude this sends `{repeats.IF_MATCH}` with each attempt: once the node has
changed, a late attempt gets 412.

`{repeats.IF_MATCH}` has the `ETag`s of a node that a client has read: if its present one is not
among them, the answer is 412. `*` stands for any.

Where one of these headers has no effect, a write with it is refused with 400, so also a dry run.
"""


def _headers(paths: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of repeated and conditional requests."""
    for path, methods in paths.items():
        for method, about in methods.items():
            if method.upper() not in WRITING:
                continue
            parameters = {item.get("$ref", "").rpartition("/")[2] for item in about["parameters"]}
            key = "yes" if "key" in parameters else f"no: {about['x-no-key']}"
            if "key" in parameters and path.startswith("/v1/nodes/") and "vendor_passthru" in path:
                key = "of functions that are operations; others: no"
            yield method.upper(), code(path), key, "yes" if "tag" in parameters else ""


def _answers(about: Mapping[str, Any]) -> str:
    """Return the answers of a successful request: statuses, and the schemas with a name."""
    answers = []
    for status, answer in about["responses"].items():
        if int(status) < 300:
            content = answer.get("content", {}).get("application/json", {})
            names = re.findall(r"/schemas/(?!Links)(\w+)", str(content))
            answers.append(f"{status} {code(*dict.fromkeys(names))}".rstrip())
    return ", ".join(answers)


def _openapi() -> dict[str, Any]:
    def send(_message: object) -> bool:
        raise AssertionError("no message is sent during generation")

    registry = load((), enabled_types=[])
    runtime = Runtime(load_settings({}), None, registry, send)  # type: ignore[arg-type]
    answer = create_app(runtime).test_client().get("/openapi.json")
    document: dict[str, Any] = answer.get_json()
    return document
