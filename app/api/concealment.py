"""Errors about a node: they quote its fields, also some that the caller may not see."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.api.answers import runtime
from app.api.auth import caller
from app.api.policy import enforce
from app.errors import NotFound, ServiceError
from app.inventory import nodes
from app.masking import HIDDEN, mask_urls, texts_in
from app.models import Node
from drivers.core.errors import HardwareError


def concealer(node: Node) -> Callable[[str], str]:
    """Return a function that masks values of a node in a message if the caller may not see them."""
    hidden = enforce.hidden_fields(node.owner, node.lessee)
    found = texts_in(node.driver_info) if "driver_info" in hidden else []
    if "reservation" in hidden and node.reservation:
        found.append(node.reservation)

    def conceal(text: str) -> str:
        for each in found:
            text = text.replace(each, HIDDEN)
        return mask_urls(text)

    return conceal


@contextmanager
def concealed_errors(ident: str | None) -> Iterator[None]:
    """Mask these values in an error of a request for a node; None: it is for none."""
    try:
        yield
    except (ServiceError, HardwareError) as error:
        if ident is not None:
            error.args = (_concealed(str(error), ident), *error.args[1:])
        raise


def _concealed(text: str, ident: str) -> str:
    if not caller().restricted:
        return mask_urls(text)
    with runtime().reading() as session:
        try:
            return concealer(nodes.find(session, ident))(text)
        except NotFound:
            return text
