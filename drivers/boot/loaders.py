"""Boot loaders: the files that firmware fetches first, by TFTP or HTTP."""

from pathlib import Path

from drivers.core.target import Options
from drivers.images import cache, files


def publish(options: Options) -> None:
    """
    Copy `[pxe]loader_file_paths` to the roots of both servers; equal files stay.

    Raises OSError, BadImage.
    """
    for root in (files.http_root(options), files.tftp_root(options)):
        for name, path in options["pxe"]["loader_file_paths"].items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            cache.put(Path(path), root / name)
            files.let_tftp_read(options, root / name)
