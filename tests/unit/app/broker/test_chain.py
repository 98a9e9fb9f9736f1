"""Wire format of a chain: equal to the messages of Celery's canvas."""

from types import SimpleNamespace

import celery
import pytest

from app.broker import chain
from app.broker.messages import Link, Message

LABELS = ("deploy.prepare", "deploy.write_image", "deploy.boot_instance")
QUEUE = "conductor.c-1"


@pytest.fixture
def application():
    with celery.Celery("test", broker="memory://localhost") as app:

        @app.task(name=chain.RUN, ignore_result=True, shared=False)
        def run(*_):
            """Never run here."""

        yield app


def message(**fields):
    links = tuple(Link(f"task-{at}", at, label) for at, label in enumerate(LABELS))
    return Message("c-1", "a-node", "an-operation", 7, links, **fields)


def taken(application):
    """Headers, body and properties of the one message in the queue."""
    with application.connection_for_read() as connection:
        queue = connection.SimpleQueue(QUEUE)
        delivery = queue.get(timeout=60)
        delivery.ack()
        queue.close()
        return delivery.headers, delivery.payload, delivery.properties


def published(application, message):
    chain.publish(application, message, QUEUE, timeout=60)
    return taken(application)


def by_celery(application):
    """Build and send the chain by Celery's canvas."""
    signatures = [
        application.signature(
            chain.RUN,
            args=["a-node", "an-operation", 7, link.position],
            immutable=True,
            queue=QUEUE,
            shadow=link.label,
            task_id=link.task,
            headers=chain.HEADERS,
            argsrepr=f"node a-node, operation an-operation, step {link.position}",
            kwargsrepr="",
        )
        for link in message().links
    ]
    celery.chain(*signatures, app=application).apply_async(task_id=None)
    return taken(application)


def without(document, *names):
    return {key: value for key, value in document.items() if key not in names}


def test_a_chain_has_the_wire_format_of_celery(application):
    headers, body, properties = published(application, message())
    stock_headers, stock_body, stock_properties = by_celery(application)
    for links in (body[2]["chain"], stock_body[2]["chain"]):
        for signature in links:
            signature["options"] = without(signature["options"], "reply_to")
    assert stock_body == body
    ids = ("id", "root_id", "origin")  # Celery names the first task itself
    assert without(stock_headers, *ids) == without(headers, *ids)
    assert (headers["id"], None) == (headers["root_id"], headers["parent_id"])
    assert stock_properties["delivery_info"] == properties["delivery_info"]
    assert stock_properties["delivery_mode"] == properties["delivery_mode"]
    assert headers["id"] == properties["correlation_id"]


def test_the_rest_of_a_chain_knows_its_root_and_its_parent(application):
    root = message()
    for parent, part in ((None, root), ("task-0", root.rest), ("task-1", root.rest.rest)):
        headers, body, _ = published(application, part)
        assert (part.links[0].task, "task-0", parent) == (
            headers["id"],
            headers["root_id"],
            headers["parent_id"],
        )
        assert [link.label for link in reversed(part.links[1:])] == [
            signature["options"]["shadow"] for signature in body[2]["chain"] or ()
        ]
    assert root.rest.rest.rest is None


def test_a_conductor_reads_the_published_chain_and_leaves_celery_nothing_to_publish(application):
    headers, (args, _, embedded), _ = published(application, message(name="rack1-u01"))
    request = SimpleNamespace(
        id=headers["id"],
        headers=headers,
        shadow=headers["shadow"],
        root_id=headers["root_id"],
        parent_id=headers["parent_id"],
        chain=embedded["chain"],
    )
    read = chain.received("c-1", request, args)
    assert message(root="task-0", name="rack1-u01") == read
    assert headers["argsrepr"].startswith("rack1-u01: node a-node, ")
    assert request.chain is None


def test_a_message_without_a_chain_is_one_link(application):
    request = SimpleNamespace(
        id="a-task", headers=None, shadow=None, root_id="a-task", parent_id=None, chain=None
    )
    read = chain.received("c-1", request, ("a-node", "an-operation", 7, 2, "of a later release"))
    assert (2, None) == (read.cursor, read.rest)
