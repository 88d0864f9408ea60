#!/usr/bin/env python3
"""The tables of docs/interoperability.md, peer by transport by feature, from the reports of the tests in the guest.

Usage: feature_table.py [--check | --write] [--partial] [--reports DIRECTORY] [DOCUMENT]

Without a flag the tables are printed. --check compares them with those of the document, and its exit status is 1 if they
differ; --write puts them there. --partial takes the columns that have no report from the document, and names them. A table of the document is between the comments `<!-- table: NAME -->` and `<!-- end -->`.
Reports are the test.xml files below the directory, by default those of the last `bazel test`.
"""

import argparse
import collections
import dataclasses
import difflib
import pathlib
import re
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
NONE = "–"
SEE_BELOW = "no, see below"


# What a report has of cases that did not pass, some of it in the words of cases.py.
VERDICTS = (("failure", "failed"), ("error", "failed"), ("skipped", "skipped"),
            ("properties/property[@name='expected_failure']", "failed as expected"))


class TableError(Exception):
    """For people."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """What the cases of some suites come to. Cases are matched as a whole, and each pattern has to match one."""

    suites: str
    cases: tuple
    says: str = "yes"  # If all have passed; with the groups of the last pattern.
    otherwise: str = NONE  # If there are none, or all were skipped.


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns are headings and suites, rows features and cells."""

    name: str
    columns: tuple
    rows: tuple


def verified(sides):
    return tuple(rf"verified I/O: {side}, .*" for side in sides)


DATA_KEYS = tuple(f"ImmediateData={immediate}, InitialR2T={r2t}" for immediate in ("Yes", "No") for r2t in ("Yes", "No"))
CHAP_ALGORITHMS = ("MD5", "SHA1", "SHA-256", "SHA3-256")
INITIATOR = "linux_initiator_.*"
TARGET = "linux_target_.*"
TGT = "tgt_iser_.*"
LIBISCSI = "libiscsi_iser_.*"

TABLES = (
    Table("linux", (
        ("Linux's initiator: Soft-RoCE", "linux_initiator_roce"),
        ("Soft-iWARP", "linux_initiator_iwarp"),
        ("TCP", "linux_initiator_tcp"),
        ("Linux's target: Soft-RoCE", "linux_target_roce"),
        ("Soft-iWARP", "linux_target_iwarp"),
        ("TCP", "linux_target_tcp"),
    ), (
        ("discovery, login, logout", (
            Cell(INITIATOR, ("discovery", "login", "logout")),
            Cell(TARGET, ("discovery", "no session is left")))),
        ("verified I/O of 512 bytes to 512 KiB (target: 4 MiB), depth 1 to 32, disks in memory and in a file", (
            Cell(".*", verified(("ram", "file"))),)),
        ("the longest command of I/O of 4 MiB", (
            Cell(INITIATOR, (r"commands of (\d+ KiB)",), r"\1"),
            Cell(TARGET, (r"verified I/O: \w+, 4m, .*",), "4096 KiB"))),
        ("the peer offers ImmediateData and InitialR2T, each Yes and No: what is agreed on, and verified I/O", (
            Cell(".*", DATA_KEYS),)),
        ("InitialR2T=No declined, as Skiff comes", (
            Cell(".*", ("InitialR2T=No is declined",)),)),
        ("partition table, ext4, xfs, `fsck`", (
            Cell(INITIATOR, ("partition table, ext4 and xfs",)),)),
        ("`sg3_utils`", (Cell(INITIATOR, ("sg3_utils",)),)),
        ("resets under load", (
            Cell(INITIATOR, ("resets under load",), "3 with commands in flight"),
            Cell(TARGET, ("resets under load",), "3"))),
        ("commands that wait for their disk aborted (by Linux's initiator: for a timeout)", (
            Cell(".*", ("aborts",)),)),
        ("ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET and TARGET WARM RESET, with commands in flight", (
            Cell(TARGET, ("task management: .*",), "yes, or refused"),)),
        ("the target gone and back under load", (
            Cell(INITIATOR, ("target killed and restarted under load",)),
            Cell(TARGET, ("disabled and enabled under load",), otherwise=SEE_BELOW))),
        ("the target gone and back under ext4 and xfs: files verified, `fsck`, nothing in the kernel's log", (
            Cell(INITIATOR, ("target killed and restarted under file systems",)),)),
        ("the target gone and back while the session is idle", (
            Cell(TARGET, ("disabled and enabled while idle",)),)),
        ("CHAP, one-way and mutual, in discovery, too", (
            Cell(".*", ("CHAP in discovery: one-way", "CHAP in discovery: mutual", "CHAP: one-way", "CHAP: mutual, .*")),)),
        ("mutual CHAP by each of", (
            Cell(".*", tuple(f"CHAP: mutual, {name}" for name in CHAP_ALGORITHMS), ", ".join(CHAP_ALGORITHMS)),)),
        ("CHAP with a wrong secret of either side refused", (
            Cell(".*", ("CHAP: wrong secret of the initiator", "CHAP: wrong secret of the target")),)),
    )),
    Table("user-space", (
        ("tgt: Soft-RoCE", "tgt_iser_roce"),
        ("Soft-iWARP", "tgt_iser_iwarp"),
        ("libiscsi: Soft-RoCE", "libiscsi_iser_roce"),
        ("Soft-iWARP", "libiscsi_iser_iwarp"),
    ), (
        ("discovery", (Cell(".*", ("discovery",)),)),
        ("INQUIRY, capacity, VPD and mode pages by the peer's tools, or ours", (
            Cell(TGT, ("facts",)),
            Cell(LIBISCSI, ("inquiry", "block limits", "capacity", "mode page")))),
        ("verified I/O of 512 bytes to 1 MiB (libiscsi: 256 KiB)", (
            Cell(TGT, ("verified I/O: .*", "verified I/O: 512, depth 1", "verified I/O: .*, depth 32", "verified I/O: 1m, .*"),
                 "depth 1 to 32"),
            Cell(LIBISCSI, (r"writes at depth \d+, verified: 1 sessions", r"writes at depth \d+, verified: 4 sessions",
                            r"writes at depth 16, .*"),
                 "writes at depth 1 to 16, 1 and 4 sessions"))),
        ("reads of 512 bytes to 256 KiB that are not compared, depth 1 to 32", (
            Cell(LIBISCSI, ("reads: .*",)),)),
        ("a file copied there and back, and verified", (Cell(TGT, ("copies",)),)),
        ("ABORT TASK and CLEAR TASK SET, with commands in flight", (
            Cell(TGT, ("task management",), "not there; refused"),)),
        ("resets under load", (
            Cell("tgt_iser_roce", ("resets under load",), "once"),
            Cell("tgt_iser_iwarp", ("resets under load",), "3 times"))),
        ("tgtd killed and started again under load", (Cell(TGT, ("a restart under load",)),)),
        ("no session is left at the peer", (
            Cell(TGT, ("no session is left",), otherwise=SEE_BELOW),)),
    )),
)


