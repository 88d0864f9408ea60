#!/usr/bin/env python3
"""What skiffd's metrics say, as a Prometheus server reads them.

Usage: metrics_test.py SKIFFD SKIFF
"""

import contextlib
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request

SECONDS = 60
NAME = "iqn.2026-11.com.example:disks"
MEBIBYTE = 1 << 20
HANGING = 200
SCRAPE_SECONDS = 10  # Prometheus's scrape_timeout.

SKIFFD = SKIFF = None


class Daemon:
    """A skiffd with two disks, which ends with the test."""

    def __init__(self, path, settings):
        self.log_path = path / "log"
        config = path / "skiffd.conf"
        config.write_text(f'{settings}\nportal: "tcp://127.0.0.1:0"\ntarget {{ name: "{NAME}"\n'
                          f'  lun {{ ram {{ size: "8MiB" }} }} lun {{ ram {{ size: "2MiB" }} }} }}\n', encoding="utf-8")
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([SKIFFD, "--config", config], stdout=subprocess.PIPE, stderr=log, text=True)
        self.ready = self.process.stdout.readline()
        portal = re.search(r"portal=(\S+)", self.ready)
        self.portal = portal and portal[1]
        metrics = re.search(r"metrics=(\S+)", self.ready)
        self.metrics = metrics and metrics[1]

    def end(self):
        self.process.terminate()
        status = self.process.wait(SECONDS)
        self.process.stdout.close()
        return status

    def log(self):
        return self.log_path.read_text(encoding="utf-8")

    def skiff(self, *arguments, data=b""):
        subprocess.run([SKIFF, *map(str, arguments)], check=True, timeout=SECONDS, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, input=data)

    def url(self, lun):
        return f"iscsi://{self.portal.removeprefix('tcp://')}/{NAME}/{lun}"

    def maps(self):
        return pathlib.Path(f"/proc/{self.process.pid}/maps").read_text(encoding="utf-8")

    def scrape(self, seconds=SECONDS):
        with urllib.request.urlopen(self.metrics, timeout=seconds) as answer:
            return answer.read().decode()


def values(text):
    """{name and labels in their order: value}."""
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in lines}


class MetricsTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def start(self, settings='metrics { listen: "127.0.0.1:0" }'):
        daemon = Daemon(pathlib.Path(self.directory.name), settings)

        def end():
            if daemon.process.returncode is None:
                self.assertEqual(daemon.end(), 0, daemon.log())

        self.addCleanup(end)
        self.assertIsNotNone(daemon.portal, daemon.log())
        return daemon

    def test_nothing_is_loaded_where_nothing_is_served(self):
        daemon = self.start("")
        self.assertNotIn("prometheus", daemon.maps())
        self.assertNotIn("metrics=", daemon.ready)

    def test_what_initiators_did(self):
        daemon = self.start()
        self.assertIn("prometheus", daemon.maps())
        daemon.skiff("write", daemon.url(1), "-q", data=b"d" * MEBIBYTE)
        daemon.skiff("read", daemon.url(1), "-q")
        found = values(daemon.scrape())
        lun = f'target="{NAME}",lun="1"'
        self.assertEqual(found[f'skiff_lun_bytes_total{{{lun},operation="write"}}'], MEBIBYTE)
        self.assertEqual(found[f'skiff_lun_bytes_total{{{lun},operation="read"}}'], 2 * MEBIBYTE)
        commands = found[f'skiff_lun_commands_total{{{lun},operation="write"}}']
        self.assertGreaterEqual(commands, 1)
        timed = sum(value for name, value in found.items() if
                    name.startswith(f'skiff_lun_command_duration_seconds_count{{{lun},operation="write"'))
        self.assertEqual(timed, commands)
        other = f'target="{NAME}",lun="0"'
        self.assertEqual(found[f'skiff_lun_bytes_total{{{other},operation="write"}}'], 0)
        self.assertEqual(found[f'skiff_lun_size_bytes{{{other}}}'], 8 * MEBIBYTE)
        self.assertEqual(found['skiff_logins_total{type="normal"}'], 2)
        self.assertEqual(found["skiff_snapshot_complete"], 1)
        portal = f'portal="{daemon.portal}",data_model="iSCSI",transport="tcp"'
        portal = re.sub(r":\d+\"", ":0\"", portal, count=1)  # As it is configured.
        self.assertEqual(found[f"skiff_portal_connections_total{{{portal}}}"], 2)
        self.assertEqual(found[f"skiff_portal_connections{{{portal}}}"], 0)
        self.assertGreater(found[f'skiff_portal_bytes_total{{{portal},direction="in"}}'], MEBIBYTE)
        self.assertGreater(found['skiff_reactor_idle_seconds_total{reactor="0"}'], 0)
        self.assertGreater(found['skiff_reactor_busy_seconds_total{reactor="0"}'], 0)

    def test_who_was_refused(self):
        daemon = self.start()
        with contextlib.suppress(subprocess.CalledProcessError):
            daemon.skiff("capacity", f"iscsi://{daemon.portal.removeprefix('tcp://')}/iqn.2026-11.com.example:nothing/0")
        self.assertEqual(values(daemon.scrape())['skiff_logins_refused_total{reason="target not found (0x0203)"}'], 1)

    def test_sessions_are_there_while_they_last(self):
        daemon = self.start()
        watch = subprocess.Popen([SKIFF, "perf", daemon.url(0), "--rw=randread", "--runtime=30s"], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        try:
            for _ in range(1000):
                found = [name for name in values(daemon.scrape()) if name.startswith("skiff_initiator_sessions")]
                if found:
                    break
            self.assertEqual(len(found), 1)
            self.assertIn(f'target="{NAME}"', found[0])
            self.assertIn('data_model="iSCSI",transport="tcp"', found[0])
        finally:
            watch.send_signal(signal.SIGINT)
            watch.wait(SECONDS)

    # Clients that hang, and clients that ask without end: initiators notice nothing, and the end comes in time.
    def test_clients_that_misbehave(self):
        daemon = self.start()
        host, port = re.search(r"http://([\d.]+):(\d+)/", daemon.metrics).groups()
        silent = [socket.create_connection((host, int(port))) for _ in range(HANGING)]
        for connection in silent:
            connection.sendall(b"GET /met")
        self.assertIn("skiff_snapshot_complete", daemon.scrape(SCRAPE_SECONDS))
        stop = threading.Event()

        def ask():
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    daemon.scrape()

        asking = [threading.Thread(target=ask) for _ in range(4)]
        for thread in asking:
            thread.start()
        try:
            for _ in range(5):
                daemon.skiff("capacity", daemon.url(0))
        finally:
            stop.set()
            for thread in asking:
                thread.join()
        self.assertEqual(daemon.end(), 0, daemon.log())
        for connection in silent:
            connection.close()

    def test_an_address_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            address = f"127.0.0.1:{other.getsockname()[1]}"
            daemon = Daemon(pathlib.Path(self.directory.name), f'metrics {{ listen: "{address}" }}')
            self.assertEqual(daemon.ready, "")
            self.assertEqual(daemon.process.wait(SECONDS), 1)
            daemon.process.stdout.close()
            self.assertRegex(daemon.log(), rf"skiffd\.conf:1: cannot serve metrics at {address}")


if __name__ == "__main__":
    SKIFFD, SKIFF = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
