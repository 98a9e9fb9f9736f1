"""
Table of all rude faults, and the answer of a BMC with some of them.
"""

from functools import partial

from drivers.simulator.rude import boot, parts, power_faults, tasks, transport
from drivers.simulator.rude.row import Bmc, Exchange, Row
from drivers.simulator.server import Request, Response

#: All faults by name, outermost first: faults of encodings see the answers of faults of documents.
ROWS: dict[str, Row] = {
    **transport.FAULTS,
    **tasks.FAULTS,
    **power_faults.FAULTS,
    **boot.FAULTS,
    **parts.FAULTS,
}


def answer(bmc: Bmc, request: Request) -> Response:
    """Answer a request as the machine's BMC does with its rude faults."""
    faults = list(bmc.machine.faults.rude.items())

    def answer_from(position: int, request: Request) -> Response:
        if position == len(faults):
            return bmc.answer(request)
        name, options = faults[position]
        next_answer = partial(answer_from, position + 1)
        return ROWS[name].act(Exchange(bmc, request, ROWS[name], options, next_answer))

    return answer_from(0, request)
