"""Real proxies in front of a service, of Debian's packages."""

import os
import shutil
import socket
import subprocess
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from app.process.parent_death import die_with_parent
from tests.support import debian
from tests.support.fleet import until
from tests.support.ports import free_port
from tests.support.prerequisites import not_run

NGINX = """\
daemon off;
user root;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
    uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
    server {{
        listen 127.0.0.1:{port};
        {more}
        location / {{
            proxy_pass http://127.0.0.1:{service};
            {directives}
        }}
    }}
}}
"""
CADDY = """\
{{
    admin off
    auto_https off
}}
http://127.0.0.1:{port} {{
    {directives} 127.0.0.1:{service}
}}
"""
HAPROXY = """\
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend tenants
    bind 127.0.0.1:{port}
    {directives}
    default_backend api
backend api
    server one 127.0.0.1:{service}
"""
APACHE = """\
ServerRoot {folder}
ServerName localhost
PidFile {folder}/pid
ErrorLog {folder}/log
Listen 127.0.0.1:{port}
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so
DefaultRuntimeDir {folder}
ProxyPass / http://127.0.0.1:{service}/
{directives}
"""


class Proxy(NamedTuple):
    """A program, its configuration and its command."""

    program: str
    package: str
    template: str
    #: lines that the documentation demands; empty: as the package has it
    directives: str
    command: tuple[str, ...]
    more: str = ""


_NGINX = ("nginx", "nginx-light", NGINX)
_START_NGINX = ("-p", "{folder}", "-c", "{file}")
_APACHE = ("-f", "{file}", "-D", "FOREGROUND")
#: Proxies as docs/security.md demands them: each names its client in X-Forwarded-For.
DOCUMENTED = {
    "caddy": Proxy(
        "caddy", "caddy", CADDY, "reverse_proxy",
        ("run", "--adapter", "caddyfile", "--config", "{file}"),
    ),
    "nginx": Proxy(
        *_NGINX, "proxy_set_header X-Forwarded-For $remote_addr;", _START_NGINX,
        "underscores_in_headers on;",
    ),
    "haproxy": Proxy(
        "haproxy", "haproxy", HAPROXY, "http-request set-header X-Forwarded-For %[src]",
        ("-db", "-f", "{file}"),
    ),
    "apache": Proxy("apache2", "apache2-bin", APACHE, "ProxyAddHeaders On", _APACHE),
}  # fmt: skip
#: Proxies that pass on the X-Forwarded-For of their clients, and add none.
SILENT = {
    "nginx": DOCUMENTED["nginx"]._replace(directives=""),
    "haproxy": DOCUMENTED["haproxy"]._replace(directives=""),
    "apache": DOCUMENTED["apache"]._replace(directives="ProxyAddHeaders Off"),
}


@contextmanager
def serving(proxy, folder, service):
    """Run a proxy in front of the service at a port; yield the proxy's port."""
    path = "/usr/sbin:/usr/bin"
    program = debian.provide(lambda: shutil.which(proxy.program, path=path), proxy.package)
    if program is None:
        not_run(f"no {proxy.program} on this machine")
    folder.mkdir(parents=True)
    places = {
        "folder": folder,
        "port": free_port(),
        "service": service,
        "file": folder / "settings",
    }
    text = proxy.template.format(**places, directives=proxy.directives, more=proxy.more)
    Path(places["file"]).write_text(text)
    command = [program, *(part.format(**places) for part in proxy.command)]
    with Path(folder, "out").open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, "HOME": str(folder)},
            preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509
        )  # fmt: skip
    try:
        until(lambda: _listens(places["port"]), f"{program}; {Path(folder, 'out').read_text()}")
        yield places["port"]
    finally:
        process.terminate()
        process.wait()


def _listens(port):
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
