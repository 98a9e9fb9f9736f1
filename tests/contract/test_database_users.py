"""The user of the API in PostgreSQL: all routes work with its rights, and it has no others."""

import itertools
from dataclasses import replace

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import ProgrammingError

from app import runtime as app_runtime
from app.api.request.context import services_of
from app.db import connections
from app.identity import oidc_users
from app.inventory import event_subscriptions
from app.models import ApiToken, EventSubscription, Membership, Node, User
from app.server.application import BLUEPRINTS, create_app
from tests.contract import test_fuzz
from tests.contract.conftest import Api
from tests.contract.direct_calls import DirectCalls
from tests.contract.test_audit_records import BODIES, filled, status_of, writes
from tests.contract.test_fuzz import MAC, RIGHT, uuid
from tests.support.database_users import grant, url_of
from tests.support.local_users import PASSWORD, Directory

restore = test_fuzz.restore
pytestmark = pytest.mark.parametrize("kind", ["postgresql"])


@pytest.fixture
def limited(api, kind):
    """Make an application on the same database, as the user of the API."""
    url = api.runtime.settings.database.connection
    grant(url, INGOT_OIDC_GROUP_MAP="external:operators")
    runtimes = []

    def make(**default):
        settings = api.runtime.settings
        settings = replace(
            settings,
            database=replace(settings.database, connection=url_of("api", url)),
            default=replace(settings.default, **default),
        )
        runtime = app_runtime.make(settings, send=lambda _message: True)
        runtime.calls = DirectCalls(runtime)
        runtimes.append(runtime)
        return Api(create_app(runtime).test_client(), runtime, [])

    yield make
    for runtime in runtimes:
        runtime.engine.dispose()


def test_each_route_that_writes_works(restore, api, limited):
    wrong, application = [], limited()
    for method, path in writes():
        restore()
        api.set(uuid("n1"), power_state="power off")
        body = BODIES.get(f"{method} {path}", RIGHT.get(path.replace("<", "{").replace(">", "}")))
        answer = application(method, filled(path), body)
        services_of(application.client.application).refused_requests.flush()
        refused = status_of(method, path)
        if answer.status_code != refused and answer.status_code >= 400:
            wrong.append((method, path, answer.status_code, answer.text[:300]))
    assert [] == wrong, "\n".join(map(str, wrong))


def test_each_route_that_reads_answers_as_it_does_to_the_owner_of_the_tables(restore, api, limited):
    application, wrong = limited(), []
    for route in itertools.chain.from_iterable(blueprint.declared for blueprint in BLUEPRINTS):
        if route.method == "GET" and not route.path.endswith("/events/stream"):  # it does not end
            expected, answer = (client("GET", filled(route.path)) for client in (api, application))
            if expected.status_code != answer.status_code or answer.status_code >= 500:
                wrong.append((route.path, expected.status_code, answer.text[:300]))
    assert [] == wrong, "\n".join(map(str, wrong))


def test_agents_are_answered(restore, api, limited):
    application = limited()
    api.set(uuid("n1"), provision_state="inspect wait")
    answer = application("GET", f"/v1/lookup?addresses={MAC}")
    assert 200 == answer.status_code, answer.text
    body = {"callback_url": "https://127.0.0.1:9", "agent_version": "9", "agent_token": "secret"}
    accepted = application("POST", f"/v1/heartbeat/{uuid('n1')}", body)
    assert 202 == accepted.status_code, accepted.text


def test_events_of_bmcs_are_taken_and_a_deleted_node_leaves_its_bmc(restore, api, limited):
    redfish = replace(api.runtime.settings.redfish, event_receiver_url="https://ingot.example")
    application = limited()
    application.runtime.settings = replace(application.runtime.settings, redfish=redfish)
    alone = api.node(name="alone")
    with api.runtime.transaction() as session:
        node_id = session.scalar(select(Node.id).where(Node.uuid == alone["uuid"]))
        digest = event_subscriptions.digest("secret")
        session.add(EventSubscription(node_id=node_id, digest=digest))
    body = {"Events": [{"MessageId": "X.1.0.PowerLost", "Severity": "Critical"}]}
    answer = application("POST", f"/v1/redfish_events/{alone['uuid']}/secret", body)
    assert 204 == answer.status_code, answer.text
    deleted = application("DELETE", "/v1/nodes/alone")
    assert 204 == deleted.status_code, deleted.text
    with api.runtime.reading() as session:
        departed = session.scalars(select(EventSubscription)).one()
    assert (None, alone["uuid"]) == (departed.node_id, departed.departed["uuid"])


