"""A typed client that is generated from /openapi.json, by the commands of docs/api.md."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from werkzeug.serving import make_server

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
URL = "http://127.0.0.1:6385"
#: Release of the generator, of which this test knows the output.
GENERATOR = "openapi-python-client==0.29.1"


@pytest.fixture
def url(api):
    server = make_server("127.0.0.1", 0, api.client.application, threaded=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.port}"
    server.shutdown()
    thread.join()
    server.server_close()


def blocks(kind):
    """Return the code blocks of the section about clients."""
    section = re.search(r"## A client library\n(.*?)\n## ", PAGE.read_text(), re.DOTALL)[1]
    return re.findall(rf"```{kind}\n(.*?)```", section, re.DOTALL)


@pytest.mark.slow
def test_a_client_is_generated_and_works(api, url, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=300)
    (block,) = blocks("console")
    commands = [line.removeprefix("$ ") for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in block.splitlines())
    script = "\n".join(commands).replace(URL, url)
    script = script.replace("install openapi-python-client", f"install {GENERATOR}")
    script = script.replace(" generate ", " generate --fail-on-warning ")
    environ = {**os.environ, "PATH": f"{tmp_path / 'venv' / 'bin'}:{os.environ['PATH']}"}
    run = {"env": environ, "cwd": tmp_path, "timeout": 600, "text": True}
    subprocess.run(["sh", "-ec", script], check=True, **run)

    (program,) = blocks("python")
    program += "print(node.uuid, *(item.uuid for item in page.nodes))\n"
    command = [tmp_path / "venv" / "bin" / "python", "-c", program.replace(URL, url)]
    output = subprocess.run(command, check=True, capture_output=True, **run).stdout.split()
    created = api("GET", "/v1/nodes").json["nodes"]
    assert [created[0]["uuid"]] * 2 == output
