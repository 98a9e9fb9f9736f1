"""
Kickstart files of installers, with commands that report the installer's status.

The template is `instance_info/ks_template`, `[anaconda]default_ks_template`, or the built-in one.
It is Jinja, with the result of `_values` as `ks_options`. Tenants may write it, so it is rendered
in a sandbox with limits (`templates`).
"""

import base64
import secrets
from typing import Any

from drivers.boot import templates
from drivers.core.target import Target
from drivers.images import config_drive, files, image_server, instance
from drivers.net import service_addresses

NAME = "ks.cfg"
#: Folder where cloud-init expects the files of a config drive if there is no drive.
_SEED = f"/var/lib/cloud/seed/config_drive/{config_drive.FOLDER}"
_HEARTBEAT = """\
curl {% if 'insecure_heartbeat' in ks_options %}--insecure {% endif %}--request POST \
--header 'Content-Type: application/json' --header 'X-OpenStack-Ironic-API-Version: 1.72' --data '\
{"callback_url": "", "agent_token": "{{ ks_options.agent_token }}", "agent_status": "STATUS", \
"agent_status_message": "MESSAGE"}' {{ ks_options.heartbeat_url }}
%end
"""


def _section(section: str, status: str, message: str) -> str:
    """Return a kickstart section that sends a heartbeat with a status."""
    return f"%{section}\n{_HEARTBEAT.replace('STATUS', status).replace('MESSAGE', message)}\n"


_TEMPLATE = (
    """\
lang en_US
keyboard us
timezone UTC --utc
text
cmdline
reboot
rootpw --lock
bootloader --location=mbr
zerombr
clearpart --all --initlabel
autopart
{% if 'is_source_a_path' in ks_options %}url --url {{ ks_options.liveimg_url }}

%packages --ignoremissing
%end
{% else %}liveimg --url {{ ks_options.liveimg_url }}
{% endif %}
"""
    + _section("pre", "start", "The installer has started.")
    + _section("onerror", "error", "The installer has failed; its console says why.")
    + "{{ ks_options.config_drive }}\n"
    + _section("post", "end", "The installer has ended.")
)


def publish(target: Target) -> tuple[str, str]:
    """
    Publish the file; return its URL, and the token for the installer's heartbeats.

    Raises BadImage, Unreachable, InvalidDriverInfo.
    """
    agent = target.agent
    token = agent.token if agent.pregenerated and agent.token else secrets.token_urlsafe(32)
    text = _text(target, token)
    root = files.http_root(target.options)
    path = files.folder(target, root, files.KICKSTART, secrets.token_urlsafe(16)) / NAME
    files.write(path, text)
    return f"{service_addresses.of_files(target)}/{path.relative_to(root)}", token


def _text(target: Target, token: str) -> str:
    template_url = instance.kickstart_template(target)
    url = template_url or target.options["anaconda"]["default_ks_template"]
    field = "instance_info/ks_template" if template_url else "[anaconda]default_ks_template"
    text = image_server.text(target, str(url)) if url else _TEMPLATE
    return templates.render(text, _values(target, token), field)


def _values(target: Target, token: str) -> dict[str, object]:
    liveimg = instance.installer_source(target)
    values: dict[str, Any] = {
        "liveimg_url": liveimg,
        "heartbeat_url": f"{service_addresses.of_api(target.options)}/v1/heartbeat/{target.uuid}",
        "agent_token": token,
        "config_drive": _config_drive(target),
    }
    if liveimg.endswith("/"):
        values["is_source_a_path"] = "true"
    if target.options["anaconda"]["insecure_heartbeat"]:
        values["insecure_heartbeat"] = "true"
    return values


def _config_drive(target: Target) -> str:
    """Return a section that writes the files of a config drive for cloud-init."""
    contents = config_drive.files(target)
    if not contents:
        return ""
    lines = ["%post", f"mkdir -p {_SEED}"]
    for name, content in contents.items():
        lines.append(f"echo {base64.b64encode(content).decode()} | base64 -d > {_SEED}/{name}")
    return "\n".join([*lines, "%end", ""])
