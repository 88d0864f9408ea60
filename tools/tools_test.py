#!/usr/bin/env python3
"""Runs skiffd and skiff together on the loopback interface, as users would.

Usage: tools_test.py SKIFFD SKIFF
"""

import contextlib
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SKIFFD, SKIFF = (os.path.abspath(path) for path in sys.argv[1:3])
NAME = "iqn.2026-11.com.example:disks"
OTHER = "iqn.2026-11.com.example:other"
SECONDS = 60
MIB = 1 << 20

OK, FAILED, USAGE, NO_SESSION, VERIFY_FAILED = range(5)


class Daemon:
    """A skiffd on a free port."""

    def __init__(self, *arguments, **options):
        # A file: nobody reads a pipe while skiffd runs.
        self._log = tempfile.TemporaryFile("w+")
        self._last_log = ""
        self.process = subprocess.Popen([SKIFFD, *arguments], stdout=subprocess.PIPE, stderr=self._log, text=True,
                                        **options)
        self.ready = self.process.stdout.readline().strip()
        self.portals = re.findall(r"portal=tcp://(\S+)", self.ready)
        self.portal = self.portals[0] if self.portals else None

    @property
    def log(self):
        if self._log.closed:
            return self._last_log
        self._log.seek(0)
        return self._log.read()

    def wait_for_log(self, pattern, poke=lambda: None):
        """Waits until a line matches, and calls `poke` in between."""
        deadline = time.monotonic() + SECONDS
        while not re.search(pattern, self.log, re.MULTILINE):
            if time.monotonic() > deadline:
                raise AssertionError(f"no line matches {pattern}:\n{self.log}")
            poke()
            time.sleep(0.05)

    def url(self, lun=None, name=NAME):
        return f"iscsi://{self.portal}/{name}" + ("" if lun is None else f"/{lun}")

    def end(self, number=signal.SIGTERM):
        """Sends a signal; the exit status."""
        self.process.send_signal(number)
        try:
            return self.process.wait(SECONDS)
        finally:
            self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self._last_log = self.log
        self._log.close()


def skiff(*arguments, stdin=b"", env=None):
    environment = {key: value for key, value in os.environ.items() if key != "SKIFF_PASSWORD"}
    environment.update(env or {})
    return subprocess.run([SKIFF, *map(str, arguments)], input=stdin, capture_output=True, timeout=SECONDS,
                          env=environment, check=False)


