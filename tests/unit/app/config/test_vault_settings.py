"""Settings of the vault are refused at the start, with the option and what would be right."""

import pytest

from app.config.options import SettingsError
from app.config.settings import load

ADDRESS = {"INGOT_VAULT_ADDRESS": "https://vault.example:8200"}


@pytest.mark.parametrize(
    ("method", "option"),
    [("approle", "role_id"), ("token", "token_file"), ("kubernetes", "kubernetes_role")],
)
def test_a_login_needs_its_option(method, option):
    environ = {**ADDRESS, "INGOT_VAULT_AUTH_METHOD": method}
    with pytest.raises(SettingsError, match=rf"\[vault\]{option}: .*{method} needs it"):
        load(environ)
    assert getattr(load({**environ, f"INGOT_VAULT_{option.upper()}": "x"}).vault, option) == "x"


@pytest.mark.parametrize(
    "path", ["", "/a", "a/", "a//b", "a/../b", "a/.", "a?b", "a b", "ä", "a%2f"]
)
@pytest.mark.parametrize("option", ["MOUNT", "PREFIX"])
def test_a_path_has_no_meaning_in_urls(option, path):
    with pytest.raises(SettingsError, match=f"INGOT_VAULT_{option}: "):
        load({f"INGOT_VAULT_{option}": path})


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:8200", "http://[::1]:8200", "http://localhost"]
)
def test_plain_http_leads_to_this_host_only(address):
    role = {"INGOT_VAULT_ROLE_ID": "r"}
    assert address == load({**role, "INGOT_VAULT_ADDRESS": address}).vault.address
    with pytest.raises(SettingsError, match="INGOT_VAULT_ADDRESS: expected https://HOST:PORT"):
        load({**role, "INGOT_VAULT_ADDRESS": "http://192.0.2.1:8200"})


def test_the_secret_id_comes_from_a_file(tmp_path):
    (tmp_path / "id").write_text("s1\n")
    environ = {**ADDRESS, "INGOT_VAULT_ROLE_ID": "r"}
    vault = load({**environ, "INGOT_VAULT_SECRET_ID_FILE": str(tmp_path / "id")}).vault
    assert "s1" == vault.secret_id
