"""Imports go one way, `import interlace` is light, and what it exports is what it says."""

from __future__ import annotations
import __future__

import ast
import importlib
import re
import sys
import types
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import interlace as il
from helpers import run_python
from interlace.codec.metric import METRICS

SOURCE = Path(il.__file__).parent

#: Packages and modules of the root, bottom first: each may import those before it. A new one must find its place here.
ORDER = [
    "_native",
    "_version",
    "errors",
    "_threads",
    "progress",
    "inputs",
    "files",  # the container: named arrays with checksums; below codec, whose objects write and read their own sections
    "codec",
    "engine",
    "reference",
    "evaluate",  # below learning, which chooses its epoch by MAP, and below the index, which evaluates itself
    "learn",
    "index",
    "store",
    "estimators",
    "plot",
    "paper",
    "integrations",
    "client",  # il.connect: stores of a server
    "interlace",  # the package itself: the public names
    *("data", "embedding", "judge", "parts", "quantizers"),  # public names of the packages below, and nothing else
    "serve",  # the HTTP server: FastAPI, of the serve extra
    "ray",  # shards on several machines, of the ray extra
    "cli",
    "__main__",
]
#: The same inside of packages that have rooms of their own.
ROOMS = {
    "serve": [
        "settings",
        "problems",
        "requests",  # what a request says
        "collections",  # what a collection is and does
        "insight",  # what the page shows of one
        "work",  # how requests are run
        "gate",  # how requests get in
        "routes",
        "app",
        "run",
        "processes",  # several of them for one directory
    ],
}
FACADES = ORDER[ORDER.index("interlace") + 1 : ORDER.index("serve")]


def module_name(path: Path) -> str:
    """cli/build.py -> cli.build, cli/__init__.py -> cli, __init__.py -> interlace."""
    parts = [part for part in path.relative_to(SOURCE).with_suffix("").parts if part != "__init__"]
    return ".".join(parts) or "interlace"