class ToolsTest(unittest.TestCase):
    """Shares one daemon with two targets: LUN 0 in memory, 1 in a file, 2 read-only."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.directory.name)
        (cls.path / "fixed.img").write_bytes(b"\x5a" * MIB)
        cls.daemon = Daemon("--listen", "tcp://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0", "--target", NAME,
                            "--lun", "ram:64MiB", "--lun", f"file:{cls.path}/disk.img,size=16MiB,block_size=4096",
                            "--lun", f"file:{cls.path}/fixed.img,read_only,serial=FIXED",
                            "--target", OTHER, "--lun", "ram:1MiB,lun=300")

    @classmethod
    def tearDownClass(cls):
        status = cls.daemon.end()
        cls.directory.cleanup()
        if status != 0:
            raise AssertionError(f"skiffd ended with {status}:\n{cls.daemon.log}")

    def run_ok(self, *arguments, **options):
        result = skiff(*arguments, **options)
        self.assertEqual(result.returncode, OK, (arguments, result.stderr.decode()))
        return result

    def run_json(self, *arguments, **options):
        return json.loads(self.run_ok(*arguments, "--json", **options).stdout)

    def check_failure(self, code, pattern, *arguments, **options):
        result = skiff(*arguments, **options)
        self.assertEqual(result.returncode, code, (arguments, result.stderr.decode()))
        self.assertRegex(result.stderr.decode(), pattern)
        return result

    def test_ready_line_names_what_is_bound(self):
        self.assertRegex(self.daemon.ready,
                         rf"^ready( portal=tcp://127\.0\.0\.1:[1-9]\d*){{2}} target={NAME} target={OTHER}$")
        self.assertNotEqual(*self.daemon.portals)

    def test_discover(self):
        expected = [f"{portal},1" for portal in self.daemon.portals]
        self.assertEqual(self.run_json("discover", self.daemon.portal),
                         {"targets": [{"name": NAME, "portals": expected}, {"name": OTHER, "portals": expected}]})
        text = self.run_ok("discover", f"iscsi://{self.daemon.portals[1]}").stdout.decode()
        self.assertIn(NAME, text)
        self.assertIn(OTHER, text)

    def test_ls(self):
        targets = self.run_json("ls", self.daemon.portal)["targets"]
        luns = {(target["name"], lun["lun"]): (lun["size"], lun["block_size"]) for target in targets
                for lun in target["luns"]}
        self.assertEqual(luns, {(NAME, 0): (64 * MIB, 512), (NAME, 1): (16 * MIB, 4096), (NAME, 2): (MIB, 512),
                                (OTHER, 300): (MIB, 512)})
        text = self.run_ok("ls", self.daemon.url()).stdout.decode()
        self.assertRegex(text, rf"(?m)^{NAME} +2  1 MiB +512  SKIFF +SKIFF DISK +\S+  FIXED$")
        self.assertNotIn(OTHER, text)

    def test_inquiry(self):
        inquiry = self.run_json("inquiry", self.daemon.url(0))["inquiry"]
        self.assertEqual((inquiry["vendor"], inquiry["product"]), ("SKIFF", "SKIFF DISK"))
        pages = self.run_json("inquiry", self.daemon.url(2), "--vpd", "80", "--vpd=0xb0")
        self.assertEqual(pages["unit_serial_number"], {"serial": "FIXED"})
        self.assertGreater(pages["block_limits"]["max_transfer_length"], 0)
        everything = self.run_json("inquiry", self.daemon.url(2), "--vpd", "all")
        self.assertIn("device_identification", everything)
        self.assertIn("vendor:", self.run_ok("inquiry", self.daemon.url(0)).stdout.decode())
        self.check_failure(FAILED, "INVALID FIELD IN CDB", "inquiry", self.daemon.url(0), "--vpd", "c0")
        self.check_failure(USAGE, "no page code", "inquiry", self.daemon.url(0), "--vpd", "seven")

    def test_transports(self):
        report = self.run_json("transports")
        devices = {(transport["scheme"], device["name"]): device for transport in report["transports"]
                   for device in transport["devices"]}
        loopback = devices["tcp", "lo"]
        self.assertTrue(loopback["usable"])
        self.assertEqual(loopback["link"], "up")
        self.assertIn("127.0.0.1", loopback["addresses"])
        self.assertFalse(loopback["capabilities"]["rdma"])
        for device in devices.values():
            self.assertNotEqual(device["usable"], "problem" in device, device)
        emulated = devices["libfabric", "tcp/lo"]
        self.assertEqual((emulated["usable"], emulated["emulated"], emulated["address_options"]),
                         (True, True, {"provider": "tcp"}))
        self.assertTrue(emulated["capabilities"]["rdma"])
        self.assertEqual(set(report["limits"]), {"locked_memory", "open_files"})
        self.assertIn("ib_uverbs", [module["name"] for module in report["modules"]])
        text = self.run_ok("transports").stdout.decode()
        self.assertRegex(text, r"(?m)^tcp +lo +yes +tcp +up +65536 +127\.0\.0\.1$")
        self.check_failure(USAGE, "timeout", "transports", "--timeout=1s")

    def test_transports_tells_of_limits(self):
        result = subprocess.run(["bash", "-c", 'ulimit -n 256; exec "$0" transports', SKIFF], capture_output=True,
                                timeout=SECONDS, check=True)
        self.assertRegex(result.stdout.decode(), r"(?m)^  open files: .*(ulimit -n 4096|limits.conf)")

    def test_capacity(self):
        capacity = self.run_json("capacity", self.daemon.url(1))["capacity"]
        self.assertEqual((capacity["size"], capacity["blocks"], capacity["block_size"], capacity["read_only"]),
                         (16 * MIB, 4096, 4096, False))
        self.assertTrue(self.run_json("capacity", self.daemon.url(2))["capacity"]["read_only"])
        self.assertIn("1048576 bytes (1 MiB)", self.run_ok("capacity", self.daemon.url(300, OTHER)).stdout.decode())

    def test_write_and_read(self):
        data = os.urandom(3 * 4096)
        self.run_ok("write", self.daemon.url(1), "--offset", "8k", "--verify", stdin=data)
        result = self.run_ok("read", self.daemon.url(1), "--offset", "8192", "--length", str(len(data)))
        self.assertEqual(result.stdout, data)
        self.assertIn(b"12 KiB copied", result.stderr)
        self.assertEqual((self.path / "disk.img").read_bytes()[8192:8192 + len(data)], data)
        quiet = self.run_ok("read", self.daemon.url(1), "--length", "4k", "-q")
        self.assertEqual((len(quiet.stdout), quiet.stderr), (4096, b""))

    def test_write_wants_whole_blocks(self):
        self.check_failure(USAGE, "standard input has 100 bytes, no multiple of the block size, 4096: --pad",
                           "write", self.daemon.url(1), stdin=b"x" * 100)
        self.run_ok("write", self.daemon.url(1), "--pad", stdin=b"x" * 100)
        self.assertEqual(self.run_ok("read", self.daemon.url(1), "--length", "4096").stdout,
                         b"x" * 100 + b"\0" * 3996)

    def test_copy_there_and_back(self):
        source, back = self.path / "source", self.path / "back"
        source.write_bytes(os.urandom(5 * MIB + 512))
        report = self.run_json("copy", source, self.daemon.url(0), "--verify", "--transfer-size", "256k", "--depth",
                               "4")
        self.assertEqual((report["bytes"], report["verified"]), (5 * MIB + 512, True))
        self.run_ok("copy", self.daemon.url(0), back, "--length", str(5 * MIB + 512), "--verify")
        self.assertEqual(back.read_bytes(), source.read_bytes())

    def test_copy_between_luns_with_offsets(self):
        data = os.urandom(MIB)
        self.run_ok("write", self.daemon.url(0), "--offset", "32MiB", stdin=data)
        self.run_ok("copy", self.daemon.url(0), self.daemon.url(300, OTHER), "--source-offset", "32MiB", "--length",
                    "512KiB", "--destination-offset", "512KiB", "--verify")
        self.assertEqual(self.run_ok("read", self.daemon.url(300, OTHER), "--offset", "512KiB").stdout,
                         data[:MIB // 2])

    def test_copy_sparse(self):
        self.run_ok("write", self.daemon.url(0), "--offset", "40MiB", stdin=b"\xff" * (3 * MIB))
        source = self.path / "sparse"
        data = bytearray(3 * MIB)
        data[MIB:MIB + 4096] = os.urandom(4096)
        source.write_bytes(data)
        self.run_ok("copy", source, self.daemon.url(0), "--destination-offset", "40MiB", "--sparse", "--verify")
        target = self.path / "sparse-back"
        self.run_ok("copy", self.daemon.url(0), target, "--source-offset", "40MiB", "--length", "3MiB", "--sparse")
        self.assertEqual(target.read_bytes(), bytes(data))
        self.assertLess(target.stat().st_blocks * 512, 2 * MIB)

    def test_copy_says_what_cannot_be(self):
        self.check_failure(USAGE, "neither end is a logical unit", "copy", "a", "b")
        self.check_failure(USAGE, "cannot open .*/none: No such file", "copy", self.path / "none", self.daemon.url(0))
        self.check_failure(USAGE, "do not fit into the 1048576 bytes", "copy", self.daemon.url(0),
                           self.daemon.url(300, OTHER))
        self.check_failure(USAGE, "cannot be read again", "copy", self.daemon.url(0), "-", "--verify")
        self.check_failure(USAGE, "must be a multiple of the block size, 4096", "read", self.daemon.url(1), "--offset",
                           "512")
        self.check_failure(FAILED, "write-protected", "write", self.daemon.url(2), stdin=b"x" * 512)
        self.check_failure(FAILED, "longer than the 1048576 bytes", "write", self.daemon.url(300, OTHER),
                           stdin=bytes(2 * MIB))

    def test_copy_writes_no_progress_without_a_terminal(self):
        result = self.run_ok("read", self.daemon.url(0), "--length", "8MiB")
        self.assertRegex(result.stderr.decode(), r"\A8 MiB copied in .*\n\Z")

    def test_copy_shows_progress_on_a_terminal(self):
        terminal, stderr = pty.openpty()
        with subprocess.Popen([SKIFF, "write", self.daemon.url(0), "--transfer-size=64k", "--depth=2"], stderr=stderr,
                              stdin=subprocess.PIPE) as process:
            os.close(stderr)
            # Slow enough to be seen.
            for _ in range(20):
                process.stdin.write(bytes(128 << 10))
                process.stdin.flush()
                time.sleep(0.05)
            process.stdin.close()
            shown = b""
            try:
                while chunk := os.read(terminal, 65536):
                    shown += chunk
            except OSError:
                pass  # A terminal's way to say that nobody holds its other end.
        os.close(terminal)
        self.assertEqual(process.returncode, OK)
        self.assertRegex(shown.decode(), r"\rcopying  [0-9.]+ [KM]iB  \d+ MB/s\x1b\[K")
        self.assertRegex(shown.decode(), r"\r\x1b\[K2.5 MiB copied in ")

    def test_read_writes_no_bytes_to_a_terminal(self):
        terminal, stdout = pty.openpty()
        result = subprocess.run([SKIFF, "read", self.daemon.url(0)], stdout=stdout, stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL, timeout=SECONDS, check=False)
        os.close(stdout)
        os.close(terminal)
        self.assertEqual(result.returncode, USAGE)
        self.assertIn(b"standard output is a terminal", result.stderr)

    def test_perf(self):
        for kind in ("read", "write", "rw", "randread", "randwrite", "randrw"):
            report = self.run_json("perf", self.daemon.url(0), f"--rw={kind}", "--bs=16k", "--iodepth=8", "--size=8MiB",
                                   "--offset=48MiB")
            ios = sum(report.get(side, {"ios": 0})["ios"] for side in ("read", "write"))
            self.assertEqual(ios, 512, kind)
            self.assertEqual((report["rw"], report["transport"], report["data_model"]), (kind, "tcp", "iSCSI"))
            for side in set(report) & {"read", "write"}:
                percentiles = list(report[side]["latency_us"]["percentiles"].values())
                self.assertEqual(percentiles, sorted(percentiles))
                self.assertGreater(report[side]["iops"], 0)
        text = self.run_ok("perf", self.daemon.url(0), "--size=4MiB", "--iodepth=4", "--spin=always").stdout.decode()
        self.assertIn("randread 4 KiB, queue depth 4, 1 job", text)
        self.assertIn("CPU ", text)

    def test_perf_runs_for_the_runtime(self):
        report = self.run_json("perf", self.daemon.url(0), "--runtime=300ms", "--size=1MiB", "--numjobs=2")
        self.assertGreaterEqual(report["seconds"], 0.3)
        self.assertLess(report["seconds"], 10)

    def test_perf_verifies(self):
        area = ("--bs=8k", "--iodepth=16", "--size=8MiB", "--offset=16MiB", "--verify=crc32c")
        report = self.run_json("perf", self.daemon.url(0), "--rw=write", "--numjobs=2", *area)
        self.assertEqual(report["verified_blocks"], 1024)
        self.assertEqual(report["sent_again"], {"interrupted": 0, "unanswered": 0})
        self.assertEqual(report["recovered_errors"], 0)
        report = self.run_json("perf", self.daemon.url(0), "--rw=randrw", *area)
        self.assertGreater(report["verified_blocks"], 1024)
        report = self.run_json("perf", self.daemon.url(0), "--rw=read", *area)
        self.assertEqual(report["verified_blocks"], 1024)
        # One changed byte is found.
        self.run_ok("write", self.daemon.url(0), "--offset", str(16 * MIB + 512), stdin=b"\xff" * 512)
        result = self.check_failure(VERIFY_FAILED, "offset 16777216: the checksum is wrong", "perf", self.daemon.url(0),
                                    "--rw=read", "--json", *area)
        self.assertEqual(json.loads(result.stdout)["error"]["exit_code"], VERIFY_FAILED)

    def test_perf_refuses_what_makes_no_sense(self):
        url = self.daemon.url(1)
        self.check_failure(USAGE, "must be a multiple of the block size, 4096", "perf", url, "--bs=512")
        self.check_failure(USAGE, "none of read, write", "perf", url, "--rw=trim")
        self.check_failure(USAGE, "beyond the end", "perf", url, "--size=1GiB")
        self.check_failure(USAGE, "4x", "perf", url, "--bs=4x")

    def test_digests(self):
        data = os.urandom(MIB)
        for flags in (("--header-digest=crc32c", "--data-digest=crc32c"), ("--data-digest=crc32c,none",)):
            self.run_ok("write", self.daemon.url(0), "--verify", *flags, stdin=data)
            self.assertEqual(self.run_ok("read", self.daemon.url(0), "--length=1MiB", *flags).stdout, data)
        self.check_failure(USAGE, "'md5' is no digest", "ls", self.daemon.url(), "--data-digest=md5")

    def test_ping_and_reset(self):
        report = self.run_json("ping", self.daemon.url(), "-c", "3", "--interval", "1ms")
        self.assertEqual((report["sent"], report["received"], len(report["round_trips_us"])), (3, 3, 3))
        session = report["session"]
        self.assertEqual((session["target"], session["transport"], session["data_model"], session["device"]),
                         (NAME, "tcp", "iSCSI", ""))
        self.assertEqual(session["keys"]["ErrorRecoveryLevel"], "0")
        self.assertEqual((session["reconnects"], session["retries"], session["fallbacks"]), (0, 0, []))
        self.assertGreaterEqual(session["counters"]["pdus_out"], 4)
        told = skiff("ping", self.daemon.url(), "-c", "1", "-v").stderr.decode()
        self.assertRegex(told, f"{NAME} at {self.daemon.portal}: iSCSI over tcp")
        self.assertRegex(told, "  .*ErrorRecoveryLevel=0")
        self.assertRegex(told, r"  commands=0 retries=0 reconnects=0\n.*  pdus_in=\d+ .*payload_bytes_copied=0")
        self.assertNotIn(b"pdus_in", skiff("ping", self.daemon.url(), "-c", "1").stderr)
        self.run_ok("reset", self.daemon.url(0))
        self.run_ok("capacity", self.daemon.url(0))
        self.check_failure(USAGE, "names no logical unit", "reset", self.daemon.url())

    def test_parts_of_a_url_are_not_ignored(self):
        self.check_failure(USAGE, "names a target, but this is about the whole portal", "discover", self.daemon.url())
        for command in (["ls"], ["ping"], ["reset", "--target"]):
            self.check_failure(USAGE, "names logical unit 0, but this is not about one", *command, self.daemon.url(0))

    def test_the_scheme_chooses_the_transport(self):
        result = self.run_ok("ls", f"auto://{self.daemon.portal}")
        self.assertIn(NAME, result.stdout.decode())
        self.assertRegex(result.stderr.decode(), "TCP instead of RDMA: ")
        session = json.loads(self.run_ok("ls", f"auto://{self.daemon.portal}", "--json").stdout)["targets"][0]["session"]
        self.assertRegex(session["fallbacks"][0], "TCP instead of RDMA: ")
        self.check_failure(NO_SESSION, "RDMA", "ls", f"iser://{self.daemon.portal}")
        self.check_failure(USAGE, "option .*nonsense", "ls", f"iser://{self.daemon.portal}?nonsense=1")
        self.check_failure(USAGE, "is no RDMA transport", "ls", f"iser://{self.daemon.portal}?transport=tcp")

    def test_no_session(self):
        result = self.check_failure(NO_SESSION, "(?s)not found.*discovery shows .*" + NAME, "ls",
                                    f"iscsi://{self.daemon.portal}/iqn.2026-11.com.example:none", "--json")
        error = json.loads(result.stdout)["error"]
        self.assertEqual(error["exit_code"], NO_SESSION)
        self.check_failure(NO_SESSION, "refused.*listening", "discover", "127.0.0.1:1")
        self.check_failure(FAILED, "has no LUN 9; it has 0, 1, 2", "capacity", self.daemon.url(9))

    def test_credentials_are_not_ignored(self):
        url = self.daemon.url(0).replace("iscsi://", "iscsi://user%secret@")
        result = self.check_failure(USAGE, "a secret for CHAP has 6 bytes", "capacity", url)
        self.assertNotIn(b"secret@", result.stderr)
        self.check_failure(USAGE, "SKIFF_PASSWORD", "ls", self.daemon.portal, env={"SKIFF_PASSWORD": "x"})
        self.check_failure(USAGE, "f: No such file", "ls", self.daemon.portal, "--password-file", "f")
        self.check_failure(USAGE, "--target-user needs", "ls", self.daemon.portal, "--target-user", "f")
        url = self.daemon.url(0).replace("iscsi://", "iscsi://user%twelve bytes@")
        self.assertIn(b"lets everybody in", self.run_ok("capacity", url).stderr)

    def test_initiator_name_reaches_the_target(self):
        name = "iqn.2026-11.com.example:somebody"
        with subprocess.Popen([SKIFF, "ping", self.daemon.url(), "-c", "1000", "--interval", "10ms",
                               "--initiator-name", name], stdout=subprocess.DEVNULL) as ping:
            self.daemon.wait_for_log(rf"TSIH \d+: {name} from 127\.0\.0\.1:\d+ to {NAME} at ",
                                     lambda: self.daemon.process.send_signal(signal.SIGUSR1))
            self.daemon.wait_for_log(r"  \d+ PDUs in, \d+ out; \d+ bytes in, \d+ out; 0 payload bytes copied")
            self.daemon.wait_for_log(r"  \d+ reads \(.*\), \d+ writes \(.*\), \d+ others")
            self.daemon.wait_for_log(r"  HeaderDigest=None .*MaxRecvDataSegmentLength=\d+/\d+ .*ErrorRecoveryLevel=0")
            self.daemon.wait_for_log(r"memory budget: .* of .* used; 0 times it had no room")
            self.daemon.wait_for_log(r"buffers: .* of .* held; 0 commands wait, 0 writes were given up")
            ping.terminate()


class SkiffdTest(unittest.TestCase):
    """Starts and ends daemons of its own."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def run_skiffd(self, *arguments):
        return subprocess.run([SKIFFD, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)

    def start(self, *arguments, **options):
        daemon = Daemon(*arguments, **options)
        self.addCleanup(daemon.close)
        return daemon

    def quick(self):
        return self.start("--listen", "tcp://127.0.0.1:0", "--target", NAME, "--lun", "ram:64MiB")

    def test_serves_a_configuration_file(self):
        config = self.path / "skiffd.conf"
        config.write_text(f'portal: "tcp://127.0.0.1:0"\nreactors {{ count: 2 spin: "20us" }}\n'
                          f'target {{ name: "{NAME}" alias: "disks" lun {{ ram {{ size: "1MiB" }} }} }}\n')
        check = self.run_skiffd("--check", "--config", str(config))
        self.assertEqual((check.returncode, check.stdout, check.stderr), (0, f"{config}: ok\n", ""))
        daemon = self.start("--config", str(config), "--log-level", "debug")
        listed = skiff("ls", daemon.portal)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn(NAME, listed.stdout.decode())
        self.assertEqual(daemon.end(signal.SIGINT), 0)
        self.assertRegex(daemon.log, r"(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z info  Interrupt: ending")
        self.assertRegex(daemon.log, r"Z debug ")

    def test_takes_the_descriptors_that_it_may_have(self):
        config = self.path / "skiffd.conf"
        luns = "".join(f'lun {{ file {{ path: "{self.path}/{number}" size: "1MiB" }} }}\n' for number in range(100))
        config.write_text(f'portal: "tcp://127.0.0.1:0"\ntarget {{ name: "{NAME}" {luns} }}\n')
        hard = min(1000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])

        def limits(soft, most=hard):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))

        daemon = self.start("--config", str(config), preexec_fn=limits(64))
        self.assertIsNotNone(daemon.portal, daemon.log)
        self.assertRegex(daemon.log, rf"max_connections is \d\d\d, for which the limit of {hard} open files has room")
        self.assertEqual(daemon.end(), 0)
        with config.open("a") as more:
            more.write("limits { max_connections: 4096 }\n")
        daemon = self.start("--config", str(config), preexec_fn=limits(64))
        self.assertIsNotNone(daemon.portal, daemon.log)
        self.assertRegex(daemon.log, rf"warn +max_connections is 4096, but the limit of {hard} open files has room")
        self.assertEqual(daemon.end(), 0)

    # Its check of virtual calls opens a pipe. ThreadSanitizer's build runs this.
    @unittest.skipIf("UBSAN_OPTIONS" in os.environ, "UndefinedBehaviorSanitizer needs descriptors")
    def test_says_that_descriptors_ran_out(self):
        config = self.path / "skiffd.conf"
        config.write_text(f'portal: "tcp://127.0.0.1:0"\nlimits {{ max_connections: 4096 max_logins_per_peer: 4096 '
                          f'max_connections_in_login: 4096 }}\ntarget {{ name: "{NAME}" lun {{ ram {{ size: "1MiB" }} }} }}\n')
        daemon = self.start("--config", str(config),
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
        host, port = daemon.portal.split(":")
        with contextlib.ExitStack() as held:
            for _ in range(150):
                held.enter_context(socket.create_connection((host, port), SECONDS))
            daemon.wait_for_log(r"error +tcp://127.0.0.1:\d+: cannot accept connections for now, they wait; raise the "
                                r"limit on open files \(ulimit -n, LimitNOFILE= of systemd\): Too many open files")
        # They are gone, and it goes on.
        listed = skiff("ls", daemon.portal)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertEqual(daemon.end(), 0)

    def dumped(self, capture):
        """The PDUs of a capture: a list for each direction."""
        result = skiff("dump", capture)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        pdus = {}
        for line in result.stdout.decode().splitlines():
            found = re.fullmatch(r"\d+\.\d{6} (\S+) > (\S+) (.+)", line)
            if found:
                pdus.setdefault(found.group(1, 2), []).append(found.group(3))
            else:
                self.assertRegex(line, r"^    [A-Za-z0-9#.-]+=")
        return pdus

    def test_both_ends_trace_the_same(self):
        ours, theirs = self.path / "initiator.pcapng", self.path / "target.pcapng"
        daemon = self.start("--listen", "tcp://127.0.0.1:0", "--target", NAME, "--lun", "ram:64MiB", "--trace", theirs)
        written = skiff("write", daemon.url(0), "-q", "--header-digest=crc32c", "--data-digest=crc32c",
                        "--trace", ours, stdin=os.urandom(MIB))
        self.assertEqual(written.returncode, OK, written.stderr)
        self.assertEqual(daemon.end(), 0)
        pdus = self.dumped(ours)
        self.assertEqual(self.dumped(theirs), pdus)
        self.assertEqual(len(pdus), 2)
        names = " ".join(name for direction in pdus.values() for name in direction)
        for name in ("Login Request", "Login Response", "SCSI Command", "SCSI Response", "Logout Request"):
            self.assertIn(name, names)
        self.check_with_wireshark(ours, daemon.portal, sum(map(len, pdus.values())))

    def test_traces_of_rdma_show_iscsi(self):
        ours, theirs = self.path / "initiator.pcapng", self.path / "target.pcapng"
        daemon = self.start("--listen", "libfabric://127.0.0.1:0?provider=tcp", "--target", NAME, "--lun", "ram:64MiB",
                            "--trace", theirs)
        portal = re.search(r"portal=libfabric://([^\s?]+)", daemon.ready).group(1)
        url = f"iser://{portal}/{NAME}/0?transport=libfabric&provider=tcp"
        written = skiff("write", url, "-q", "--trace", ours, stdin=os.urandom(MIB))
        self.assertEqual(written.returncode, OK, written.stderr)
        measured = skiff("perf", url, "--rw=read", "--bs=64k", "--size=1MiB", "--json")
        session = json.loads(measured.stdout)["sessions"][0]
        self.assertEqual((session["data_model"], session["counters"]["payload_bytes_copied"]), ("iSER", 0))
        self.assertGreater(session["counters"]["bytes_in"], MIB)
        self.assertNotEqual(session["device"], "")
        # One for each of the 16 commands, or one for their buffers; and those of INQUIRY and the like.
        lasting = skiff("perf", url, "--rw=read", "--bs=64k", "--size=1MiB", "--json", "--lasting-keys")
        session_with = json.loads(lasting.stdout)["sessions"][0]
        self.assertEqual(session["counters"]["registrations"] - session_with["counters"]["registrations"], 16)
        self.assertIn("keys of lasting memory outlive", "".join(session_with["fallbacks"]))
        self.assertEqual(daemon.end(), 0)
        for capture in (ours, theirs):
            pdus = [pdu for direction in self.dumped(capture).values() for pdu in direction]
            for pdu in pdus:
                self.assertEqual("# reconstructed: " in pdu, pdu.startswith(("SCSI Data-", "R2T")), pdu)
            # All of it: what does not fit into a command is read by the target.
            moved = sum(int(size) for pdu in pdus for size in re.findall(r"SCSI Data-Out .* Data=(\d+)", pdu))
            self.assertEqual(moved, MIB)
            self.check_with_wireshark(capture, portal, len(pdus))

    def check_with_wireshark(self, capture, portal, expected):
        tshark = shutil.which("tshark")
        self.assertIsNotNone(tshark, "tshark is not installed: tools/install-deps test")
        arguments = [tshark, "-r", capture, "-d", f"tcp.port=={portal.split(':')[1]},iscsi"]
        seen = subprocess.run([*arguments, "-T", "fields", "-e", "iscsi.opcode"],
                              capture_output=True, text=True, timeout=SECONDS, check=True)
        self.assertEqual(len(re.findall("0x", seen.stdout)), expected, seen.stdout)
        bad = subprocess.run([*arguments, "-Y", "_ws.malformed"],
                             capture_output=True, text=True, timeout=SECONDS, check=True)
        self.assertEqual(bad.stdout, "")

    def test_reports_mistakes_with_their_place(self):
        config = self.path / "bad.conf"
        config.write_text('log_level: "loud"\n\ntarget {\n  name: "disk"\n  lun { ram { size: "10GX" } }\n}\n')
        result = self.run_skiffd("--config", str(config))
        self.assertEqual(result.returncode, 2)
        places = [line.split(": ")[0] for line in result.stderr.splitlines()]
        self.assertEqual(places, [f"{config}:1", f"{config}:4", f"{config}:5"])
        config.write_text("targets {}\n")
        result = self.run_skiffd("--check", "--config", str(config))
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, rf"^{config}:1:9: there is no 'targets' here; known are log_level, ")

    def test_can_insist_on_digests(self):
        config = self.path / "skiffd.conf"
        config.write_text('portal: "tcp://127.0.0.1:0"\nnegotiation { header_digest: "CRC32C" data_digest: "CRC32C" }\n'
                          f'target {{ name: "{NAME}" lun {{ ram {{ size: "1MiB" }} }} }}\n')
        daemon = self.start("--config", str(config))
        self.assertEqual(skiff("capacity", daemon.url(0)).returncode, OK)
        refused = skiff("capacity", daemon.url(0), "--data-digest=none")
        self.assertEqual(refused.returncode, NO_SESSION)
        self.assertIn("DataDigest", daemon.log)
        self.assertEqual(daemon.end(), 0)

    def test_discovery_names_the_portals_of_the_transport_in_use(self):
        """Those of auto:// among them, whichever it came in by."""
        daemon = self.start("--listen", "tcp://127.0.0.1:0", "--listen", "auto://127.0.0.1:0?rdma=off",
                            "--listen", "libfabric://127.0.0.1:0?provider=tcp", "--target", NAME, "--lun", "ram:1MiB")
        tcp, auto, fabric = re.findall(r"portal=\w+://([^?\s]+)", daemon.ready)
        for asked, suffix, expected in ((tcp, "", [tcp, auto]), (auto, "", [auto, tcp]),
                                        (fabric, "?transport=libfabric&provider=tcp", [fabric])):
            scheme = "iser" if suffix else "iscsi"
            found = skiff("discover", f"{scheme}://{asked}{suffix}", "--json")
            self.assertEqual(found.returncode, 0, found.stderr)
            self.assertEqual(json.loads(found.stdout)["targets"][0]["portals"], [f"{portal},1" for portal in expected])
        self.assertEqual(daemon.end(), 0)

    def test_says_why_it_cannot_listen(self):
        daemon = self.quick()
        result = self.run_skiffd("--listen", f"tcp://{daemon.portal}", "--target", NAME, "--lun", "ram:1MiB")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, rf"skiffd: tcp://{daemon.portal}: .*in use")
        self.assertEqual(daemon.end(), 0)

    def test_finishes_what_is_in_flight(self):
        daemon = self.quick()
        with subprocess.Popen([SKIFF, "perf", daemon.url(0), "--rw=randrw", "--verify", "--iodepth=8", "--runtime=1s",
                               "--reconnect-timeout=0"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              text=True) as perf:
            daemon.wait_for_log("logged in")
            time.sleep(0.3)
            began = time.monotonic()
            self.assertEqual(daemon.end(), 0)
            self.assertLess(time.monotonic() - began, 15)
            errors = perf.communicate(timeout=SECONDS)[1]
        # Cut off or done; in no case with wrong data.
        self.assertIn(perf.returncode, (OK, FAILED), errors)

    def test_second_signal_ends_at_once(self):
        config = self.path / "skiffd.conf"
        config.write_text('portal: "tcp://127.0.0.1:0"\nshutdown_grace: "1h"\n'
                          f'target {{ name: "{NAME}" lun {{ ram {{ size: "1MiB" }} }} }}\n')
        daemon = self.start("--config", str(config))
        # A session whose initiator neither answers nor goes.
        with subprocess.Popen([SKIFF, "ping", daemon.url(), "-c", "1000", "--interval", "10ms", "--verbose"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as held:
            # Login is over for both ends.
            self.assertIn(b"connected", held.stderr.readline())
            held.send_signal(signal.SIGSTOP)
            # All of its threads have stopped, not only the one that took the signal.
            os.waitpid(held.pid, os.WUNTRACED)
            try:
                daemon.process.send_signal(signal.SIGTERM)
                daemon.wait_for_log("a second signal ends at once")
                time.sleep(0.3)
                self.assertIsNone(daemon.process.poll(), "did not wait for the session")
                self.assertEqual(daemon.end(), 3)
                self.assertIn("second signal: ending at once", daemon.log)
            finally:
                held.kill()

    def test_files_outlive_the_daemon(self):
        image = self.path / "disk.img"
        data = os.urandom(MIB)
        arguments = ("--listen", "tcp://127.0.0.1:0", "--target", NAME, "--lun", f"file:{image},size=4MiB")
        first = self.start(*arguments)
        written = skiff("write", first.url(0), "--offset=1MiB", stdin=data)
        self.assertEqual(written.returncode, 0, written.stderr)
        self.assertEqual(first.end(), 0)
        self.assertEqual(image.stat().st_size, 4 * MIB)
        second = self.start(*arguments)
        self.assertEqual(skiff("read", second.url(0), "--offset=1MiB", "--length=1MiB").stdout, data)
        self.assertEqual(second.end(), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
