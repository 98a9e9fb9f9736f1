"""
Authentication by Keystone tokens. keystonemiddleware validates them, and caches the results.

The import takes half a second; `auth` imports this module only if Keystone is used.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields
from importlib.util import find_spec
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Request
from keystoneauth1 import loading
from keystoneauth1.exceptions import ClientException
from keystonemiddleware import auth_token
from oslo_config import cfg
from webob.exc import HTTPServiceUnavailable

from app.api.authentication.audit_trail import AuditTrail
from app.api.declarations.public_paths import is_public
from app.config.openstack_settings import KeystoneAuthtoken
from app.config.settings import SettingsError
from app.errors import Unauthorized, Unavailable
from app.identity.caller import Caller, of_token
from app.observe import log

logger = log.get(__name__)

GROUP = "keystone_authtoken"
#: Key in the WSGI environment at which the middleware stores Keystone's document of the token.
TOKEN = "keystone.token_info"
#: Key in the WSGI environment of a list, to which `accept` appends that document.
ACCEPTED = "ingot.accepted"


class Keystone:
    """
    Identify callers by the token in X-Auth-Token.

    The middleware is called as a function, with `accept` as its application. So a request that
    needs no token does not depend on Keystone, and errors have the API's format.
    """

    def __init__(self, options: KeystoneAuthtoken) -> None:
        self._middleware = middleware(options, accept)

    def __call__(self, request: Request, trail: AuditTrail) -> Caller:
        if is_public(request.path):
            return Caller(request_id=trail.request_id)
        accepted_requests: list[dict[str, Any]] = []
        status, headers, body = 0, dict[str, str](), list[bytes]()

        def start_response(
            line: str, fields: list[tuple[str, str]], *_: object
        ) -> Callable[[bytes], object]:
            nonlocal status, headers
            status, headers = int(line[:3]), dict(fields)
            return body.append

        # a copy, because the middleware changes headers
        for _ in self._middleware({**request.environ, ACCEPTED: accepted_requests}, start_response):
            pass
        if accepted_requests:
            return of_token(accepted_requests[0]["token"], trail.request_id)
        if status != 401:
            raise Unavailable("Keystone cannot validate the token at the moment, please retry.")
        raise Unauthorized(
            "The request needs a valid token of Keystone in X-Auth-Token.",
            headers.get("WWW-Authenticate"),
        )


def accept(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Application behind the middleware: record the token, which is valid here."""
    environ[ACCEPTED].append(environ[TOKEN])
    start_response("204 No Content", [])
    return []


def middleware(options: KeystoneAuthtoken, application: WSGIApplication) -> WSGIApplication:
    """
    Wrap an application in keystonemiddleware.

    Raises SettingsError: an option is missing or invalid.
    """
    if options.auth_url is None:
        raise SettingsError(f"[{GROUP}]auth_url: Keystone needs it")
    if options.memcached_servers and not find_spec("memcache"):
        raise SettingsError(f"[{GROUP}]memcached_servers: needs python-memcached to be installed")
    values = _values(options)
    conf = cfg.ConfigOpts()
    conf([], project="ingot", default_config_files=[], default_config_dirs=[])
    try:
        plugin: Any = loading.get_plugin_loader(options.auth_type)
        of_plugin = loading.get_auth_plugin_conf_options(plugin)
        conf.register_opts(of_plugin, group=GROUP)
        for option in of_plugin:
            conf.set_override(option.dest, values.pop(option.dest, None), group=GROUP)
        return _Middleware(application, {"oslo_config_config": conf, **values})
    except (ClientException, auth_token.ConfigurationError) as error:
        raise SettingsError(f"[{GROUP}]: {error}") from error


def _values(options: KeystoneAuthtoken) -> dict[str, str]:
    """Return the options that are set, as text."""
    values = {option.name: getattr(options, option.name) for option in fields(options)}
    if options.system_scope:
        values["project_name"] = values["project_domain_name"] = None
    return {
        name: ",".join(value) if isinstance(value, tuple) else str(value)
        for name, value in values.items()
        if value is not None and value != ()
    }


class _Middleware(auth_token.AuthProtocol):
    def fetch_token(self, token: str, **arguments: object) -> object:
        try:
            return super().fetch_token(token, **arguments)
        except ClientException as error:  # such as a wrong password of the service itself
            logger.warning("keystone.refused", error=str(error))
            raise HTTPServiceUnavailable from error
