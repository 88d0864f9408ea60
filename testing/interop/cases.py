"""Collects what the cases of a test came to, for people and as the XML that Bazel takes."""

import os
import sys
import threading
import time
import xml.etree.ElementTree


class Cases:
    """Thread-safe. A case passes, fails, is skipped with a reason, or fails as expected, by a fault of the peer's own."""

    def __init__(self, suite):
        self._suite = suite
        self._lock = threading.Lock()
        self._results = []
        self._began = time.monotonic()

    def passed(self, name, seconds=0.0):
        self._add(name, "passed", "", seconds)

    def skipped(self, name, reason, seconds=0.0):
        self._add(name, "skipped", reason, seconds)

    def failed_as_expected(self, name, reason, seconds=0.0):
        self._add(name, "expected failure", reason, seconds)

    def failed(self, name, message, seconds=0.0):
        self._add(name, "failed", message, seconds)

    def run(self, name, function, *arguments):
        """A case that fails when the function raises, and then says why."""
        began = time.monotonic()
        try:
            function(*arguments)
        except Exception as error:  # pylint: disable=broad-except
            self.failed(name, f"{type(error).__name__}: {error}", time.monotonic() - began)
        else:
            self.passed(name, time.monotonic() - began)

    def finish(self):
        """Writes the report; the process's exit status."""
        counts = {verdict: sum(1 for result in self._results if result[1] == verdict)
                  for verdict in ("passed", "failed", "skipped", "expected failure")}
        self._write_xml(counts)
        print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped, "
              f"{counts['expected failure']} failed as expected in {time.monotonic() - self._began:.0f} s")
        return 0 if counts["failed"] == 0 and counts["passed"] > 0 else 1

    def _add(self, name, verdict, message, seconds):
        with self._lock:
            self._results.append((name, verdict, message, seconds))
            print(f"{verdict.upper():7} {name}{': ' + message if message else ''}")
            sys.stdout.flush()

    def _write_xml(self, counts):
        path = os.environ.get("XML_OUTPUT_FILE")
        if not path:
            return
        root = xml.etree.ElementTree.Element("testsuites")
        suite = xml.etree.ElementTree.SubElement(root, "testsuite", name=self._suite, tests=str(len(self._results)),
                                                 failures=str(counts["failed"]), skipped=str(counts["skipped"]))
        for name, verdict, message, seconds in self._results:
            case = xml.etree.ElementTree.SubElement(suite, "testcase", classname=self._suite, name=name,
                                                    time=f"{seconds:.3f}")
            printable = "".join(c for c in message if c.isprintable() or c in "\n\t")
            if verdict == "expected failure":
                # The format has no word for it; testing/count_tests.py knows this one.
                properties = xml.etree.ElementTree.SubElement(case, "properties")
                xml.etree.ElementTree.SubElement(properties, "property", name="expected_failure", value=printable)
            elif verdict != "passed":
                kind = "failure" if verdict == "failed" else "skipped"
                xml.etree.ElementTree.SubElement(case, kind, message=printable)
        xml.etree.ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
