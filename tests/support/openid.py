"""
An OpenID provider on loopback: discovery, keys, authorization with PKCE, tokens.

Its person is always signed in, so that a request for authorization is answered by a code at once.
A test makes it hostile by `twist`: name of a part -> function that changes it.
"""

import base64
import hmac
import json
import secrets
import time
from contextlib import contextmanager
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.support.web import Handler, serving

CLIENT, SECRET, AUDIENCE = "ingot", "the secret of the client", "ingot-api"
#: Keys, which take long to make: of the provider, its next one, and of a stranger.
KEY, NEXT, FOREIGN = (RSAKey.generate_key(2048, {"kid": name}) for name in ("one", "two", "one"))
PERSON = {"sub": "248289761001", "preferred_username": "jane", "groups": ["staff"]}


def unsigned(header, claims):
    """A JWT without signature, as `alg: none` has it."""
    return f"{_encoded({**header, 'alg': 'none'})}.{_encoded(claims)}."


def signed_with(secret, claims):
    """A JWT by HS256 with any bytes as its secret."""
    text = f"{_encoded({'alg': 'HS256', 'kid': KEY.kid})}.{_encoded(claims)}"
    return f"{text}.{_base64(hmac.digest(secret, text.encode(), 'sha256'))}"


def _encoded(document):
    return _base64(json.dumps(document).encode())


def _base64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class _Provider(Handler):
    def do_GET(self):
        self.server.requests.append(self.path)
        path, query = urlsplit(self.path).path, dict(parse_qsl(urlsplit(self.path).query))
        url = self.server.url
        if path == "/.well-known/openid-configuration":
            endpoints = {"authorization_endpoint": "authorize", "token_endpoint": "token",
                         "jwks_uri": "keys"}  # fmt: skip
            document = {name: f"{url}/{path}" for name, path in endpoints.items()}
            self._answer("document", {"issuer": url, **document})
        elif path == "/keys":
            keys = [key.as_dict(private=False, use="sig") for key in self.server.keys]
            self._answer("keys", {"keys": keys})
        elif path == "/authorize":
            code = secrets.token_urlsafe(16)
            self.server.codes[code] = query
            parameters = self._twisted(
                "return", {"code": code, "state": query["state"], "iss": url}
            )
            self.answer(
                302, headers={"Location": f"{query['redirect_uri']}?{urlencode(parameters)}"}
            )
        else:
            self.answer(404)

    def do_POST(self):
        self.server.requests.append(self.path)
        length = int(self.headers["Content-Length"])
        form = {
            name: values[0] for name, values in parse_qs(self.rfile.read(length).decode()).items()
        }
        client = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        authorization = self.server.codes.pop(form.get("code"), None)  # each is valid once
        if self.headers["Authorization"] != f"Basic {client}":
            self.answer(401, {"error": "invalid_client"})
        elif authorization is None or (
            authorization["redirect_uri"] != form["redirect_uri"]
            or authorization["code_challenge_method"] != "S256"
            or authorization["code_challenge"] != create_s256_code_challenge(form["code_verifier"])
        ):
            self.answer(400, {"error": "invalid_grant"})
        else:
            token = self.server.token(aud=CLIENT, nonce=authorization["nonce"])
            access = secrets.token_urlsafe(16)
            self._answer("tokens", {"access_token": access, "token_type": "Bearer",
                                    "expires_in": 300, "id_token": token})  # fmt: skip

    def _twisted(self, part, document):
        return self.server.twist.get(part, lambda document: document)(document)

    def _answer(self, part, document):
        answer = self._twisted(part, document)
        if callable(answer):
            answer(self)
        else:
            self.answer(200, answer)


@contextmanager
def provider(tls=None):
    """
    Run a provider; `requests` are the paths that it was asked for.

    tls: as of `serving`. token(**claims): a JWT of `person`. keys: those that it publishes; the first one signs.
    """
    with serving(
        _Provider, tls=tls, requests=[], codes={}, twist={}, keys=[KEY], person=dict(PERSON)
    ) as server:

        def token(key=None, header=None, **claims):
            now = int(time.time())
            payload = {"iss": server.url, "iat": now, "exp": now + 300, **server.person, **claims}
            payload = server.twist.get("claims", lambda payload: payload)(payload)
            signed = {"alg": "RS256", "kid": server.keys[0].kid, **(header or {})}
            sign = server.twist.get("sign", jwt.encode)
            return sign(signed, payload, key or server.keys[0])

        server.token = token
        yield server
