"""Servers of one process, and requests to them."""

import json
from contextlib import contextmanager

import requests

from tests.contract.test_server import NEWEST, await_answer, copied, started
from tests.support.ports import free_port


@contextmanager
def serving(migrated_sqlite, folder, function="main", **settings):
    """A server with one process; yields its URL."""
    port = free_port()
    settings = {"INGOT_API_API_WORKERS": "1", **settings}
    with started(copied(migrated_sqlite, folder), port, function, **settings) as process:
        url = f"http://127.0.0.1:{port}"
        await_answer(f"{url}/healthcheck", process)
        yield url


def get(url, **options):
    return requests.get(url, timeout=30, **{"headers": NEWEST, **options})


def post(url, **options):
    return requests.post(url, timeout=30, headers=NEWEST, **options)


def fault(answer):
    return json.loads(answer.json()["error_message"])["faultstring"]
