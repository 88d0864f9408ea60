#!/usr/bin/env python3
"""skiff-bench with the transport of docs/examples, which is only linked; and what it makes of runs.

Usage: skiff_bench_test.py SKIFF-BENCH PROGRAM
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

BENCH = pathlib.Path(sys.argv[1]).absolute()
PROGRAM = pathlib.Path(sys.argv[2]).absolute()


def bench(*arguments):
    return subprocess.run([sys.executable, BENCH, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=50, check=False)


class SkiffBenchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def keep(self, name, **results):
        path = self.folder / name
        path.write_text(json.dumps({"machine": {}, "results": {each.replace("_", "/"): {"times_ns": times, "counters": {}}
                                                               for each, times in results.items()}}), encoding="utf-8")
        return path

    def expect_error(self, words, *arguments):
        done = bench(*arguments)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn(words, done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_measures_what_is_linked(self):
        kept = self.folder / "run.json"
        done = bench("run", "--program", PROGRAM, "--json", kept, "--repetitions", "2", "--min-time", "0.001", "--filter",
                     "codec/Encode|^is.*/Read/bytes:4096/depth:1$|inproc.*/SendRoundTrip/polling/size:64/")
        self.assertEqual(done.returncode, 0, done)
        results = json.loads(kept.read_text(encoding="utf-8"))["results"]
        for part in ("codec/Encode/R2t", "iscsi/Read/bytes:4096/depth:1", "iser/Read/bytes:4096/depth:1",
                     "inproc://bench:0/SendRoundTrip/polling/size:64"):
            (name,) = [each for each in results if each.startswith(part)]
            self.assertEqual(len(results[name]["times_ns"]), 2)
            self.assertIn(name, done.stdout)
        self.assertIn("initiator_ns", results["iscsi/Read/bytes:4096/depth:1"]["counters"])
        self.assertNotIn("DEBUG", done.stdout + done.stderr)
        chart = bench("chart", kept)
        self.assertEqual(chart.returncode, 0, chart)
        xml.etree.ElementTree.fromstring(chart.stdout)

    def test_compares_with_spread(self):
        before = self.keep("a.json", same=[100, 110, 120], slow=[100, 101, 102], quick=[100, 101, 102], gone=[1])
        after = self.keep("b.json", same=[118, 125, 130], slow=[150, 151, 152], quick=[50, 51, 52], new=[1])
        done = bench("compare", before, after, "--svg", self.folder / "both.svg", "--limit", "1.4")
        self.assertEqual(done.returncode, 1, done)
        rows = {line.split()[0]: line for line in done.stdout.splitlines() if line}
        self.assertRegex(rows["same"], r"1\.14 +within the spread")
        self.assertRegex(rows["slow"], r"1\.50 +slower")
        self.assertRegex(rows["quick"], r"0\.50 +faster")
        self.assertIn("only in " + str(before) + ": gone", done.stdout)
        self.assertIn("only in " + str(after) + ": new", done.stdout)
        self.assertIn("more than 1.4 times as slow: slow", done.stdout)
        xml.etree.ElementTree.fromstring((self.folder / "both.svg").read_text(encoding="utf-8"))
        self.assertEqual(bench("compare", before, after, "--limit", "1.6").returncode, 0)

    def test_draws_ours_beside_a_peer(self):
        report = self.folder / "report.json"
        report.write_text(json.dumps({"goals": [], "samples": {
            "tgt 4 KiB read IOPS": [100, 110], "skiff 4 KiB read IOPS": [1000, 1210], "raw 4 KiB read IOPS": [1, 1],
            "skiff 4 KiB µs": [10, 20], "tgt 4 KiB µs": [25, 40], "skiff alone": [1], "skiff odd": [1], "tgt odd": [1, 2],
            "skiff zero": [0], "tgt zero": [1]}}), encoding="utf-8")
        done = bench("beside", report, "--ours", "skiff", "--theirs", "tgt", "--filter", "KiB")
        self.assertEqual(done.returncode, 0, done)
        texts = [element.text for element in xml.etree.ElementTree.fromstring(done.stdout) if element.tag.endswith("text")]
        self.assertIn("skiff: how many times as fast as tgt; the lines span all rounds", texts)
        for label, ratio in (("4 KiB read IOPS", "10.5"), ("4 KiB µs", "2.25")):
            self.assertEqual(texts[texts.index(label) + 1], ratio)
        self.expect_error("other rounds", "beside", report, "--ours", "skiff", "--theirs", "tgt", "--filter", "odd")
        self.expect_error("no figures above 0", "beside", report, "--ours", "skiff", "--theirs", "tgt", "--filter", "zero")
        self.expect_error("no sample has", "beside", report, "--ours", "skiff", "--theirs", "LIO")
        self.expect_error("is no report", "beside", self.keep("a.json", one=[1.0]), "--ours", "skiff", "--theirs", "tgt")

    def test_names_what_is_wrong(self):
        good = self.keep("a.json", one=[1.0])
        broken = self.folder / "broken.json"
        for text in ("", "[]", "{}", '{"results": {"x": {}}}', '{"results": {"x": {"times_ns": [], "counters": {}}}}',
                     '{"results": {"x": {"times_ns": ["one"], "counters": {}}}}'):
            broken.write_text(text, encoding="utf-8")
            self.expect_error("broken.json", "compare", good, broken)
        self.expect_error("nowhere.json", "compare", good, self.folder / "nowhere.json")
        self.expect_error("no benchmark in common", "compare", good, self.keep("b.json", two=[1.0]))
        self.expect_error("nothing to draw", "chart", good, "--filter", "nothing")
        self.expect_error("cannot run", "run", "--program", self.folder / "nowhere")
        self.expect_error("matches", "run", "--program", PROGRAM, "--filter", "^nothing$")
        self.expect_error("above 0", "run", "--repetitions", "0")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
