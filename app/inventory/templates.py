"""
Deploy templates: steps that are added to the deployments of instances with a trait of their name.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.errors import Invalid
from app.inventory import traits
from app.models import DeployTemplate, Node
from app.rows import row_changes


def create(session: Session, fields: Mapping[str, Any]) -> DeployTemplate:
    """
    Create a template. `fields` have the API's names, and were validated against its schema.

    Raises AlreadyExists.
    """
    return row_changes.add(session, row_changes.make(DeployTemplate, fields))


def steps_of(session: Session, node: Node) -> list[dict[str, object]]:
    """
    Return the steps of the deploy templates that match the traits of the node's instance.

    Raises Invalid: the instance's traits are not a list of texts, the node lacks one of them, or
    two templates have the same step.
    """
    trait_names = node.instance_info.get("traits") or []
    if not trait_names:
        return []
    if not isinstance(trait_names, list) or not all(
        isinstance(trait, str) for trait in trait_names
    ):
        raise Invalid(
            f"Error parsing traits from Node {node.uuid} instance_info field. A list of strings is"
            " expected."
        )
    lacking = sorted(set(trait_names) - set(traits.of_node(session, node)))
    if lacking:
        raise Invalid(
            "instance_info/traits: Cannot specify instance traits that are not also set on the"
            f" node. Node {node.uuid} is missing traits {', '.join(lacking)}"
        )
    matching_templates = session.scalars(
        select(DeployTemplate)
        .where(DeployTemplate.name.in_(trait_names))
        .order_by(DeployTemplate.id)
    ).all()
    steps = [step for template in matching_templates for step in template.steps]
    counts = Counter((step["interface"], step["step"]) for step in steps)
    twice = [".".join(step) for step, count in counts.items() if count > 1]
    if twice:
        names = ", ".join(template.name for template in matching_templates)
        raise Invalid(f"deploy templates {names}: more than one has {', '.join(twice)}")
    return steps
