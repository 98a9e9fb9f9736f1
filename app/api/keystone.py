"""
Tokens: Keystone says whose they are. keystonemiddleware asks it, and remembers the answers.

Importing this costs half a second; `auth` does so only where Keystone is used.
"""

from collections.abc import Iterable
from dataclasses import fields
from importlib.util import find_spec
from typing import Any

from flask import Request
from keystoneauth1 import loading
from keystoneauth1.exceptions import ClientException
from keystonemiddleware import auth_token
from oslo_config import cfg
from webob.exc import HTTPServiceUnavailable

from app import log
from app.api.answers import Wsgi
from app.api.auth import is_public
from app.config.settings import KeystoneAuthtoken, SettingsError
from app.errors import Unauthorized, Unavailable
from app.kit.caller import Caller, of_token

logger = log.get(__name__)

GROUP = "keystone_authtoken"
#: What the middleware puts into the environment of a request: Keystone's answer.
TOKEN = "keystone.token_info"
#: Where we put a list for that, to have it back.
ARRIVED = "ingot.arrived"


class Keystone:
    """
    Knows callers by the token in X-Auth-Token.

    The middleware is called as a function: what it lets pass ends in `arrive`. So a request that
    needs no token never depends on Keystone, and errors are told in our shape.
    """

    def __init__(self, options: KeystoneAuthtoken) -> None:
        self._middleware = middleware(options, arrive)

    def __call__(self, request: Request, request_id: str) -> Caller:
        if is_public(request.path):
            return Caller(request_id=request_id)
        arrived: list[Any] = []
        status, headers = 0, {}

        def start_response(line: str, fields: list[tuple[str, str]], *_: Any) -> None:
            nonlocal status, headers
            status, headers = int(line[:3]), dict(fields)

        # a copy, because the middleware changes headers
        for _ in self._middleware({**request.environ, ARRIVED: arrived}, start_response):
            pass
        if arrived:
            return of_token(arrived[0]["token"], request_id)
        if status != 401:
            raise Unavailable("Keystone cannot be asked about the token, please retry.")
        raise Unauthorized(
            "The request needs a valid token of Keystone in X-Auth-Token.",
            headers.get("WWW-Authenticate"),
        )


def arrive(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """What stands behind the middleware: only requests with a valid token get here."""
    environ[ARRIVED].append(environ[TOKEN])
    start_response("204 No Content", [])
    return []


def middleware(options: KeystoneAuthtoken, behind: Wsgi) -> Wsgi:
    """keystonemiddleware in front of an application. Raises SettingsError."""
    if options.auth_url is None:
        raise SettingsError(f"[{GROUP}]auth_url: Keystone needs it")
    if options.memcached_servers and not find_spec("memcache"):
        raise SettingsError(f"[{GROUP}]memcached_servers: needs python-memcached to be installed")
    given = _given(options)
    conf = cfg.ConfigOpts()
    conf([], project="ingot", default_config_files=[], default_config_dirs=[])
    try:
        plugin: Any = loading.get_plugin_loader(options.auth_type)
        ours = loading.get_auth_plugin_conf_options(plugin)
        conf.register_opts(ours, group=GROUP)
        for each in ours:
            conf.set_override(each.dest, given.pop(each.dest, None), group=GROUP)
        return _Middleware(behind, {"oslo_config_config": conf, **given})
    except (ClientException, auth_token.ConfigurationError) as error:
        raise SettingsError(f"[{GROUP}]: {error}") from error


def _given(options: KeystoneAuthtoken) -> dict[str, str]:
    """What is set, as text."""
    values = {each.name: getattr(options, each.name) for each in fields(options)}
    if options.system_scope:
        values["project_name"] = values["project_domain_name"] = None
    return {
        name: ",".join(value) if isinstance(value, tuple) else str(value)
        for name, value in values.items()
        if value is not None and value != ()
    }


class _Middleware(auth_token.AuthProtocol):
    def fetch_token(self, token: str, **about: Any) -> Any:
        try:
            return super().fetch_token(token, **about)
        except ClientException as error:  # such as our own password being wrong
            logger.warning("keystone.refused", error=str(error))
            raise HTTPServiceUnavailable from error
