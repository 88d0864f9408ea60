#!/usr/bin/env python3
"""Runs the conformance suite as a pair of hosts would, over the loopback interface.

Usage: pair_of_hosts_test.py CONFORMANCE
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
SECONDS = 240


class PairOfHostsTest(unittest.TestCase):
    def run_pair(self, url, *options):
        """Listens on `url`, tests from another process; the report and the exit status of the tests."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("GTEST_", "XML_OUTPUT"))}
        listener = subprocess.Popen(
            [PROGRAM, "--listen", url], env=environment, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(listener.wait)
        self.addCleanup(listener.kill)
        line = listener.stdout.readline()
        self.addCleanup(listener.stdout.close)
        self.assertIn("listening for --connect ", line)
        there = line.split()[-1]
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            done = subprocess.run(
                [PROGRAM, "--connect", there, "--json", report, *options],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            self.assertTrue(os.path.exists(report), done.stdout[-3000:])
            with open(report, encoding="utf-8") as file:
                return json.load(file), done

    def test_byte_streams(self):
        report, done = self.run_pair("tcp://127.0.0.1:0")
        self.assertEqual(done.returncode, 0, done.stdout[-3000:])
        self.assertGreater(report["passed"], 8)
        reasons = {test.get("not_supported") for test in report["tests"]}
        self.assertIn("this test by a pair of hosts", reasons)

    def test_messages_and_one_sided_operations(self):
        report, done = self.run_pair(
            "libfabric://127.0.0.1:0?provider=tcp", "--operations=50", "--messages=500", "--connections=20"
        )
        self.assertEqual(done.returncode, 0, done.stdout[-6000:])
        suites = {test["suite"] for test in report["tests"] if test["outcome"] == "passed"}
        self.assertLessEqual({"MessageTest", "OneSidedTest", "CompletionTest", "TeardownTest"}, suites)

    def test_listening_on_every_address_is_refused(self):
        done = subprocess.run(
            [PROGRAM, "--listen", "tcp://0.0.0.0:0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("address of this host", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
