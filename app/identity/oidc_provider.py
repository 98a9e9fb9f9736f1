"""
OpenID provider: its documents and keys, the exchange of a code, the verification of its JWTs.

The issuer is a setting. All other URLs are from its documents, so they are checked, and each answer
is limited in size and time. A JWT is untrusted until its signature, issuer, audience and times are
verified.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from authlib.common.errors import AuthlibBaseError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken
from authlib.oidc.discovery import get_well_known_url
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError
from joserfc.jwk import KeySet, import_key

from app.config.identity_settings import Oidc
from app.config.option_types import provider_url
from app.errors import ServiceError, Unauthorized, Unavailable
from app.observe import log
from app.requests.request_slots import Places, yielding_slot
from drivers.net import answers
from drivers.net.networks import Reach

logger = log.get(__name__)

Claims = Mapping[str, object]
T = TypeVar("T")

#: Accepted signatures. Those with a shared secret are none: the secret of a client is no key.
ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
#: Seconds for which a document is used, and until it is requested again after an attempt.
AGE, PAUSE = 3600, 30
#: Seconds by which the clocks of provider and service may differ.
LEEWAY = 60
#: Bytes of an answer, characters of a JWT, keys.
LONGEST, LONGEST_JWT, MOST_KEYS = 1 << 20, 16_384, 100
#: Requests of a process that may wait for the provider.
WAITING = 16
#: Fields of the provider's document: URLs.
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
NAME = "the OpenID provider"
SILENT = "The OpenID provider did not answer as it must; retry later."


class Provider:
    """The provider of the settings."""

    def __init__(self, oidc: Oidc, now: Callable[[], int]) -> None:
        """now: returns the time of the database, in seconds since the epoch."""
        self._oidc, self._now = oidc, now
        self._places = Places(WAITING)
        self._reach = Reach(
            "[oidc]issuer", "[oidc]allowed_networks", "[oidc]denied_networks",
            oidc.allowed_networks, oidc.denied_networks,
        )  # fmt: skip
        self._document: _Kept[dict[str, object]] = _Kept(self._places)
        self._keys: _Kept[KeySet] = _Kept(self._places)

    def login_url(self, redirect: str, state: str, nonce: str, verifier: str) -> str:
        """
        Return the URL at which a browser signs in. redirect: to which it returns with a code.

        verifier: of PKCE; the URL has its digest.

        Raises Unavailable: the provider does not answer as it must.
        """
        with self._client(redirect) as client:
            url, _ = client.create_authorization_url(
                self._endpoint("authorization_endpoint"),
                state=state, code_verifier=verifier, nonce=nonce,
            )  # fmt: skip
        return str(url)

    def claims_of_code(self, redirect: str, code: str, nonce: str, verifier: str) -> Claims:
        """
        Exchange a code for an ID token; return its claims.

        Raises Unauthorized: the provider refuses the code, or the token is not valid.
        Raises Unavailable: the provider does not answer as it must.
        """
        endpoint = self._endpoint("token_endpoint")
        with self._client(redirect) as client, yielding_slot(self._places.hold()), _asking():
            answers.bind(client, self._adapter(endpoint))
            try:
                response = client.fetch_token(
                    endpoint, grant_type="authorization_code", code=code, code_verifier=verifier,
                    allow_redirects=False, timeout=self._oidc.timeout, verify=self._verify,
                )  # fmt: skip
            except AuthlibBaseError as error:
                logger.warning("oidc.code_refused", error=str(error.error)[:200])
                raise Unauthorized("The OpenID provider refused the code of the login.") from None
        text = response.get("id_token")
        claims = self._verified(text, self._oidc.client_id)
        _validate(CodeIDToken(claims.claims, claims.header, params={
            "nonce": nonce, "client_id": self._oidc.client_id,
            "access_token": response.get("access_token"),
        }), self._now(), LEEWAY)  # fmt: skip
        return claims.claims

    def claims_of_bearer(self, text: str) -> Claims:
        """
        Verify a JWT of a request for `[oidc]bearer_audience`; return its claims.

        Raises Unauthorized, Unavailable.
        """
        return self._verified(text, self._oidc.bearer_audience).claims

    def _verified(self, text: object, audience: str) -> jwt.Token:
        """Verify signature, issuer, audience and times. Raises Unauthorized, Unavailable."""
        if not isinstance(text, str) or len(text) > LONGEST_JWT:
            raise _refusal(f"a JWT of at most {LONGEST_JWT} characters is needed")
        keys = self._key_set()
        try:
            token = _decode(text, keys)
        except InvalidKeyIdError:  # the provider may have a new key
            try:
                token = _decode(text, self._key_set(other_than=keys))
            except InvalidKeyIdError as error:
                raise _refusal("no key of the provider signed it") from error
        rules = jwt.JWTClaimsRegistry(
            now=self._now(),
            leeway=LEEWAY,
            iss={"essential": True, "value": self._oidc.issuer},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
            sub={"essential": True},
        )
        _validate(rules, token.claims)
        return token

    def _endpoint(self, name: str) -> str:
        return str(self._document.get(self._read_document)[name])

    def _key_set(self, other_than: KeySet | None = None) -> KeySet:
        url = self._endpoint("jwks_uri")
        return self._keys.get(lambda: self._read_keys(url), other_than)

    def _read_document(self) -> dict[str, object]:
        document = self._get(get_well_known_url(self._oidc.issuer, external=True))
        if document.get("issuer") != self._oidc.issuer:
            raise ValueError(f"its document names another issuer: {document.get('issuer')!r:.200}")
        for name in ENDPOINTS:
            url = document.get(name)
            if not isinstance(url, str):
                raise TypeError(f"{name}: it is missing")
            if urlsplit(url).scheme != urlsplit(self._oidc.issuer).scheme:
                raise ValueError(f"{name}: its scheme is not that of the issuer")
            provider_url(url.partition("?")[0])
        return document

    def _read_keys(self, url: str) -> KeySet:
        documents = self._get(url).get("keys")
        if not isinstance(documents, list) or len(documents) > MOST_KEYS:
            raise ValueError(f"keys: expected at most {MOST_KEYS}")
        keys = []
        for document in documents:
            with suppress(Exception):  # of a kind that the library does not know, or malformed
                keys.append(import_key(document))
        return KeySet(keys)

    def _adapter(self, url: str) -> answers.MachineAdapter:
        return answers.MachineAdapter(url, NAME, self._reach, LONGEST)

    def _get(self, url: str) -> dict[str, object]:
        with answers.session(self._adapter(url)) as session:
            answer = session.get(
                url, allow_redirects=False, timeout=self._oidc.timeout, verify=self._verify
            )
            if answer.status_code != 200:
                raise ValueError(f"status {answer.status_code}")
            document = answers.parsed(NAME, answer.content)
        if not isinstance(document, dict):
            raise TypeError("it did not send an object")
        return document

    @contextmanager
    def _client(self, redirect: str) -> Iterator[OAuth2Session]:
        oidc = self._oidc
        with OAuth2Session(
            oidc.client_id, oidc.client_secret or None, scope=" ".join(oidc.scopes),
            redirect_uri=redirect, code_challenge_method="S256",
        ) as client:  # fmt: skip
            yield client

    @property
    def _verify(self) -> bool | str:
        return self._oidc.cafile or True


class _Kept(Generic[T]):
    """
    A document that is read when it is needed, and again after `AGE`.

    While one thread reads it, others wait in `places`: the provider gets one request.
    """

    def __init__(self, places: Places) -> None:
        self._places, self._lock = places, threading.Lock()
        self._document: T | None = None
        self._at = self._tried_at = -float("inf")  # times of the last success and attempt

    def get(self, read: Callable[[], T], other_than: T | None = None) -> T:
        """
        Return the document. other_than: one that lacks something; a newer one is read.

        Within `PAUSE` after an attempt there is no other one: anyone can send a JWT with an unknown
        key.

        Raises Unavailable: it cannot be read, or too many requests wait for it.
        """
        document = self._document
        if document is not None and document is not other_than and self._is_fresh():
            return document
        with yielding_slot(self._places.hold()), self._lock:
            must_read = (
                self._document is None or self._document is other_than or not self._is_fresh()
            )
            if must_read and time.monotonic() - self._tried_at >= PAUSE:
                self._tried_at = time.monotonic()
                with _asking():
                    self._document = read()
                self._at = self._tried_at
            if self._document is None or not self._is_fresh():
                raise Unavailable(SILENT)
            return self._document

    def _is_fresh(self) -> bool:
        return time.monotonic() - self._at < AGE


@contextmanager
def _asking() -> Iterator[None]:
    """Raise Unavailable for each failure of the provider."""
    try:
        yield
    except ServiceError:
        raise
    except Exception as error:  # it may be hostile, and the libraries' errors have no common base
        logger.warning("oidc.provider_failed", error=f"{type(error).__name__}: {error}"[:500])
        raise Unavailable(SILENT) from error


def _decode(text: str, keys: KeySet) -> jwt.Token:
    """Verify a signature. Raises InvalidKeyIdError, Unauthorized."""
    try:
        return jwt.decode(text, keys, algorithms=ALGORITHMS)
    except InvalidKeyIdError:
        raise
    except Exception as error:  # an untrusted text may break the parsers in any way
        raise _refusal("its signature cannot be verified") from error


def _validate(claims: Any, *arguments: Any) -> None:
    """Check claims. Raises Unauthorized: with the name of the wrong one."""
    try:
        claims.validate(*arguments)
    except Exception as error:  # claims of unexpected types
        name = getattr(error, "claim", None) or "its claims"
        raise _refusal(f"{name} is wrong, is missing, or has expired") from error


def _refusal(reason: str) -> Unauthorized:
    return Unauthorized(f"The OpenID provider's token is refused: {reason}.")
