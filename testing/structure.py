#!/usr/bin/env python3
"""The structure of the product's folders, from what their files include.

Usage: structure.py [--write]

Fails if folders include each other in a circle, if files of a folder of ORDERED_FILES do, if a file of the product includes
one of testing/, or if the picture of docs/architecture.md is another one. --write puts the picture there. It leaves out an
arrow where a way leads along others.
Fails as well if the table there lacks a folder, has one that is gone, or does not allow what a folder includes.
Tests beside the sources, and what they share, are no part of the product.
"""

import collections
import graphlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCUMENT = "docs/architecture.md"
PRODUCT = ("transport", "protocol", "scsi", "tools")
# By their names, or for their names.
TESTS = re.compile(r"(_test|_test_util|_harness|_fuzz)\.(cc|h)$|/(testing|testing_backend|takes_signals)\.(cc|h)$"
                   r"|/(fake|refuse)_\w+\.(cc|h)$|^tools/bazel/")
# Folders in which files have an order, too. A header and its source are one file.
ORDERED_FILES = ("scsi/backend", "scsi/target", "scsi/target/commands", "transport/libfabric", "transport/libfabric/datagram",
                 "transport/libfabric/fabric", "transport/libfabric/message", "transport/libfabric/shm", "transport/verbs")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# Beside the product, each package has a row of the table, too.
OTHERS = ("testing", "bench")
TABLE = re.compile(r"<!-- table: folders -->\n(.*?)<!-- end -->\n", re.DOTALL)
NAME = re.compile(r"`([^`]+)`")
PICTURE = re.compile(r"(<!-- picture: folders -->\n).*?(<!-- end -->\n)", re.DOTALL)


class StructureError(Exception):
    """For people."""


def product_files(root):
    for folder in PRODUCT:
        for path in sorted((root / folder).rglob("*")):
            name = str(path.relative_to(root))
            if path.suffix in (".cc", ".h") and not TESTS.search(name):
                yield name


def folder(name):
    return name.rpartition("/")[0]


def read_structure(root):
    """Folders, each with those that it includes."""
    files = set(product_files(root))
    graph = {folder(name): set() for name in files}
    for name in sorted(files):
        for included in INCLUDE.findall((root / name).read_text(encoding="utf-8")):
            if included.startswith("testing/"):
                raise StructureError(f"{name} includes {included}: what is for tests stays out of the product")
            if included in files and folder(included) != folder(name):
                graph[folder(name)].add(folder(included))
    return graph


def read_files(root, name):
    """The files of a folder, each with those of the same folder that it includes."""
    graph = collections.defaultdict(set)
    for path in product_files(root):
        if folder(path) != name:
            continue
        file = pathlib.PurePath(path).stem
        graph[file] |= {pathlib.PurePath(included).stem
                        for included in INCLUDE.findall((root / path).read_text(encoding="utf-8"))
                        if folder(included) == name} - {file}
    return graph


def circles(graph):
    """Those that include each other, directly or not: a list of sets."""
    below = {}
    for name in graph:
        found, new = set(), set(graph[name])
        while new:
            found |= new
            new = {deeper for included in new for deeper in graph.get(included, ())} - found
        below[name] = found
    return sorted({frozenset(other for other in found if name in below.get(other, ()))
                   for name, found in below.items() if name in found}, key=sorted)


def way_around(graph, circle):
    """One way round a circle, for people."""
    try:
        graphlib.TopologicalSorter({name: graph[name] & circle for name in circle}).prepare()
    except graphlib.CycleError as error:
        return " <- ".join(error.args[1])
    return ""


def check_files(root, folders=ORDERED_FILES):
    problems, count = [], 0
    for name in folders:
        graph = read_files(root, name)
        for circle in circles(graph):
            count += len(circle)
            problems.append(f"  {name}: {', '.join(sorted(circle))}; one way round: {way_around(graph, circle)}")
    if problems:
        raise StructureError(f"{count} files include each other, in {len(problems)} circles:\n" + "\n".join(problems))


def check_order(graph):
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        raise StructureError(f"folders include each other: {' <- '.join(error.args[1])}") from error


def reachable(graph):
    """Of each folder, all that it includes, also indirectly."""
    found = collections.defaultdict(set)
    for name in graphlib.TopologicalSorter(graph).static_order():
        for included in graph.get(name, ()):
            found[name] |= {included} | found[included]
    return found


def picture(graph):
    below = reachable(graph)

    def node(name):
        return name.replace("/", "_")
    lines = ["```mermaid", "flowchart TD"]
    for top in reversed(PRODUCT):
        lines.append(f"  subgraph {top}")
        lines += [f'    {node(name)}["{name}"]' for name in sorted(graph) if name.split("/")[0] == top]
        lines.append("  end")
    for name in sorted(graph):
        for included in sorted(graph[name]):
            if not any(included in below[other] for other in graph[name]):
                lines.append(f"  {node(name)} --> {node(included)}")
    return "".join(f"{line}\n" for line in (*lines, "```"))


def read_table(document):
    """Folders, each with those that may include it. These stand for what is below them, too."""
    found = TABLE.findall(document)
    if len(found) != 1:
        raise StructureError(f"{DOCUMENT} has not one table of the folders")
    rows = {}
    for line in found[0].splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        names = NAME.findall(cells[0])
        if len(cells) != 3 or not all(cells) or not names:
            raise StructureError(f"{DOCUMENT}: not folders, what is in them, and what may include them: {line}")
        includers = {"all": [""], "nothing": []}.get(cells[2]) or NAME.findall(cells[2])
        if not includers and cells[2] != "nothing":
            raise StructureError(f"{DOCUMENT}: what may include a folder is `folders`, all or nothing: {line}")
        for name in names:
            if name in rows:
                raise StructureError(f"{DOCUMENT}: the table has {name} twice")
            rows[name] = includers
    return rows


def covers(prefix, name):
    return prefix in ("", name) or name.startswith(f"{prefix}/")


def check_table(root, graph, document):
    rows = read_table(document)
    packages = {str(path.parent.relative_to(root)) for top in OTHERS for path in (root / top).rglob("BUILD.bazel")}
    for name in sorted((graph.keys() | packages) - rows.keys()):
        raise StructureError(f"{DOCUMENT}: the table of the folders lacks {name}")
    for name in sorted(rows):
        if not (root / name).is_dir():
            raise StructureError(f"{DOCUMENT}: the table has {name}, which is no folder")
    for name in sorted(graph):
        for included in sorted(graph[name]):
            if not any(covers(prefix, name) for prefix in rows[included]):
                raise StructureError(f"{name} includes {included}, which the table of {DOCUMENT} does not allow")


def main():
    try:
        graph = read_structure(ROOT)
        check_order(graph)
        check_files(ROOT)
        document = ROOT / DOCUMENT
        before = document.read_text(encoding="utf-8")
        if len(PICTURE.findall(before)) != 1:
            raise StructureError(f"{DOCUMENT} has not one place for the picture of the folders")
        after = PICTURE.sub(lambda match: match[1] + picture(graph) + match[2], before)
        if sys.argv[1:] == ["--write"]:
            document.write_text(after, encoding="utf-8")
        elif after != before:
            raise StructureError(f"the picture of {DOCUMENT} is not of this structure: run testing/structure.py --write")
        check_table(ROOT, graph, before)
    except StructureError as error:
        print(f"structure.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
