#!/usr/bin/env python3
"""skiffd's metrics, the dashboard and the alerts, as a real Prometheus server takes them.

Usage: prometheus_test.py SKIFFD SKIFF
"""

import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
import dashboard
import stand
import peers  # pylint: disable=wrong-import-order
import raw_iscsi  # pylint: disable=wrong-import-order

DOCUMENT = pathlib.Path("docs/metrics.md")
ALERTS = pathlib.Path("testing/prometheus/alerts_test.yml")
LOAD_SECONDS = 12
INTERVAL = "4s"
MEBIBYTE = 1 << 20

SKIFFD = SKIFF = None


def documented():
    """The families of the tables in docs/metrics.md, which stand in the first columns."""
    lines = [line.split("|")[1] for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| `skiff_")]
    return {name for cell in lines for name in re.findall(r"`(skiff_\w+)`", cell)} | {"skiff_target_luns"}


def between(least, most):
    """Whether all numbers are, and some are not 0."""
    return lambda series: all(least <= value <= most for _, values in series for value in values) and any(
        value > 0 for _, values in series for value in values)


def several(*labels, least=1e-9, most=math.inf):
    """As between(), of some series; each of these label values is of one that was not 0."""
    def check(series):
        moved = {value for found, values in series if max(values, default=0) > 0 for value in found.values()}
        return set(labels) <= moved and all(0 <= value <= most for _, values in series for value in values) and max(
            value for _, values in series for value in values) >= least
    return check


def all_zero(series):
    return bool(series) and all(value == 0 for _, values in series for value in values)


def busy_share(series):
    """Of both reactors, each in at most all of its time; rates of counters are exact to a scrape."""
    return len(series) == 2 and between(0, 1.001)(series) and max(value for _, values in series for value in values) > 0.05


# What each panel shows of what Load does; none may be without.
MAKES_SENSE = {
    "Servers": between(1, 1),
    "Disks": between(4, 4),
    "Capacity": between(385 * MEBIBYTE, 385 * MEBIBYTE),
    "Sessions": between(0, 5),
    "Disks that lost data": all_zero,
    "Reactors answer": between(1, 1),
    "Operations": several("read", "write", stand.FAST, stand.DISKS, least=100),
    "Data": several("read", "write", stand.FAST, stand.DISKS, least=MEBIBYTE),
    "Latency of reads": several("4KiB", "larger", most=5),
    "Latency of writes": several("64KiB", "larger", most=5),
    "Queue depth": several(stand.FAST, stand.DISKS, most=16),
    "Errors": several("check_condition", "read"),
    "Sessions by transport": several("iSCSI", "iSER", "tcp", "libfabric", most=5),
    "Busiest initiators": several(*(f"iqn.2026-11.com.example:{name}" for name in ("reader", "writer", "rdma")), least=MEBIBYTE),
    "Logins": several("normal", most=5),
    "Refused logins": several("target not found (0x0203)", most=5),
    "Bytes by portal": several("in", "out", least=MEBIBYTE),
    "RDMA operations": several("read", "write"),
    "Errors of the network": all_zero,
    "Connections": several("iSCSI", "iSER", most=5),
    "Memory for data": between(0, 1 << 40),
    "Memory that was short": lambda series: bool(series) and all(0 <= value <= 1e4 for _, values in series for value in values),
    "Busy reactors": busy_share,
}


class AlertsTest(unittest.TestCase):
    def promtool(self, *arguments):
        done = subprocess.run([peers.find_program("promtool"), *map(str, arguments)], stdout=subprocess.PIPE, timeout=stand.SECONDS,
                              stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_rules_are_right(self):
        self.assertIn("SUCCESS", self.promtool("check", "rules", stand.RULES))

    # Each of them, and none where all is well.
    def test_they_come_when_they_should(self):
        self.promtool("test", "rules", ALERTS)
        tested = set(re.findall(r"alertname: (\w+)", ALERTS.read_text(encoding="utf-8")))
        self.assertEqual(tested, set(re.findall(r"alert: (\w+)", stand.RULES.read_text(encoding="utf-8"))))


class PrometheusTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = cls.enterClassContext(tempfile.TemporaryDirectory())
        skiffd = cls.enterClassContext(stand.Skiffd(SKIFFD, directory))
        cls.prometheus = cls.enterClassContext(stand.Prometheus(skiffd.metrics, directory))
        cls.skiffd = skiffd
        cls.begin = time.time()
        with stand.Load(SKIFF, skiffd, LOAD_SECONDS) as load:
            load.fail()
            load.wait()
        cls.end = time.time()

    def over_time(self, query):
        return self.prometheus.over_time(query, self.begin, self.end)

    def test_every_scrape_works(self):
        (target,) = self.prometheus.ask("targets")["activeTargets"]
        self.assertEqual((target["health"], target["lastError"]), ("up", ""))
        self.assertEqual(target["scrapeUrl"], f"http://{self.skiffd.metrics}/metrics")
        ((_, up),) = self.over_time('up{job="skiff"}')
        self.assertEqual({value for _, value in up}, {1})
        ((_, complete),) = self.over_time("skiff_snapshot_complete")
        self.assertEqual({value for _, value in complete}, {1})

    def test_families_are_those_of_the_document(self):
        names = set(self.prometheus.ask("label/__name__/values"))
        found = {re.sub(r"_(bucket|sum|count)$", "", name) if "duration" in name else name
                 for name in names if name.startswith("skiff_")}
        self.assertEqual(found, documented())

    def test_metadata_are_there(self):
        for name, (about,) in self.prometheus.ask("metadata").items():
            if name.startswith("skiff_"):
                self.assertNotIn(about["type"], ("", "unknown"), name)
                self.assertTrue(about["help"], name)

    def test_every_panel_shows_what_happened(self):
        panels = [panel for panel in dashboard.panels() if panel.queries]
        self.assertEqual({panel.title for panel in panels}, set(MAKES_SENSE))
        for panel in panels:
            with self.subTest(panel.title):
                for expression, _ in panel.queries:
                    self.assertTrue(self.over_time(dashboard.expand(expression, INTERVAL)), f"no data: {expression}")
                series = [(labels, [value for _, value in values if not math.isnan(value)])
                          for _, labels, values in panel.answers(self.over_time, INTERVAL)]
                self.assertTrue(MAKES_SENSE[panel.title](series), series)

    # A 4 KiB read is 4 KiB, whoever counts.
    def test_panels_agree(self):
        rate = f"[{LOAD_SECONDS}s]"
        lun = f'target="{stand.FAST}",lun="0",operation="read"'
        ((_, size),) = self.prometheus.now(f"increase(skiff_lun_bytes_total{{{lun}}}{rate}) / "
                                           f"increase(skiff_lun_commands_total{{{lun}}}{rate})")
        self.assertAlmostEqual(size, 4096, delta=1)
        ((_, timed),) = self.prometheus.now(f"sum(skiff_lun_command_duration_seconds_count{{{lun}}}) - "
                                            f"sum(skiff_lun_commands_total{{{lun}}})")
        self.assertEqual(timed, 0)

    def test_variables_have_values(self):
        self.assertEqual(set(self.prometheus.ask("label/target/values", **{"match[]": "skiff_lun_size_bytes"})),
                         {stand.FAST, stand.DISKS})
        self.assertEqual(set(self.prometheus.ask("label/lun/values", **{"match[]": "skiff_lun_size_bytes"})), {"0", "1"})

    def test_panels_ask_for_what_is_documented(self):
        asked = " ".join(expression for panel in dashboard.panels() for expression, _ in panel.queries)
        shown = {name.removesuffix("_bucket") for name in re.findall(r"skiff_\w+", asked)}
        self.assertLessEqual(shown, documented())

    # One that breaks a label would cost every metric: Prometheus drops a scrape with one line that it cannot read.
    def test_names_of_initiators_break_no_scrape(self):
        port = int(self.skiffd.tcp.rpartition(":")[2])
        for name in ('iqn.2026-11.com.example:"} 1', "iqn.2026-11.com.example:a\nb 1", "iqn.2026-11.com.example:a\\",
                     "iqn.2026-11.com.example:\udcff\udcc0\udc80", "others", ""):
            with self.subTest(name), raw_iscsi.Initiator(port) as initiator:
                self.assertEqual(initiator.login(name, stand.FAST)[0], 2)
        longest = "iqn.2026-11.com.example:größe-日本"
        longest += "x" * (223 - len(longest.encode()))
        with raw_iscsi.Initiator(port) as initiator:
            self.assertEqual(initiator.login(longest, stand.FAST), (0, 0))
            self.prometheus.wait_for(f'skiff_initiator_sessions{{initiator="{longest}"}} == 1', "the initiator")
        # It stays, as what its sessions did does.
        self.prometheus.wait_for(f'skiff_initiator_sessions{{initiator="{longest}"}} == 0', "its end")
        ((_, up),) = self.prometheus.over_time('up{job="skiff"}', self.begin, time.time())
        self.assertEqual({value for _, value in up}, {1})

    def test_the_failing_disk_is_an_alert(self):
        self.prometheus.wait_for('ALERTS{alertname="SkiffMediumFails",alertstate="firing",lun="1"}', "the alert")


if __name__ == "__main__":
    SKIFFD, SKIFF = (pathlib.Path(program).absolute() for program in sys.argv[1:])
    unittest.main(argv=sys.argv[:1])
