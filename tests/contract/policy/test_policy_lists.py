"""Each list that a policy limits to the caller's project is read within that scope."""

from app.api.policy.access import Access
from app.api.policy.defaults import RULES
from app.api.policy.list_scope import ListScope
from app.server.application import BLUEPRINTS

#: Paths of these lists. An open stream would not end; see event_stream/test_stream_rights.py.
LISTS = sorted(
    route.path
    for blueprint in BLUEPRINTS
    for route in blueprint.declared
    if route.method == "GET" and f"{route.rule}_all" in RULES and not route.path.endswith("/stream")
)
#: Members of a scope by which a list is limited.
LIMITS = ("project", "is_narrow", "narrowed", "listable")


def test_each_list_is_read_within_the_scope_of_its_caller(guarded, monkeypatch):
    list_scope, reads = Access.list_scope, []

    class RecordingScope(ListScope):
        def __getattribute__(self, name):
            if name in LIMITS:
                reads.append(name)
            return super().__getattribute__(name)

    def recorded(access, rule):
        scope = list_scope(access, rule)
        return RecordingScope(scope.project) if scope.project else scope

    monkeypatch.setattr(Access, "list_scope", recorded)
    group = guarded.api("POST", "/v1/portgroups", {"node_uuid": guarded.node}).json["uuid"]
    chassis = guarded.api("POST", "/v1/chassis", {}).json["uuid"]
    assert len(LISTS) > 30
    for path in LISTS:
        ident = group if path.startswith("/v1/portgroups/") else guarded.node
        reads.clear()
        answer = guarded.ask(
            "owner-manager", "GET", path.replace("<ident>", ident).replace("<uuid>", chassis)
        )
        assert 200 == answer.status_code, (path, answer.text)
        assert reads, f"GET {path} lists rows of all projects"
