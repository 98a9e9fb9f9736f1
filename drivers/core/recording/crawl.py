"""
The crawl of a BMC's documents: breadth first along their links, within limits.

The caller asks for the answers; the crawl chooses the paths, of documents only. Logs, accounts,
sessions and certificates are left out, as they describe the owner, and schemas.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from drivers.core.recording.bundle import MOST_ANSWERS, Answer, Recording, links

START = ("/redfish", "/redfish/v1/")
#: Most paths of one request for answers.
BATCH = 32
#: Paths that are left out.
LEFT_OUT = re.compile(
    r"/(LogServices/[^/]+|Accounts|Sessions|Certificates|JsonSchemas|Subscriptions|Jobs|Tasks"
    r"|TelemetryService/[^/]+)/.|\$metadata|/Registries/(?!.*(attribute|bios)).*[./]json",
    re.IGNORECASE,
)

#: Returns the answers to some of the paths, at least one; the others are asked for again.
ReadDocuments = Callable[[Sequence[str]], Sequence[Answer]]


@dataclass(slots=True)
class Limits:
    """Limits of a crawl."""

    documents: int = 3000
    size: int = 32 << 20  # bytes of all bodies
    seconds: float = 1800.0
    _end: float = field(default=0.0, init=False)

    def begin(self) -> None:
        self._end = time.monotonic() + self.seconds

    def reached(self, answers: Sequence[Answer]) -> str | None:
        """Return the limit that is reached, or None."""
        if len(answers) >= min(self.documents, MOST_ANSWERS):
            return f"{len(answers)} documents"
        if sum(len(answer.body) for answer in answers) >= self.size:
            return f"{self.size >> 20} MiB"
        return f"{self.seconds:g} s" if time.monotonic() >= self._end else None


def crawl(
    read_documents: ReadDocuments, origin: str, system: str | None, limits: Limits
) -> Iterator[Recording]:
    """
    Yield the recording after each request for answers; the last one is whole.

    origin: scheme, host and port of the BMC. system: path of the node's system, if it is known.
    """
    queue = list(dict.fromkeys([*START, *([system] if system else [])]))
    known_paths, documents = set(queue), {_document(path) for path in queue}
    answers, unanswered = list[Answer](), list[str]()
    limits.begin()
    while queue and limits.reached(answers) is None:
        batch = read_documents(queue[: min(BATCH, limits.documents - len(answers))])
        answered_paths = {answer.path for answer in batch}
        queue = [path for path in queue if path not in answered_paths]
        for answer in batch:
            if not answer.status:
                unanswered.append(answer.path)
                continue
            answers.append(answer)
            for path in links(answer, origin):
                is_new = _document(path) not in documents or answer.status in range(300, 400)
                if path not in known_paths and is_new and not LEFT_OUT.search(path):
                    known_paths.add(path)
                    documents.add(_document(path))
                    queue.append(path)
        yield Recording(answers, system, [*unanswered, *queue])


def _document(path: str) -> str:
    """Return the path of a document in one form: a final slash leads to the same document."""
    path_part, separator, query = path.partition("?")
    return f"{path_part.rstrip('/')}{separator}{query}"