def is_module(name: str) -> bool:
    path = SOURCE.joinpath(*name.split("."))
    return name == "_native" or path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def imports(path: Path) -> Iterator[str]:
    """Every import of a file, also those inside functions; our own modules by their name below the package."""
    package = [*path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield f"absolute {alias.name}"
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield f"absolute {node.module}"
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                inner = ".".join([*base, alias.name])
                yield inner if is_module(inner) else ".".join(base) or "interlace"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "import_module":
            named = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
            tail = str(named.value).lstrip(".") if isinstance(named, ast.Constant) else ""
            if isinstance(named, ast.Constant) and tail and tail != named.value:
                level = len(str(named.value)) - len(tail)
                yield ".".join([*package[: len(package) - level + 1], *tail.strip(".").split(".")]).strip(".")


FILES = sorted(SOURCE.rglob("*.py"))
GRAPH = {module_name(path): {name for name in imports(path) if not name.startswith("absolute ")} for path in FILES}
OUTSIDE = {module_name(path): {n.split()[1] for n in imports(path) if n.startswith("absolute ")} for path in FILES}


def goes_down(module: str, imported: str) -> bool:
    (own, room), (other, other_room) = ([*name.split("."), ""][:2] for name in (module, imported))
    if own != other:
        return ORDER.index(other) < ORDER.index(own)
    if room == other_room or own not in ROOMS:
        return True
    rooms = [*ROOMS[own], ""]  # the package itself is above its rooms
    return rooms.index(other_room) < rooms.index(room)


def test_the_graph_is_really_read() -> None:
    assert {"codec.codebooks", "engine.segments", "learn.fit", "files.storage"} <= GRAPH["index.index"]
    assert "inputs.arrays" in GRAPH["learn.kmeans"]
    assert "store" in GRAPH["interlace"], "imports by name are read too"
    assert "numpy" in OUTSIDE["inputs.arrays"]
    assert "serve.requests.models" in GRAPH["serve.collections.catalog"]
    assert goes_down("serve.collections.catalog", "serve.requests.models")
    assert not goes_down("serve.requests.models", "serve.collections.catalog")


def test_every_module_has_its_place() -> None:
    assert {name.partition(".")[0] for name in GRAPH} <= set(ORDER)
    for package, rooms in ROOMS.items():
        assert {name.split(".")[1] for name in GRAPH if name.startswith(f"{package}.")} == set(rooms)


@pytest.mark.parametrize("module", sorted(GRAPH))
def test_imports_only_go_down(module: str) -> None:
    up = {(module, imported) for imported in GRAPH[module] if not goes_down(module, imported)}
    assert not up


def test_there_are_no_cycles() -> None:
    inner = {name: {i for i in found if i != name} for name, found in GRAPH.items() if name != "cli.__main__"}
    assert len(list(TopologicalSorter(inner).static_order())) >= len(inner)


@pytest.mark.parametrize("name", FACADES)
def test_facades_hold_public_names_of_other_packages_and_nothing_else(name: str) -> None:
    assert [path.name for path in (SOURCE / name).glob("*.py")] == ["__init__.py"]
    facade = importlib.import_module(f"interlace.{name}")
    assert all(hasattr(facade, public) for public in facade.__all__)
    body = ast.parse((SOURCE / name / "__init__.py").read_text()).body
    assert {type(node) for node in body} == {ast.Expr, ast.ImportFrom, ast.Assign}
    assert getattr(il, name) is facade


#: Modules outside of the paper's package that may import it: its command, and facades that users type.
MAY_IMPORT_PAPER = {"cli.reproduce", "data", "judge"}


def test_the_paper_is_imported_by_its_command_and_facades_alone() -> None:
    importing = {
        module
        for module, found in GRAPH.items()
        if module.partition(".")[0] != "paper" and any(name.partition(".")[0] == "paper" for name in found)
    }
    assert importing == MAY_IMPORT_PAPER
    facades = {"data", "judge"}
    users = {module for module, found in GRAPH.items() if facades & {name.partition(".")[0] for name in found}}
    assert {module.partition(".")[0] for module in users} <= {"cli"}


def test_no_string_names_a_module_of_the_paper() -> None:
    """An import by name that the graph does not see would be a string such as ``.paper.judge``."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found = re.fullmatch(r"(\.+|interlace\.)paper(\.\w+)*", node.value)
                assert not found, f"{module_name(path)} names {node.value!r}"


def test_benchmarks_do_not_import_the_paper() -> None:
    for path in sorted((SOURCE.parents[1] / "benchmarks").glob("*.py")):
        assert "interlace.paper" not in path.read_text(), path.name


def test_no_module_names_the_package_absolutely() -> None:
    assert not [name for name, found in OUTSIDE.items() if any(f.partition(".")[0] == "interlace" for f in found)]


def test_torch_is_imported_by_the_training_package_alone() -> None:
    at_fault = [
        n for n, found in OUTSIDE.items() if any(f.partition(".")[0] in ("torch", "torchvision") for f in found)
    ]
    assert [n for n in at_fault if not n.startswith("learn.joint.")] == []


#: Adapters, which import their framework; nothing imports them.
FRAMEWORKS = tuple(f"integrations.{name}" for name in ("haystack", "langchain", "llama_index"))


def test_adapters_of_frameworks_are_imported_by_users_alone() -> None:
    assert not [name for name, found in GRAPH.items() if found & {*FRAMEWORKS}]
    assert {name for name in GRAPH if name.startswith(FRAMEWORKS)} == {*FRAMEWORKS}


def test_the_core_needs_numpy_and_nothing_else() -> None:
    allowed = {"numpy", *__import__("sys").stdlib_module_names}
    for module, found in OUTSIDE.items():
        if not module.startswith(("learn.joint.", "cli", "paper", "plot", "serve", "ray", *FRAMEWORKS)):
            assert {f.partition(".")[0] for f in found} <= allowed, module


#: Public names whose modules are imported when they are first used.
LAZY = ["ICQ", "Neighbors", "RecallPlan", "RecallPoint", "Recipe", "Store", "SupervisedICQ", "UnsupervisedICQ"]
LAZY += ["connect", "create", "open", "plan_recall", "restore", "search_table"]


def test_all_is_what_is_exported() -> None:
    public = {
        name
        for name, value in vars(il).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType | __future__._Feature)
    }
    assert public | {"__version__", *LAZY} == set(il.__all__)
    assert all(getattr(il, name).__name__ == name for name in LAZY)
    assert len(il.__all__) == len(set(il.__all__))
    assert {*il.__all__, "data", "judge", "plot", "quantizers", "store"} <= set(dir(il))


IMPORTED = """
import json, sys
import numpy
before = set(sys.modules)
import interlace
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_import_is_light() -> None:
    """Beside NumPy only a few small modules; ``benchmarks/latency.py`` measures the time."""
    names = run_python(IMPORTED)
    own = {name for name in names if name.partition(".")[0] == "interlace"}
    lazy = {
        "cli",
        "client",
        "estimators",
        "learn.joint",
        "learn.recipe",
        "paper",
        "plot",
        "ray",
        "reference",
        "serve",
        "store",
        *FACADES,
    }
    assert not own & {f"interlace.{name}" for name in lazy}
    assert len(own) <= 109
    others = {name.partition(".")[0] for name in names} - {"interlace", "numpy"}
    assert others <= sys.stdlib_module_names
    assert len(others) <= 20
    assert not others & {"asyncio", "ctypes", "email", "http", "importlib", "multiprocessing", "tempfile", "unittest"}


def test_data_is_imported_when_it_is_first_used() -> None:
    code = """
import json, sys
import interlace as il
before = "interlace.data" in sys.modules
print(json.dumps([before, il.data.read_vectors is sys.modules["interlace.data"].read_vectors]))
"""
    assert run_python(code) == [False, True]
    with pytest.raises(AttributeError, match="module 'interlace' has no attribute 'dta'"):
        _ = il.dta


def test_a_whole_session_stays_light(tmp_path: Path) -> None:
    code = """
import json, sys
import numpy as np
import interlace as il
index = il.Index.build(np.random.default_rng(0).normal(size=(300, 8)), n_bytes=4, threads=1)
index.save(sys.argv[1])
il.open(sys.argv[1]).search(np.zeros((2, 8)))
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
    assert not {"torch", "sklearn", "scipy", "pandas", "matplotlib", "faiss"} & set(
        run_python(code, str(tmp_path / "i"))
    )


# --- objects keep their own names -------------------------------------------------------------------------------------


def own_names(node: ast.ClassDef) -> set[str]:
    """Methods of a class, and what it assigns to ``self`` or in its body."""
    names = {n.name for n in ast.walk(node) if isinstance(n, ast.FunctionDef)}
    for n in ast.walk(node):
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store):
            names.add(n.attr)
        elif isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            names.add(n.id)
    return names


def private_accesses(tree: ast.AST, own: frozenset[str] = frozenset()) -> Iterator[ast.Attribute]:
    """Underscore attributes of other objects; a class may use those of its own instances."""
    for node in ast.iter_child_nodes(tree):
        inner = own | own_names(node) if isinstance(node, ast.ClassDef) else own
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            of = node.value
            itself = isinstance(of, ast.Name) and of.id in ("self", "cls", "_native")
            parent = isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == "super"
            if not itself and not parent and node.attr not in inner:
                yield node
        yield from private_accesses(node, inner)


#: The frame of a caller has no public name in Python.
ALLOWED_ACCESSES = {"errors: sys._getframe"}


def test_no_object_reaches_into_another() -> None:
    found = {f"{module_name(p)}: {ast.unparse(a)}" for p in FILES for a in private_accesses(ast.parse(p.read_text()))}
    assert found == ALLOWED_ACCESSES


def test_private_accesses_are_really_found() -> None:
    source = "class A:\n    def _f(self, other):\n        return self._x, other._f, other._y, other.z._w"
    assert [node.attr for node in private_accesses(ast.parse(source))] == ["_y", "_w"]


def test_no_two_public_classes_have_one_name() -> None:
    where: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(module_name(path))
    assert {name: modules for name, modules in where.items() if len(modules) > 1} == {}


# --- files that can be read in one sitting ----------------------------------------------------------------------------

CPP = Path(__file__).parents[1] / "cpp"


def compared_texts(tree: ast.AST) -> Iterator[str]:
    """Texts that a comparison, a membership test or a case of a match names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts: list[ast.AST] = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        else:
            continue
        for part in parts:
            listed = part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]
            yield from (one.value for one in listed if isinstance(one, ast.Constant) and isinstance(one.value, str))


