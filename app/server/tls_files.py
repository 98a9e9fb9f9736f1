"""
TLS certificate of the API: files from the settings, and a check that they can be used.
"""

import ssl
from pathlib import Path

from app.config.settings import Api, SettingsError


def files(
    api: Api, setting: str = "[api]enable_ssl_api", *, enabled: bool | None = None
) -> tuple[Path, Path] | None:
    """
    Return the certificate chain and its key; None where the settings select plain HTTP.

    setting, enabled: the setting that selects HTTPS, and its value; the API's by default.

    Raises SettingsError: HTTPS is enabled, and a file is missing, unreadable, or they are no pair.
    """
    if not (api.enable_ssl_api if enabled is None else enabled):
        return None
    certificate, key = api.cert_file, api.key_file
    if not certificate or not key:
        option = "cert_file" if not certificate else "key_file"
        raise SettingsError(f"[api]{option} is not set, and {setting} needs it")
    for name, path in (("cert_file", certificate), ("key_file", key)):
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise SettingsError(f"[api]{name}: {path}: {error.strerror}") from None
    try:
        # without a passphrase OpenSSL would ask the terminal for one
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(
            f"[api]cert_file, [api]key_file: {certificate} and {key} are not a PEM certificate and"
            f" its unencrypted key: {getattr(error, 'reason', None) or error}"
        ) from None
    return Path(certificate), Path(key)
