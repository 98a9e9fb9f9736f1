"""The operator's commands in the test's process, whose requests go to an application without a server."""

from contextlib import contextmanager
from typing import NamedTuple

import pytest
import requests
from structlog.testing import capture_logs
from typer.testing import CliRunner

from app.cli import commands
from app.cli.rest import HEADERS
from app.cli.rest import Api as RestApi
from workers import cli


class InsideApi(RestApi):
    """Client of a Flask application. requests: (method, path) of each request, in order."""

    def __init__(self, application, recorded_requests=None, headers=None):
        super().__init__("http://127.0.0.1:1")
        self._application, self._client = application, application.test_client()
        self._more_headers = headers or {}
        self.requests = [] if recorded_requests is None else recorded_requests

    def another(self, *, patient=False):
        return InsideApi(self._application, self.requests, self._more_headers)

    def _sent(self, method, path, *, params=None, json=None, **_):
        self.requests.append((method, path, params or {}))
        answer = self._client.open(
            f"/{path}", method=method, query_string=params, json=json,
            headers={**HEADERS, **self._more_headers},
        )  # fmt: skip
        response = requests.Response()
        response.status_code, response.reason = answer.status_code, answer.status
        response._content, response.url = answer.data, f"http://127.0.0.1:1/{path}"
        response.headers.update(answer.headers)
        return response


class Ended(NamedTuple):
    """Result of a command."""

    status: int
    out: str
    err: str

    @property
    def lines(self):
        return self.out.splitlines()


class Ingot:
    """The command `ingot`. changes: requests of the last command that change something."""

    def __init__(self, application):
        self.api = InsideApi(application)

    def __call__(self, *words, status=0, stdin=None, headers=None):
        self.api.requests.clear()
        with self._connected(headers), capture_logs():
            result = CliRunner().invoke(cli.app, list(map(str, words)), input=stdin)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == status, result.output
        return Ended(result.exit_code, result.stdout, result.stderr)

    @property
    def changes(self):
        return [
            (method, path) for method, path, query in self.api.requests
            if method != "GET" and not query.get("dry_run")
        ]  # fmt: skip

    @contextmanager
    def _connected(self, headers):
        def connect(values):
            for parameter in commands.CONNECTION:
                values.pop(parameter.name, None)
            return self.api if headers is None else InsideApi(
                self.api._application, self.api.requests, headers
            )  # fmt: skip

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(commands, "connect", connect)
            yield
