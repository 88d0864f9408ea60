#!/usr/bin/env python3
"""Counts the test cases of a `bazel test`, from the file that --build_event_json_file wrote.

Usage: count_tests.py EVENTS
Prints one line for each failure, for each case that failed as it was expected to (by a fault of a peer's, which counts
neither as passed nor as skipped); in the end "N passed, N failed, N skipped".
A GoogleTest binary counts with its test cases, every other test target as one. A target that Bazel meant to run and did
not come to is a failure.
"""

import collections
import json
import pathlib
import sys
import urllib.parse
import xml.etree.ElementTree

# What Bazel says of a test that it did not run, if anything.
NO_STATUS = "NO_STATUS"
NOT_RUN = "not run: the time was up, or something before it failed"


class Target:
    """What the attempts (runs, shards) of one test target came to."""

    def __init__(self):
        self.status = NOT_RUN
        self.reports = []
        self.seconds = 0.0


def read_events(path):
    with open(path, encoding="utf-8") as events:
        for line in events:
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                # Bazel was stopped in the middle of a line.
                return


def read_targets(path):
    targets = collections.defaultdict(Target)
    for event in read_events(path):
        kind, name = next(iter(event["id"].items()))
        if kind == "targetConfigured":
            if "testSize" in event.get("configured", {}):
                # Makes it one of the targets, also if nothing follows.
                _ = targets[name["label"]]
        elif kind == "testResult":
            target = targets[name["label"]]
            result = event.get("testResult", {})
            target.seconds += int(result.get("testAttemptDurationMillis", "0")) / 1000
            if target.status != "FAILED":
                target.status = result.get("status", NO_STATUS)
            for output in result.get("testActionOutput", []):
                if output["name"] == "test.xml":
                    target.reports.append(pathlib.Path(urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)))
        elif kind == "testSummary":
            status = event.get("testSummary", {}).get("overallStatus", NO_STATUS)
            targets[name["label"]].status = NOT_RUN if status == NO_STATUS else status
        elif kind == "targetCompleted" and not event.get("completed", {}).get("success"):
            interrupted = event.get("aborted", {}).get("reason") == "USER_INTERRUPTED"
            targets[name["label"]].status = NOT_RUN if interrupted else "FAILED_TO_BUILD"
    return targets


def read_cases(report):
    """(name, verdict, reason) of each test case in a test.xml; the reason is that of an expected failure."""
    try:
        root = xml.etree.ElementTree.parse(report).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        # A test that is killed leaves none, or half of one.
        return
    for case in root.iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name', '')}".lstrip(".")
        expected = case.find("properties/property[@name='expected_failure']")
        if case.find("failure") is not None or case.find("error") is not None:
            yield name, "failed", ""
        elif expected is not None:
            yield name, "failed as expected", expected.get("value", "")
        elif case.get("status") == "notrun" or case.get("result") == "skipped" or case.find("skipped") is not None:
            yield name, "skipped", ""
        else:
            yield name, "passed", ""


def count(label, target, totals):
    cases = [case for report in target.reports for case in read_cases(report)]
    counts = collections.Counter(verdict for _, verdict, _ in cases)
    passed = target.status in ("PASSED", "FLAKY")
    for name, verdict, reason in cases:
        if verdict == "failed":
            print(f"FAILED: {label} {name}")
        elif verdict == "failed as expected":
            print(f"FAILED AS EXPECTED: {label} {name}: {reason}")
    if passed and not cases:
        counts["passed"] = 1
    if not passed and counts["failed"] == 0:
        # It crashed, hung or was never built: the report, if any, does not say so.
        print(f"FAILED: {label} ({target.status})")
        counts["failed"] = 1
    totals.update(counts)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    targets = read_targets(sys.argv[1])
    totals = collections.Counter()
    for label, target in sorted(targets.items()):
        count(label, target, totals)
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")


if __name__ == "__main__":
    main()