def read_reports(directory):
    """Suites, each with the verdicts of its cases by their names."""
    suites = {}
    for path in directory.glob("**/test.xml"):
        for suite in xml.etree.ElementTree.parse(path).iter("testsuite"):
            cases = suites.setdefault(suite.get("name"), {})
            for case in suite.iter("testcase"):
                cases[case.get("name")] = next((verdict for path, verdict in VERDICTS if case.find(path) is not None), "passed")
    return suites


def cell_text(cell, suite, verdicts):
    found = [[(match, verdict) for name, verdict in verdicts.items() if (match := re.fullmatch(pattern, name))]
             for pattern in cell.cases]
    of_all = {verdict for matches in found for _, verdict in matches}
    if not of_all or of_all == {"skipped"}:
        return cell.otherwise
    if of_all != {"passed"}:
        return ", ".join(sorted(of_all)).upper()
    for pattern, matches in zip(cell.cases, found):
        if not matches:
            raise TableError(f"{suite} has no case '{pattern}', and others of the same feature")
    return found[-1][0][0].expand(cell.says)


def row_text(feature, cells, columns, suites, written):
    texts = []
    for number, (_, suite) in enumerate(columns):
        cell = next((cell for cell in cells if re.fullmatch(cell.suites, suite)), None)
        if suite not in suites:
            texts.append(written[feature, number])
        else:
            texts.append(NONE if cell is None else cell_text(cell, suite, suites[suite]))
    if set(texts) == {NONE}:
        raise TableError(f"no case is about this: {feature}")
    return f"| {' | '.join([feature, *texts])} |"


def missing(table, suites):
    return [suite for _, suite in table.columns if suite not in suites]


def written_cells(table, document):
    """What the document has, by feature and column; nothing for what is not there."""
    cells = collections.defaultdict(str)
    block = re.search(rf"<!-- table: {re.escape(table.name)} -->\n(.*?)<!-- end -->\n", document, re.DOTALL)
    for line in block[1].splitlines() if block else ():
        feature, *texts = (text.strip() for text in line.strip("|").split("|"))
        cells.update({(feature, number): text for number, text in enumerate(texts)})
    return cells


def table_lines(table, suites, document=None):
    """`document` has the columns of which there is no report; without it there has to be one of each."""
    if document is None and (absent := missing(table, suites)):
        raise TableError(f"there is no report of {absent[0]}")
    written = written_cells(table, document or "")
    return [f"| | {' | '.join(heading for heading, _ in table.columns)} |",
            "|---" * (len(table.columns) + 1) + "|",
            *(row_text(feature, cells, table.columns, suites, written) for feature, cells in table.rows)]


def replaced(document, tables):
    """The document with its tables made anew."""
    for name, lines in tables.items():
        block = re.compile(rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->\n)", re.DOTALL)
        if len(block.findall(document)) != 1:
            raise TableError(f"the document has not one place for the table {name}")
        text = "".join(f"{line}\n" for line in lines)
        document = block.sub(lambda match, text=text: match[1] + text + match[2], document)
    return document


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true")
    mode.add_argument("--write", action="store_true")
    parser.add_argument("--partial", action="store_true")
    parser.add_argument("--reports", type=pathlib.Path, default=ROOT / "bazel-testlogs", metavar="DIRECTORY")
    parser.add_argument("document", type=pathlib.Path, nargs="?", default=ROOT / "docs" / "interoperability.md")
    return parser.parse_args()


def main():
    options = parse_arguments()
    try:
        suites = read_reports(options.reports)
        before = options.document.read_text(encoding="utf-8") if options.check or options.write or options.partial else None
        tables = {table.name: table_lines(table, suites, before if options.partial else None) for table in TABLES}
        for suite in (suite for table in TABLES for suite in missing(table, suites)):
            print(f"taken from the document, as there is no report: {suite}")
        if not options.check and not options.write:
            print("\n\n".join("\n".join(lines) for lines in tables.values()))
            return 0
        after = replaced(before, tables)
    except (OSError, TableError, xml.etree.ElementTree.ParseError) as error:
        print(f"feature_table.py: {error}", file=sys.stderr)
        return 1
    if options.write:
        options.document.write_text(after, encoding="utf-8")
        return 0
    sys.stdout.writelines(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True),
                                               str(options.document), "from the reports"))
    return 0 if before == after else 1


if __name__ == "__main__":
    sys.exit(main())
