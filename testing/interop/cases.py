"""Collects what the cases of a test came to, for people and as the XML that Bazel takes."""

import os
import sys
import threading
import time
import xml.etree.ElementTree


class Cases:
    """Thread-safe. A case passes, fails, or is skipped with a reason."""

    def __init__(self, suite):
        self._suite = suite
        self._lock = threading.Lock()
        self._results = []
        self._began = time.monotonic()

    def passed(self, name, seconds=0.0):
        self._add(name, "passed", "", seconds)

    def skipped(self, name, reason, seconds=0.0):
        self._add(name, "skipped", reason, seconds)

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
                  for verdict in ("passed", "failed", "skipped")}
        self._write_xml(counts)
        print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped in "
              f"{time.monotonic() - self._began:.0f} s")
        return 0 if counts["failed"] == 0 and counts["passed"] > 0 else 1

    def _add(self, name, verdict, message, seconds):
        with self._lock:
            self._results.append((name, verdict, message, seconds))
            print(f"{verdict.upper():8}{name}{': ' + message if message else ''}")
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
            if verdict != "passed":
                kind = "failure" if verdict == "failed" else "skipped"
                printable = "".join(c for c in message if c.isprintable() or c in "\n\t")
                xml.etree.ElementTree.SubElement(case, kind, message=printable)
        xml.etree.ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
