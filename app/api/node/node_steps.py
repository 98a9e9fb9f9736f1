"""
Steps and agent in the document of a node: `clean_step`, `deploy_step`, `service_step`, and the keys
of `driver_internal_info` that Ironic stores in the node and this service in other tables.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from app.api.node import json_rows
from app.api.transport.responses import OPTIONS
from app.models import OperationStep
from app.planning.step_views import Progress, step_view
from app.text.masking import HIDDEN
from drivers.core.steps import Flow

#: Flows whose steps a node shows.
FLOWS = (Flow.CLEAN, Flow.DEPLOY, Flow.SERVICE)


def internal_info(document: str, agent: Mapping[str, Any], progress: Progress | None) -> str:
    """
    Add the agent and the steps in progress to the JSON text of `driver_internal_info`.

    agent: keys of the agent; None means no value, and the key is omitted.
    """
    facts = {name: value for name, value in agent.items() if value is not None}
    if "agent_secret_token" in facts:
        facts["agent_secret_token"] = HIDDEN
    if "agent_last_heartbeat" in facts:
        facts["agent_last_heartbeat"] = json_rows.iso(facts["agent_last_heartbeat"])
    for flow in FLOWS:
        steps = _steps(progress, flow)
        if steps:
            active_step = progress[1] if progress else None
            facts[f"{flow}_steps"] = [step_view(step) for step in steps]
            facts[f"{flow}_step_index"] = steps.index(active_step) if active_step in steps else None
    if not facts:
        return document
    return orjson.dumps(orjson.loads(document) | facts, option=OPTIONS).decode()


def _steps(progress: Progress | None, flow: Flow) -> list[OperationStep]:
    return [step for step in progress[2] if step.flow == flow] if progress else []
