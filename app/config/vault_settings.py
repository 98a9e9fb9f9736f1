"""
Settings of the vault that keeps passwords of BMCs. `app/config/settings.py` has the others, and
says how a setting is added.
"""

# ruff: noqa: E501 - the groups are a table: an option, a line

import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from app.config.option_types import base_url, count, seconds
from app.config.options import option

#: Login -> the option that it needs.
_NEEDED = {"approle": "role_id", "token": "token_file", "kubernetes": "kubernetes_role"}


def vault_url(url: str | None) -> None:
    """Check the URL of the vault: passwords of BMCs leave this host only encrypted."""
    base_url(url)
    if not url or url.lower().startswith("https:"):
        return
    host = urlsplit(url).hostname or ""
    try:
        is_local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if not is_local:
        raise ValueError("expected https://HOST:PORT; http:// only for a proxy on this host")


def path(text: str) -> None:
    """Check a path in the vault; of its parts, none has a meaning in URLs or ends in a period."""
    if not re.fullmatch(r"[\w.-]*[\w-](/[\w.-]*[\w-])*", text, re.ASCII) or len(text) > 200:
        raise ValueError("expected parts of letters, digits, . _ and -, with / between them")


def optional_path(text: str) -> None:
    if text:
        path(text)


# fmt: off
@dataclass(frozen=True, slots=True)
class VaultSettings:
    address: str | None = option(None, "URL of an OpenBao or Vault server that keeps passwords of BMCs instead of the database (docs/vault.md); empty: none. The group is not in Ironic", check=vault_url)
    store_secrets: bool = option(True, "Keep new passwords in the vault; false: in the database, while those in the vault are still read")
    mount: str = option("secret", "Path of the secrets engine, KV version 2", check=path)
    prefix: str = option("ingot", "Path in the secrets engine below which all secrets of this service are", check=path)
    namespace: str = option("", "Namespace of mount and auth_mount; empty: the root namespace", check=optional_path)
    ca_file: str | None = option(None, "CA file for the vault; empty: the system's")
    auth_method: str = option("approle", "Login. approle: role_id and secret_id; token: token_file; kubernetes: kubernetes_role and the token of the service account", choices=("approle", "token", "kubernetes"))
    auth_mount: str = option("", "Path of the auth method; empty: its name", check=optional_path)
    role_id: str = option("", "RoleID, for approle")
    secret_id: str = option("", "SecretID, for approle", secret=True)
    token_file: str = option("", "File with a token, for token; it is read again when the token has ended")
    kubernetes_role: str = option("", "Role, for kubernetes")
    kubernetes_token_file: str = option("/var/run/secrets/kubernetes.io/serviceaccount/token", "File with the JWT of the service account, for kubernetes; it is read at each login")
    timeout: float = seconds(5, "Seconds for an answer", minimum=0.1)
    cache_time: float = seconds(3600, "Seconds for which a process remembers a secret, in memory only; it is read again after a quarter to half of them, so that shorter outages of the vault are not noticed. 0: not at all")
    cache_size: int = count(20000, "Most secrets that a process remembers; at least the secrets of a conductor's nodes", minimum=1)
    keep_days: float = option(30, "Days until a secret is destroyed that no node refers to any more, so that a restored backup of the database finds its secrets; the newest ten of a node are kept for so long", minimum=0)

    @property
    def missing_option(self) -> str | None:
        """The option that the login needs and that has no value, if there is one."""
        needed_option = _NEEDED[self.auth_method]
        return None if getattr(self, needed_option) else needed_option
