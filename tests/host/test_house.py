# SPDX-License-Identifier: GPL-2.0
"""The plan of the house: which room imports from which, how large things get, and what words mean.

Each test names all that breaks its rule.

Seen failing: with an import upwards, one from the audit of measure, and two modules that import
from each other; with each limit one lower than what is there; with an option that nothing uses;
with two classes of one name; with a module that is loaded, in a docstring, an option's help and a
document; and with a function that has no docstring.
"""

import argparse
import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

from wqlab.cli import COMMANDS
from wqlab.ground.places import ROOT

# Each imports from itself and from those before it.
FLOORS = ["ground", "kernels", "results", "guests", "report", "measure", "roof"]
MAY_IMPORT = {room: {*FLOORS[: at + 1], "wqlab"} for at, room in enumerate(FLOORS)}
MAY_IMPORT["wqlab"] = set()  # the package itself, which has nothing but its docstring
MAY_IMPORT["audit"] = {"audit", "wqlab", "ground", "kernels", "results"}
MAY_IMPORT["series"] = {"series", "wqlab", "ground", "kernels"}
MAY_IMPORT["proof"] = {"proof", "series", "wqlab", *FLOORS} - {"roof"}

MODULE_LINES = 400
FUNCTION_LINES = 60
PARAMETERS = 8

# What the glossary of CONTRIBUTING.md calls otherwise, as far as a pattern can tell
MISUSED = {
    r"(un|re)?load(s|ed|ing)? (a|the|its|this|that|one|each) (kernel )?modules?": "insert, remove",
    r"modules? (is|are|was|were|be|been|gets) (un|re)?loaded": "inserted, removed",
    r"this (very )?machine('s)?": "the host",
    r"machine that (it|wqlab|this) (runs|is) (on|run on)": "the host",
    r"machines? of scenarios": "a scenario",
    r"workload": "a load",
}


# --- what there is ----------------------------------------------------------------------------


@cache
def modules() -> dict[str, Path]:
    """The modules of the house by the names that they are imported by."""
    found = {}
    for top in ("wqlab", "audit", "series"):
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "tests" not in parts:
                found[".".join(part for part in parts if part != "__init__")] = path
    return found | {path.stem: path for path in (ROOT / "tests/proof").glob("*.py")}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def room(module: str) -> str:
    top, *rest = module.split(".")
    if top != "wqlab":
        return top if top in ("audit", "series") else "proof"
    if not rest:
        return "wqlab"
    return rest[0] if rest[0] in FLOORS else "roof"


def imports(module: str) -> Iterator[str]:
    """Of other modules of the house, those inside functions too."""
    for node in ast.walk(tree(modules()[module])):
        names = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: a relative import"
            below = [f"{node.module}.{one.name}" for one in node.names]
            names = [name if name in modules() else str(node.module) for name in below]
        yield from (name for name in names if name in modules() and name != module)


def place(path: Path, node: ast.AST | None = None) -> str:
    line = f":{node.lineno}" if isinstance(node, (ast.stmt, ast.expr)) else ""
    return f"{path.relative_to(ROOT)}{line}"


def code() -> list[Path]:
    """The files of wqlab, the series and the audit."""
    return [path for name, path in modules().items() if room(name) != "proof"]


def functions() -> Iterator[tuple[Path, ast.FunctionDef]]:
    for path in code():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef):
                yield path, node


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def none(offenders: list[str], rule: str) -> None:
    assert not offenders, "\n".join([f"{rule}:", *sorted(offenders)])


# --- rooms ------------------------------------------------------------------------------------


def test_imports_go_down() -> None:
    none(
        [
            f"{name} imports {other}"
            for name in modules()
            for other in imports(name)
            if room(other) not in MAY_IMPORT[room(name)]
        ],
        "a room imports from itself and from those below it",
    )


def test_no_circles() -> None:
    try:
        TopologicalSorter({name: set(imports(name)) for name in modules()}).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other: {' <- '.join(error.args[1])}")


# --- sizes ------------------------------------------------------------------------------------


def test_modules_are_short() -> None:
    found = [f"{place(path)}: {lines(path)}" for path in code() if lines(path) > MODULE_LINES]
    none(found, f"a module has up to {MODULE_LINES} lines")


def test_functions_are_short() -> None:
    sizes = [(path, node, (node.end_lineno or 0) - node.lineno + 1) for path, node in functions()]
    none(
        [
            f"{place(path, node)} {node.name}: {size}"
            for path, node, size in sizes
            if size > FUNCTION_LINES
        ],
        f"a function has up to {FUNCTION_LINES} lines",
    )


def test_functions_take_little() -> None:
    found = []
    for path, node in functions():
        args = node.args
        names = [one.arg for one in [*args.posonlyargs, *args.args, *args.kwonlyargs]]
        number = len([name for name in names if name not in ("self", "cls")])
        if number > PARAMETERS:
            found.append(f"{place(path, node)} {node.name}: {number}")
    none(found, f"a function has up to {PARAMETERS} parameters")


def machinery() -> set[Path]:
    """What tests run by, wherever below tests/ it is."""
    named = {"farm", "runner", "needs", "closure", "live"}
    found = (ROOT / "tests").rglob("*.py")
    return {path for path in found if path.parent.name == "tests" or path.stem in named}