def test_users_sign_in_and_out(api, limited):
    directory = Directory(api.runtime.transaction)
    directory.user("ann", ("reader", None))
    directory.group("operators")
    directory.grant("member", group="operators")
    application = limited(auth_strategy="local")
    token = directory.token("ann")
    for _ in range(2):  # the first request records the use of the token
        assert 200 == application("GET", "/v1/nodes", **{"X-Auth-Token": token}).status_code
    begun = application("POST", "/v1/login", {"username": "ann", "password": PASSWORD})
    assert 200 == begun.status_code, begun.text
    ended = application("POST", "/v1/logout", Origin="http://localhost")
    assert 204 == ended.status_code, ended.text
    with api.runtime.reading() as session:
        used, revoked = zip(
            *session.execute(
                select(ApiToken.used_at, ApiToken.revoked_at).order_by(ApiToken.id)
            ).all(),
            strict=True,
        )
    assert used[0]
    assert revoked[1]


def test_people_of_a_provider_get_users_and_groups(api, limited):
    Directory(api.runtime.transaction).group("operators")
    Directory(api.runtime.transaction).grant("reader", group="operators")
    oidc = replace(api.runtime.settings.oidc, create_users=True)
    application = limited(auth_strategy="local")
    for names in ({"operators"}, set()):  # the second login ends the membership
        groups = oidc_users.Provided(names=frozenset(names), managed=frozenset({"operators"}))
        person = oidc_users.Person(uuid("jane"), "jane", groups)
        with application.runtime.transaction() as session:
            assert person.uuid == oidc_users.sign_in(session, oidc, person).uuid
    with api.runtime.reading() as session:
        assert ["jane"] == list(session.scalars(select(User.name)))
        assert [] == list(session.scalars(select(Membership.user_id)))


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        ("api", "ALTER TABLE nodes ADD COLUMN x int"), ("api", "DROP TABLE audit"),
        ("api", "CREATE TABLE x (y int)"), ("api", "TRUNCATE nodes"),
        ("api", "DELETE FROM audit"), ("api", "UPDATE audit SET user_name = 'x'"),
        ("api", "INSERT INTO role_assignments (role, user_id) VALUES ('admin', 1)"),
        ("api", "UPDATE users SET password_hash = 'x'"), ("api", "UPDATE users SET enabled = true"),
        ("api", "UPDATE api_tokens SET user_id = 1"), ("api", "DELETE FROM data_keys"),
        ("api", "SELECT * FROM watermark"), ("api", "SELECT * FROM alembic_version"),
        ("conductor", "SELECT password_hash FROM users"), ("conductor", "SELECT name FROM users"),
        ("conductor", "SELECT digest FROM api_tokens"), ("conductor", "SELECT user_name FROM audit"),
        ("conductor", "INSERT INTO data_keys (id) VALUES ('x')"), ("conductor", "DROP TABLE nodes"),
        ("beat", "SELECT driver_info FROM nodes"), ("beat", "UPDATE nodes SET maintenance = true"),
        ("beat", "SELECT * FROM users"), ("beat", "SELECT secret FROM webhooks"),
    ],
)  # fmt: skip
def test_a_user_may_do_no_more(api, role, statement):
    url = api.runtime.settings.database.connection
    grant(url, INGOT_OIDC_GROUP_MAP="external:operators")
    engine = connections.connect(url_of(role, url))
    try:
        with (
            engine.connect() as connection,
            pytest.raises(ProgrammingError, match=r"permission denied|must be owner"),
        ):
            connection.execute(text(statement))
    finally:
        engine.dispose()


def test_rights_that_an_earlier_release_gave_end_with_the_next_grants(api):
    url = api.runtime.settings.database.connection
    grant(url, INGOT_OIDC_GROUP_MAP="external:operators")
    with api.runtime.write_connection() as connection:
        connection.execute(text("GRANT ALL ON users TO ingot_conductor"))
        connection.execute(text("GRANT SELECT (digest) ON api_tokens TO ingot_conductor"))
    grant(url, INGOT_OIDC_GROUP_MAP="external:operators")
    test_a_user_may_do_no_more(api, "conductor", "SELECT password_hash FROM users")
    test_a_user_may_do_no_more(api, "conductor", "SELECT digest FROM api_tokens")
