"""
Settings about users without Keystone: their sessions and tokens, and the OpenID provider.
`app/config/settings.py` has the others, and says how a setting is added.
"""

# ruff: noqa: E501, RUF009 - the groups are a table: an option, a line

from dataclasses import dataclass

from app.config.option_types import provider_url, seconds
from app.config.options import option
from drivers.net import networks


# fmt: off
@dataclass(frozen=True, slots=True)
class Identity:
    session_lifetime: float = seconds(28800, "Seconds for which a browser stays signed in. Not in Ironic", minimum=60)
    ended_tokens_lifetime: float = seconds(2592000, "Seconds for which API tokens and sessions are listed after they expired or were revoked; 0: for ever. Not in Ironic")


@dataclass(frozen=True, slots=True)
class Oidc:
    issuer: str = option("", "URL of the OpenID provider with which browsers sign in (auth_strategy local), as its documents name it; https, or http on loopback. Empty: none. Not in Ironic", check=provider_url)
    client_id: str = option("", "Name of this service at the provider. Not in Ironic")
    client_secret: str = option("", "Secret of this service at the provider; empty: a public client, by PKCE alone. Not in Ironic", secret=True)
    scopes: tuple[str, ...] = option(("openid", "profile"), "Scopes that a login requests; with openid. Not in Ironic")
    username_claim: str = option("preferred_username", "Claim with the name of a user who is created. Not in Ironic")
    groups_claim: str = option("groups", "Claim with the provider's groups of a user. Not in Ironic")
    group_map: dict[str, str] = option({}, "provider's group:local group pairs. A login makes the user a member of exactly those of these local groups. Not in Ironic")
    create_users: bool = option(False, "Create a user at the first login; without it, `ingot user create --subject` does. Not in Ironic")
    bearer_audience: str = option("", "Audience of the provider's JWTs that are accepted in Authorization: Bearer; empty: none are. Not in Ironic")
    cafile: str | None = option(None, "CA file for the provider; empty: the system's. Not in Ironic")
    timeout: float = seconds(5, "Seconds for the provider to answer. Not in Ironic", minimum=0.1)
    denied_networks: tuple[str, ...] = option(("0.0.0.0/8", "100.100.100.200/32", "168.63.129.16/32", "169.254.0.0/16", "192.0.0.192/32", "224.0.0.0/3", "fd00:ec2::/32", "fd20:ce::254/128", "fe80::/10", "ff00::/8"), "Networks to which no URL of the provider may lead. Not in Ironic", check=networks.parse)
    allowed_networks: tuple[str, ...] = option((), "The only networks to which these URLs may lead; empty: all but denied_networks. Not in Ironic", check=networks.parse)
# fmt: on
