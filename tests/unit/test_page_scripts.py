"""The modules of a page as one script."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app import ui
from app.api.web import page_scripts
from tests.support.prerequisites import not_run

MODULES = {
    "main.js": 'import { twice as double } from "./parts.js";\nimport { NAME } from "./names.js";\n'
    "const hidden = 3;\nglobalThis.result = `${NAME} ${double(hidden)}`;\n",
    "parts.js": 'import { NAME } from "./names.js";\nconst hidden = 2;\n'
    "export const twice = number => number * hidden;\nexport async function later() { return NAME; }\n"
    'const lazy = () => import("./parts.js");\n',
    "names.js": "export class Named {}\nexport const NAME = 'bay';\n",
    "alone.js": "this is not read",
}


def test_a_module_follows_those_that_it_imports_and_others_are_left_out():
    assert ["names.js", "parts.js", "main.js"] == page_scripts.names(MODULES, "main.js")
    script = page_scripts.joined(MODULES, "main.js")
    assert "this is not read" not in script
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)


def test_the_script_does_what_the_modules_do():
    node = shutil.which("node") or not_run("there is no node")
    script = page_scripts.joined(MODULES, "main.js") + "console.log(result);"
    command = [node, "--input-type=module", "--eval", script]
    assert "bay 6\n" == subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "line",
    [
        'import parts from "./parts.js";', 'import "./parts.js";', "export default 1;",
        "export { hidden };", 'export * from "./parts.js";',
    ],
)  # fmt: skip
def test_a_form_that_is_not_translated_is_refused(line):
    with pytest.raises(
        ValueError, match=re.escape(f"main.js: this form is not translated: {line}")
    ):
        page_scripts.joined(MODULES | {"main.js": f"{line}\n"}, "main.js")


def test_a_circular_import_is_refused():
    circle = {"a.js": 'import { b } from "./b.js";', "b.js": 'import { a } from "./a.js";'}
    with pytest.raises(ValueError, match="cycle"):
        page_scripts.names(circle, "a.js")


def test_all_modules_of_the_pages_are_in_their_scripts():
    folder = Path(ui.__file__).parent
    modules = {path.name: path.read_text() for path in folder.glob("*.js")}
    scripts = {*page_scripts.names(modules, "main.js"), *page_scripts.names(modules, "vnc.js")}
    assert modules.keys() - {"xterm.js", "novnc.js"} == scripts
