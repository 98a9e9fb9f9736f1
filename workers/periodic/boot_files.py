"""
Removal of boot files that no node needs, such as those that a dead conductor has left.

Each conductor compares the files on its host with the states of their nodes in the database.
"""

from pathlib import Path

from sqlalchemy import select

from app.lifecycle.provision_states import MACHINE, WITHOUT_INSTANCE, Kind, State
from app.models import AgentRecord, Node
from app.observe import log
from app.runtime import Runtime
from drivers.builtin import image_cache, machine_files

logger = log.get(__name__)

#: Most nodes per query.
PAGE = 500


def sweep(runtime: Runtime) -> dict[str, int]:
    """Remove unused folders and cached images of this host; return how many of each."""
    folders = unused_folders(runtime)
    for folder in folders:
        machine_files.remove(runtime.settings.options(), folder)
    pxe = runtime.settings.pxe
    counts = {
        "folders": len(folders),
        "copies": image_cache.evict(
            Path(pxe.instance_master_path), pxe.image_cache_size, pxe.image_cache_ttl
        ),
    }
    if any(counts.values()):
        logger.info("boot_files.swept", **counts)
    return counts


def unused_folders(runtime: Runtime) -> list[Path]:
    """Return the folders of this host that no machine boots or fetches from."""
    # listed before the rows are read, so that folders which are created meanwhile are kept
    folders = machine_files.published_folders(runtime.settings.options())
    nodes = sorted({machine_files.node_of(folder) for folder in folders})
    needed: dict[str, set[str]] = {}
    with runtime.reading() as session:
        for start in range(0, len(nodes), PAGE):
            query = (
                select(Node.uuid, Node.provision_state, Node.reservation, AgentRecord.url)
                .outerjoin(AgentRecord, AgentRecord.node_id == Node.id)
                .where(Node.uuid.in_(nodes[start : start + PAGE]))
            )
            for uuid, state, reservation, agent in session.execute(query):
                busy = reservation is not None
                needed[uuid] = _uses(State(state), busy=busy, agent=agent is not None)
    return [
        folder
        for folder in folders
        if machine_files.use_of(folder) not in needed.get(machine_files.node_of(folder), ())
    ]


def _uses(state: State, *, busy: bool, agent: bool) -> set[str]:
    """Return the uses of files that a node in this state has; agent: an agent runs on it."""
    if busy or MACHINE[state].kind is not Kind.STABLE:
        return {*machine_files.USES}
    uses = set() if state in WITHOUT_INSTANCE else {machine_files.INSTANCE}
    return uses | ({machine_files.RAMDISK} if agent else set())