def targets() -> list[str]:
    """Of make, but for the help."""
    [phony] = re.findall(r"^\.PHONY:((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [name for name in phony.replace("\\", " ").split() if name != "help"]


SIZES: dict[str, tuple[int, Callable[[], int]]] = {
    "lines of wqlab": (11_000, lambda: sum(map(lines, (ROOT / "wqlab").rglob("*.py")))),
    "lines of what tests run by": (800, lambda: sum(map(lines, machinery()))),
    "commands of wqlab": (12, lambda: len(COMMANDS)),
    "targets of make": (14, lambda: len(targets())),
    "bytes of results/": (
        6 << 20,
        lambda: sum(one.stat().st_size for one in (ROOT / "results").rglob("*") if one.is_file()),
    ),
}


@pytest.mark.parametrize("what", SIZES)
def test_sizes_of_all(what: str) -> None:
    most, size = SIZES[what]
    assert size() <= most


# --- options ----------------------------------------------------------------------------------


def parsers() -> dict[str, argparse.ArgumentParser]:
    """By the words that are typed for them, those of sub-commands too."""
    found = {}

    def add(name: str, parser: argparse.ArgumentParser) -> None:
        found[name] = parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for word, below in action.choices.items():
                    add(f"{name} {word}", below)

    commands = {name: f"wqlab.{module}" for name, (module, _) in COMMANDS.items()}
    for name, module in {**commands, "audit": "audit", "series": "series"}.items():
        parser = argparse.ArgumentParser(prog=name)
        import_module(module).add_options(parser)
        add(name, parser)
    return found


def declared() -> dict[tuple[str, str], list[str]]:
    """The commands and scripts that have an option, by the option and its help: what several
    commands have from one function is one option."""
    found = defaultdict(list)
    for name, parser in parsers().items():
        for action in parser._actions:
            for option in set(action.option_strings) - {"-h", "--help"}:
                found[option, action.help or ""].append(name)
    for path in (ROOT / "scripts").iterdir():
        for some, more in re.findall(
            r"^options '(.*?)' '?(.*?)'? \"\$@\"", path.read_text(), re.MULTILINE
        ):
            for name in f"{some} {more}".split():
                found[f"--{name}", path.name].append(path.name)
    for path in (ROOT / "conftest.py", ROOT / "tests/runner.py"):
        for option in re.findall(r'addoption\(\s*"(--[\w-]+)"', path.read_text()):
            found[option, "pytest"].append("pytest")
    return found


def test_each_option_is_used() -> None:
    """By a test, a document or the Makefile that names its command as well."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "Makefile"]
    paths += [*(ROOT / "tests").rglob("*.py"), *(ROOT / "audit/tests").glob("*.py")]
    texts = [path.read_text() for path in paths if path != Path(__file__)]

    def used(name: str, option: str) -> bool:
        both = rf"(?<![\w-]){option}(?![\w-])", rf"\b{name.split()[-1]}\b"
        return any(all(re.search(one, text) for one in both) for text in texts)

    found = declared()
    commands = {name for names in found.values() for name in names}
    assert {"sim", "audit", "apply", "pytest"} <= commands
    none(
        [
            f"{', '.join(names)} {option}"
            for (option, _), names in found.items()
            if not any(used(name, option) for name in names)
        ],
        "an option is used by a test, a document or the Makefile",
    )


# --- words ------------------------------------------------------------------------------------


def test_classes_have_names_of_their_own() -> None:
    found = defaultdict(list)
    for path in (ROOT / "wqlab").rglob("*.py"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(place(path, node))
    none(
        [f"{name}: {', '.join(places)}" for name, places in found.items() if len(places) > 1],
        "no two classes have one name",
    )


def prose() -> Iterator[tuple[str, str]]:
    """Where it is, and what people read: docstrings, helps of options, and documents."""
    for path in modules().values():
        for node in ast.walk(tree(path)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                yield place(path, node), ast.get_docstring(node) or ""
    for name, parser in parsers().items():
        yield from ((f"{name} --help", action.help or "") for action in parser._actions)
    yield from ((f"{name} in wqlab --help", about) for name, (_, about) in COMMANDS.items())
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        yield place(path), path.read_text()


def test_words_have_one_meaning() -> None:
    none(
        [
            f"{where}: {found[0]!r}: say {better}"
            for where, text in prose()
            for pattern, better in MISUSED.items()
            for found in re.finditer(rf"\b{pattern}\b", " ".join(text.split()))
            if where != "CONTRIBUTING.md"  # which has the glossary
        ],
        "a word means what the glossary says",
    )


def public(node: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Its functions, classes and methods."""
    for one in node.body:
        if isinstance(one, (ast.FunctionDef, ast.ClassDef)) and not one.name.startswith("_"):
            yield one
            if isinstance(one, ast.ClassDef):
                yield from public(one)


def test_all_that_is_public_is_documented() -> None:
    """But for what every command has, which wqlab/ground/program.py describes."""
    none(
        [
            f"{place(path, node)} {node.name}"
            for path in code()
            for node in public(tree(path))
            if not ast.get_docstring(node) and node.name not in ("add_options", "command")
        ],
        "what is public has a docstring",
    )
