"""
Redaction of values of a node in errors and virtual media.

Also the check that a new address brings its own password.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from app.api.policy.masking import SHOWN_BY
from app.api.request.context import RequestContext
from app.engine.rpc import RemoteError
from app.errors import BadGateway, GatewayTimeout, Invalid, NotFound, ServiceError
from app.inventory import nodes
from app.models import Node
from app.rows.json_patch import Change
from app.text.masking import HIDDEN, is_secret, mask_urls, texts_in
from drivers.core.errors import HardwareError

#: Error of a machine for callers who may not see `last_error` of its node.
MACHINE_FAILED = (
    "The machine or its BMC failed, or did not answer; its words are shown to callers who may see"
    " last_error of the node."
)
#: End of an address's key -> prefixes of the keys of its secrets; by default the address's own.
_SECRETS_OF = {"_address": (), "image_source": ("image_server_", "image_pull_")}


def concealer(context: RequestContext, node: Node) -> Callable[[str], str]:
    """Return a function that masks values of a node in a message if the caller may not see them."""
    hidden = context.access.hidden_fields(node.owner, node.lessee)
    texts = texts_in(node.driver_info) if "driver_info" in hidden else []
    if "reservation" in hidden and node.reservation:
        texts.append(node.reservation)

    def conceal(text: str) -> str:
        for hidden_text in texts:
            text = text.replace(hidden_text, HIDDEN)
        return mask_urls(text)

    return conceal


@contextmanager
def concealed_errors(context: RequestContext, ident: str | None) -> Iterator[None]:
    """
    Mask values of a node in an error of a request for it.

    ident: None for a request for another resource; only an error about a locked node has values
    then.
    """
    try:
        yield
    except (ServiceError, HardwareError) as error:
        node_ident = ident or getattr(error, "node", None)
        if node_ident is not None:
            error.args = (_concealed(context, error, node_ident), *error.args[1:])
        raise


def _concealed(context: RequestContext, error: Exception, ident: str) -> str:
    text = str(error)
    if not context.caller.restricted:
        return mask_urls(text)
    with context.runtime.reading() as session:
        try:
            node = nodes.find(session, ident)
        except NotFound:
            return text
        if _quotes_machine(error) and "last_error" in context.access.hidden_fields(
            node.owner, node.lessee
        ):
            return MACHINE_FAILED
        return concealer(context, node)(text)


def _quotes_machine(error: Exception) -> bool:
    """Whether an error may have the words of a machine or its BMC."""
    failures = (BadGateway.status, GatewayTimeout.status)
    return isinstance(error, RemoteError) and error.status in failures


def concealed_media(
    context: RequestContext, media: Sequence[Mapping[str, Any]], ident: str
) -> list[dict[str, Any]]:
    """
    Mask the images of a node's virtual media.

    The URL of a boot medium gives its reader the token of the agent, so callers who may not see
    `driver_internal_info` see no image; others see none of its credentials.
    """
    with context.runtime.reading() as session:
        node = nodes.find(session, ident)
        hidden = "driver_internal_info" in context.access.hidden_fields(node.owner, node.lessee)
    return [
        {**medium, "image": (hidden and medium["image"] and HIDDEN) or mask_urls(medium["image"])}
        for medium in media
    ]


def check_kept_secrets(
    context: RequestContext, node: Node, changes: Sequence[Change], values: Mapping[str, Any]
) -> None:
    """
    Check that a caller of a project directs no secret to another server without knowing it.

    node: before the changes. values: field -> its new value.

    Raises Invalid: a new address needs its password again.
    """
    if context.caller.project_id is None:
        return
    paths = {change.path[:2] for change in changes}
    for field, address in (path for path in paths if len(path) == 2 and (path[0],) not in paths):
        end = next((suffix for suffix in _SECRETS_OF if address.endswith(suffix)), None)
        if field not in SHOWN_BY or end is None or context.access.shows_secrets(SHOWN_BY[field]):
            continue
        old_document, new_document = getattr(node, field), values[field] or {}
        if _server(new_document.get(address)) in ("", _server(old_document.get(address))):
            continue
        prefixes = _SECRETS_OF[end] or (address.removesuffix("address"),)
        for name in new_document:
            if name.startswith(prefixes) and is_secret(name) and (field, name) not in paths:
                raise Invalid(
                    f"{field}/{address}: a new value needs {name} again, as it is sent there"
                )


def _server(address: object) -> str:
    """Return an address without a path."""
    scheme, _, location = str(address or "").rpartition("://")
    return f"{scheme}://{location.partition('/')[0]}" if location else ""
