"""Files of the service's pages: with entity tags, for every caller, without data of the fleet."""

from collections.abc import Callable, Mapping
from pathlib import Path

from flask import Response, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from app.api.transport.errors import ORIGINAL_PATH

View = Callable[[], AnyResponse]

#: Ending of the name of a served file -> its content type.
KINDS = {
    ".css": "text/css", ".html": "text/html", ".js": "text/javascript",
    ".json": "application/json", ".svg": "image/svg+xml", ".txt": "text/plain",
}  # fmt: skip
#: Browsers ask for a file each time, and get it again only if it has changed.
CACHING = "no-cache"


def views(path: str, folder: Path, index_file: str, **contents: bytes) -> Mapping[str, View]:
    """
    Return path -> view of the files of a page.

    path: of the page itself, whose file is `index_file`; other files are below it. contents: name
    of a JSON file -> its content, for files that are not in the folder.
    """
    files = {
        file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.suffix in KINDS
    }
    files |= {f"{name}.json": content for name, content in contents.items()}
    page = _view(path.removeprefix("/"), index_file, files.pop(index_file))
    return {
        path: page,
        **{f"{path}/{name}": _view(path, name, content) for name, content in files.items()},
    }


def _view(path: str, name: str, content: bytes) -> View:
    kind = f"{KINDS[Path(name).suffix]}; charset=utf-8"

    def view() -> AnyResponse:
        if request.environ[ORIGINAL_PATH].endswith("/"):  # relative addresses would be wrong
            return redirect(f"../{path}", 308)
        response = Response(content, content_type=kind, headers={"Cache-Control": CACHING})
        response.add_etag()
        return response.make_conditional(request)

    view.__name__ = f"{path}_{name}"
    return view
