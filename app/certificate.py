"""
The certificate that the API serves HTTPS with: which files, and whether they can be used.
"""

import ssl
from pathlib import Path

from app.config.settings import Api, SettingsError


def files(api: Api) -> tuple[Path, Path] | None:
    """
    The certificate chain and its key; None where plain HTTP is asked for.

    Raises SettingsError when HTTPS is asked for and they are missing, unreadable or no pair.
    """
    if not api.enable_ssl_api:
        return None
    certificate, key = api.cert_file, api.key_file
    if not certificate or not key:
        missing = "cert_file" if not certificate else "key_file"
        raise SettingsError(f"[api]{missing} is not set, and [api]enable_ssl_api needs it")
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
