"""Files of the service's pages: with entity tags, for every caller, without data of the fleet."""

import gzip
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

from flask import Response, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from app.api.transport.errors import ORIGINAL_PATH
from app.api.web import page_scripts

View = Callable[[], AnyResponse]

#: Ending of the name of a served file -> its content type.
KINDS = {
    ".css": "text/css", ".html": "text/html", ".js": "text/javascript",
    ".json": "application/json", ".svg": "image/svg+xml", ".txt": "text/plain",
}  # fmt: skip
#: Browsers ask for a file each time, and get it again only if it has changed.
CACHING = "no-cache"
#: Of an address with the digest of the content, which never has another one.
FOREVER = "public, max-age=31536000, immutable"
#: Parameter of an address with the digest of the content.
DIGEST = "v"
#: Bytes from which a file is also kept compressed.
WORTH_COMPRESSING = 1000


def views(
    path: str, folder: Path, index_file: str, *entries: str, **contents: bytes
) -> Mapping[str, View]:
    """
    Return path -> view of the files of a page.

    path: of the page itself, whose file is `index_file`; other files are below it. entries: modules
    that are each served as one script with those that it imports. contents: name of a JSON file ->
    its content, for files that are not in the folder.
    """
    files = {
        file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.suffix in KINDS
    }
    files |= {f"{name}.json": content for name, content in contents.items()}
    modules = {name: text.decode() for name, text in files.items() if name.endswith(".js")}
    scripts = {entry: page_scripts.joined(modules, entry).encode() for entry in entries}
    for entry in entries:
        for name in page_scripts.names(modules, entry):
            files.pop(name, None)
    files |= scripts
    index = _with_digests(files.pop(index_file).decode(), files).encode()
    return {
        path: _view(path.removeprefix("/"), index_file, index),
        **{f"{path}/{name}": _view(path, name, content) for name, content in files.items()},
    }


def _with_digests(index: str, files: Mapping[str, bytes]) -> str:
    """Add the digests of the contents to the addresses of the page's own files."""

    def address(match: re.Match[str]) -> str:
        name = match[2]
        return f'{match[1]}{name}?{DIGEST}={_digest(files[name])}"' if name in files else match[0]

    return re.sub(r'((?:src|href)="[\w-]+/)([\w.-]+)"', address, index)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]


def _view(path: str, name: str, content: bytes) -> View:
    kind = f"{KINDS[Path(name).suffix]}; charset=utf-8"
    digest = _digest(content)
    packed = gzip.compress(content, mtime=0) if len(content) >= WORTH_COMPRESSING else None

    def view() -> AnyResponse:
        if request.environ[ORIGINAL_PATH].endswith("/"):  # relative addresses would be wrong
            return redirect(f"../{path}", 308)
        # the page of another release has another digest: its browser must not keep this content
        caching = FOREVER if request.args.get(DIGEST) == digest else CACHING
        response = Response(content, content_type=kind, headers={"Cache-Control": caching})
        if packed is not None:
            response.vary.add("Accept-Encoding")
            if request.accept_encodings["gzip"]:
                response.set_data(packed)
                response.content_encoding = "gzip"
        response.add_etag()
        return response.make_conditional(request)

    view.__name__ = f"{path}_{name}"
    return view