def test_only_the_metric_compares_names_of_metrics() -> None:
    """What depends on the metric is a property or a method of Metric, so that a new one is added in one file."""
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if not METRICS.keys().isdisjoint(compared_texts(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found <= {"codec/metric.py"}
    seen = set(compared_texts(ast.parse("a == 'l2' or b in ('ip', x)\nmatch c:\n    case 'cosine': pass")))
    assert seen == set(METRICS), "comparisons are really found"


def test_files_are_short() -> None:
    native = [*CPP.rglob("*.cpp"), *CPP.rglob("*.h")]
    lines = {str(path): len(path.read_text().splitlines()) for path in [*FILES, *native]}
    assert {path: n for path, n in lines.items() if n > 400} == {}
    assert sorted(lines.values())[len(lines) // 2] <= 150


def test_the_root_holds_few_modules() -> None:
    beside = {path.name for path in SOURCE.iterdir() if path.is_file() and path.suffix in (".py", ".pyi", ".typed")}
    expected = {"__init__.py", "__main__.py", "_native.pyi", "_threads.py", "_version.py"}
    assert beside == {*expected, "errors.py", "progress.py", "py.typed"}


def test_files_named_in_the_architecture_page_exist() -> None:
    root = Path(__file__).parents[1]
    text = (root / "ARCHITECTURE.md").read_text()
    named = {name.partition(":")[0] for name in re.findall(r"`((?:[\w.]+/)+[\w.]+\.(?:py|cpp|h|md|json))[:`]", text)}
    assert len(named) > 80
    assert {
        name
        for name in named
        if not any((base / name).exists() for base in (root, SOURCE, SOURCE.parent, CPP / "core"))
    } == set()
