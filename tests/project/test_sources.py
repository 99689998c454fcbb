"""No source of the packages runs code from data, unpickles, or puts values into SQL."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "core/hwdag",
    "core/hwdag_lab",
    "core/hwdag_app",
    "core/hwdag_files",
    "llama_index_hwdag",
    "langchain_hwdag",
    "haystack_hwdag",
    "haystack_integrations",
)
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

MODULES = frozenset(
    [
        "pickle",
        "cPickle",
        "_pickle",
        "dill",
        "cloudpickle",
        "marshal",
        "shelve",
        "joblib",
        "yaml",
        "subprocess",
        "ctypes",
        "code",
        "runpy",
        "imp",
        "pty",
        "commands",
    ]
)
CALLS = frozenset(["eval", "exec", "compile", "__import__", "breakpoint"])
METHODS = frozenset(
    [
        "os.system",
        "os.popen",
        "os.execv",
        "os.execvp",
        "os.spawnv",
        "torch.load",
        "np.load",
        "numpy.load",
        "tempfile.mktemp",
        "sqlite3.enable_callback_tracebacks",
        "connection.load_extension",
    ]
)
POINTERS = frozenset(
    [
        "c_char_p",
        "c_float",
        "c_int",
        "c_size_t",
        "c_uint",
        "c_void_p",
        "cast",
        "CFUNCTYPE",
        "create_string_buffer",
        "data",
    ]
)
"""Parts of ctypes that call PDFium's functions; none loads a library or reads an address."""

SWITCHES = frozenset(["trust_remote_code", "allow_pickle", "shell"])

SQL = (
    "SELECT",
    "INSERT",
    "DELETE",
    "UPDATE",
    "CREATE",
    "DROP",
    "ALTER",
    "PRAGMA",
    "WITH",
    "ATTACH",
)
OURS = frozenset(
    ["table", "columns", "pragma", "prefix", "only", "page", "self", "int", "len", "join"]
)
"""Parts of the text of a statement besides constants: names of our own tables and columns,
and numbers; read the lines that use one before adding it."""


def problems(source):
    for node in ast.walk(ast.parse(source)):
        for what in (*imported(node), *called(node), *switched(node), *statements(node)):
            yield f"line {node.lineno}: {what}"


def imported(node):
    names = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    return [f"import {name}" for name in names if name.partition(".")[0] in MODULES]


def called(node):
    if not isinstance(node, ast.Call):
        return []
    name = ast.unparse(node.func)
    return [name] if name in CALLS or name in METHODS else []


def switched(node):
    """Switches are off, or what the user passes on."""
    if not isinstance(node, ast.Call):
        return []
    return [
        f"{keyword.arg}=True"
        for keyword in node.keywords
        if keyword.arg in SWITCHES
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is not False
    ]


def statements(node):
    """Texts of SQL into which something is put that is no constant."""
    if isinstance(node, ast.JoinedStr) and text_of(node).lstrip().startswith(SQL):
        placed = (part.value for part in node.values if isinstance(part, ast.FormattedValue))
        return [f"{name} in SQL" for value in placed for name in names_in(value)]
    put_together = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.Add)
    formatted = isinstance(node, ast.Attribute) and node.attr in ("format", "format_map", "replace")
    base = node.left if put_together else node.value if formatted else None
    if base is not None and text_of(base).lstrip().startswith(SQL):
        return [f"SQL put together: {ast.unparse(node)}"]
    return []


def text_of(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def names_in(value):
    """Names and attributes that are neither constants nor known to be ours."""
    for node in ast.walk(value):
        name = getattr(node, "id", None) or getattr(node, "attr", None)
        if name and not name.isupper() and name not in OURS:
            yield name


@pytest.mark.slow
def test_nothing_of_a_file_or_a_text_is_run():
    found = {path.relative_to(ROOT): [*problems(path.read_text("utf-8"))] for path in SOURCES}
    assert len(found) > 100
    # the one process that is started: this interpreter, with a module of ours, to parse a file
    parser = Path("core/hwdag_files/converting.py")
    assert [what.partition(": ")[2] for what in found.pop(parser)] == ["import subprocess"]
    command = '[sys.executable, "-P", "-m", "hwdag_files.converting"]'
    source = (ROOT / parser).read_text("utf-8")
    assert source.count("subprocess.Popen(") == source.count("Popen(") == 1
    assert "subprocess.run" not in source
    assert f"command = {command}" in source
    # the one reference that is counted by hand, so that a fork does not free what its parent uses
    database = Path("core/hwdag/store/database.py")
    assert [what.partition(": ")[2] for what in found.pop(database)] == ["import ctypes"]
    source = (ROOT / database).read_text("utf-8")
    assert source.count("ctypes.") == 2
    assert "ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))" in source
    # PDFium's functions, in the process that parses
    for name in ("drawings", "pdfium"):
        reader = Path(f"core/hwdag_files/{name}.py")
        assert [what.partition(": ")[2] for what in found.pop(reader)] == ["import ctypes"]
        source = (ROOT / reader).read_text("utf-8")
        assert set(re.findall(r"ctypes\.(\w+)", source)) <= POINTERS
    # front matter is composed to nodes, never constructed: no tag of a file makes an object
    front_matter = Path("core/hwdag_files/front_matter.py")
    assert [what.partition(": ")[2] for what in found.pop(front_matter)] == ["import yaml"]
    source = (ROOT / front_matter).read_text("utf-8")
    assert source.count("yaml.BaseLoader") == source.count("_Loader(block).get_single_node()") == 1
    assert not any(name in source for name in ("yaml.load", "construct", "get_single_data"))
    assert {str(path): what for path, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from yaml import load",
        "import os, subprocess",
        "eval(text)",
        "torch.load(path)",
        "np.load(path)",
        "load(name, trust_remote_code=True)",
        "run(command, shell=True)",
        "f'DELETE FROM documents WHERE id = {document_id}'",
        "'SELECT id FROM documents WHERE id = %s' % key",
        "'SELECT id FROM documents WHERE id = ' + key",
        "'DELETE FROM calls WHERE owner = {}'.format(owner)",
    ],
)
def test_the_scan_sees_what_it_looks_for(source):
    assert list(problems(source))


@pytest.mark.parametrize(
    "source",
    [
        "model.eval()",
        "load(name, trust_remote_code=trust_remote_code)",
        "f'SELECT {_COLUMNS} FROM {table}'",
        "connection.execute('DELETE FROM documents WHERE number = ?', [number])",
        "re.compile(pattern)",
    ],
)
def test_the_scan_lets_the_rest_pass(source):
    assert not list(problems(source))
