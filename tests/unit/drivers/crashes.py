"""Crashes of an attempt of a step, and the node as its next attempt has it."""

import json
from dataclasses import replace


class KeptProgress:
    """`Target.keep_progress` of one attempt; `progress` is the last one that it has kept."""

    def __init__(self):
        self.progress = None

    def __call__(self, progress):
        self.progress = json.loads(json.dumps(progress))


def attempt_of(node):
    """Return the node for an attempt of a step."""
    return replace(node, reports={}, keep_progress=KeptProgress())


def crashed(node):
    """Return the node after a crash of this attempt."""
    progress = node.keep_progress.progress
    return replace(
        node,
        resumed=True,
        crashes=node.crashes + 1,
        progress=node.progress if progress is None else progress,
    )
