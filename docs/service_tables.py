"""docs/policy.md, and tables of docs/metrics.md, operations.md and selection.md."""

from app.api.policy.defaults import SECTIONS
from app.metrics.kinds import OTHER
from app.metrics.table import METRICS
from app.selection.conditions import FIELDS
from app.selection.grammar import Kind
from docs.markdown import Lines, code, table
from docs.needs import NEEDS


def policy() -> Lines:
    yield "# Policy rules\n"
    yield "With `auth_strategy` `local` or `keystone`, every request is checked against rules."
    yield "Their names and defaults are Ironic's, and their language is that of"
    yield "[oslo.policy](https://docs.openstack.org/oslo.policy/latest/). YAML files"
    yield "replace single rules: `[oslo_policy]policy_file`, and files in"
    yield "`[oslo_policy]policy_dirs`. A changed file is read again within seconds. With `noauth`"
    yield "and `http_basic` every request is allowed, and only the rules for secrets apply.\n"
    yield "```yaml"
    yield "# owners decide when their machines are serviced, members of the system do not"
    yield '"baremetal:node:set_maintenance": "rule:owner_member"'
    yield "```\n"
    yield "The role `admin` includes `manager`, `manager` includes `member`, and `member` includes"
    yield "`reader`. A caller without read access to a node gets a 404; a caller with read access"
    yield "and without the right for the request gets a 403. Lists contain the nodes that the"
    yield "caller's project owns or leases, unless the rule `..._all` passes. A change of several"
    yield "fields needs the rule of each. `scope`: the kinds of tokens that can pass a rule, unless"
    yield "`[oslo_policy]enforce_scope` is off. [api.md](api.md) has the rule of each route.\n"
    for section, members in SECTIONS.items():
        yield f"## {section}\n"
        yield from table(
            ("rule", "action", "default", "scope"),
            (
                (
                    code(rule.name),
                    rule.guards,
                    code(rule.check) if rule.check else "any caller",
                    ", ".join(rule.scopes),
                )
                for rule in members
            ),
        )


def metrics() -> Lines:
    yield from table(
        ("metric", "kind", "meaning", "labels"),
        (
            (
                code(*metric.series[:1]) if metric.kind == "counter" else code(metric.name),
                metric.kind,
                f"{metric.about}.",
                " · ".join(f"{code(name)}: {values}" for name, values in metric.labels.items()),
            )
            for metric in METRICS
        ),
    )
    yield f"Label values are from closed sets; `{OTHER}` stands for all further ones.\n"


def role_needs() -> Lines:
    yield from table(
        ("role", "needs", "proven by", "its loss is known within", "without it"),
        ((need.role, need.need, need.proof, need.within, need.without) for need in NEEDS),
    )


def selection_fields() -> Lines:
    yield from table(
        ("field", "kind", "selects by", "values", "free words"),
        (
            (
                code(field.name),
                next(name.lower() for name, kind in Kind.__members__.items() if kind is field.kind),
                field.about,
                ", ".join(map(code, field.choices)),
                "yes" if field.free else "",
            )
            for field in FIELDS
        ),
    )
