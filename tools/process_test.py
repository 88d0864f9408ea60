#!/usr/bin/env python3
"""What skiffd and skiff do with signals, descriptors and files, and with mistakes on their command lines.

Usage: process_test.py SKIFFD SKIFF
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from tools_test import FAILED, MIB, NAME, NO_SESSION, OK, SECONDS, SKIFF, SKIFFD, USAGE, Daemon, skiff

INTERRUPTED = 128 + signal.SIGINT


@contextlib.contextmanager
def ignoring(number):
    """What is started meanwhile ignores a signal, as nohup(1) has it."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


class ProcessTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def start(self, *arguments):
        daemon = Daemon(*arguments)
        self.addCleanup(daemon.close)
        return daemon

    def quick(self, *arguments, portal="127.0.0.1:0"):
        return self.start("--listen", f"tcp://{portal}", "--target", NAME, "--lun", "ram:64MiB", *arguments)

    def begin(self, *arguments, **options):
        process = subprocess.Popen([SKIFF, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        return process

    def wait_for_session(self, daemon, pattern):
        """Until the table of sessions has a line of this kind."""
        daemon.wait_for_log(pattern, lambda: daemon.process.send_signal(signal.SIGUSR1))

    def interrupt(self, process):
        process.send_signal(signal.SIGINT)
        process.wait(SECONDS)
        output, errors = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, INTERRUPTED, errors)
        return output.decode(), errors.decode()


class SignalTest(ProcessTest):

    def test_an_ignored_hangup_stays_ignored(self):
        for number in (signal.SIGHUP, signal.SIGINT):
            with ignoring(number):
                daemon = self.quick()
            daemon.process.send_signal(number)
            # Later than that, and answered.
            daemon.process.send_signal(signal.SIGUSR1)
            daemon.wait_for_log("0 sessions")
            self.assertNotIn("ending", daemon.log)
            self.assertEqual(skiff("ls", daemon.portal).returncode, OK)
            self.assertEqual(daemon.end(), 0)

    def test_a_hangup_ends_the_quick_form(self):
        daemon = self.quick()
        self.assertEqual(daemon.end(signal.SIGHUP), 0)
        self.assertIn("Hangup: ending", daemon.log)

    def test_a_hangup_does_not_end_what_has_a_configuration_file(self):
        config = self.path / "skiffd.conf"
        config.write_text(f'portal: "tcp://127.0.0.1:0"\ntarget {{ name: "{NAME}" lun {{ ram {{ size: "1MiB" }} }} }}\n')
        daemon = self.start("--config", str(config))
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for_log(rf"{config} holds: 0 changes")
        self.assertEqual(skiff("ls", daemon.portal).returncode, OK)
        self.assertEqual(daemon.end(), 0)

    def test_ctrl_c_of_ping_tells_what_was_measured(self):
        daemon = self.quick()
        ping = self.begin("ping", daemon.url(), "-c", "1000000", "--interval", "1ms", "--json")
        self.wait_for_session(daemon, r"  \d{2,} PDUs in")
        report = json.loads(self.interrupt(ping)[0])
        self.assertTrue(report["cut_short"])
        self.assertGreater(report["received"], 0)
        self.assertEqual(report["received"], report["sent"])

    def test_ctrl_c_of_perf_tells_what_was_measured(self):
        for flags in (["--numjobs=2"], ["--rw=write", "--verify"]):
            daemon = self.quick()
            perf = self.begin("perf", daemon.url(0), "--runtime=1h", "--iodepth=4", *flags)
            self.wait_for_session(daemon, r"iSCSI over tcp, \d{3,} commands")
            output = self.interrupt(perf)[0]
            self.assertRegex(output, r"(?m)^(read|write) +[1-9]")
            self.assertIn("interrupted: this is of the part before", output)

    def test_ctrl_c_of_write_leaves_a_start_of_the_source(self):
        daemon = self.quick()
        data = os.urandom(MIB)
        # Another piece is waited for, of which only a part has come.
        write = self.begin("write", daemon.url(0), "--transfer-size=64k", stdin=subprocess.PIPE)
        write.stdin.write(data + bytes(300))
        write.stdin.flush()
        self.wait_for_session(daemon, r"iSCSI over tcp, .* out, 1 MiB in$")
        errors = self.interrupt(write)[1]
        self.assertRegex(errors, r"1 MiB copied in .*\ninterrupted: ")
        self.assertEqual(skiff("read", daemon.url(0), "--length=1MiB", "-q").stdout, data)

    def test_ctrl_c_before_there_is_anything_to_tell(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            listing = self.begin("ls", f"127.0.0.1:{server.getsockname()[1]}", "--json")
            with server.accept()[0]:
                output, errors = self.interrupt(listing)
        self.assertEqual(errors, "skiff: interrupted\n")
        self.assertEqual(json.loads(output)["error"]["exit_code"], INTERRUPTED)

    def test_a_second_ctrl_c_ends_at_once(self):
        daemon = self.quick()
        perf = self.begin("perf", daemon.url(0), "--runtime=1h")
        self.wait_for_session(daemon, r"iSCSI over tcp, \d{2,} commands")
        # The command in flight is never answered.
        daemon.process.send_signal(signal.SIGSTOP)
        os.waitpid(daemon.process.pid, os.WUNTRACED)
        deadline = time.monotonic() + SECONDS
        while perf.poll() is None and time.monotonic() < deadline:
            perf.send_signal(signal.SIGINT)
            time.sleep(0.05)
        daemon.process.send_signal(signal.SIGCONT)
        self.assertEqual(perf.returncode, INTERRUPTED)

    def test_ping_goes_on_across_an_outage(self):
        daemon = self.quick()
        ping = self.begin("ping", daemon.url(), "-c", "1000000", "--interval", "10ms", "--json")
        self.wait_for_session(daemon, r"  \d{2,} PDUs in")
        daemon.process.kill()
        daemon.process.wait()
        self.assertRegex(ping.stderr.readline(), rb"^skiff: no answer to ping \d+: ")
        self.quick(portal=daemon.portal)
        self.assertRegex(ping.stderr.readline(), rb"^skiff: ping \d+ is answered again, \d+ were not$")
        report = json.loads(self.interrupt(ping)[0])
        self.assertLess(report["received"], report["sent"])
        self.assertEqual(report["session"]["reconnects"], 1)

    def test_unanswered_pings_are_an_error(self):
        daemon = self.quick()
        ping = self.begin("ping", daemon.url(), "-c", "200", "--interval", "10ms")
        self.wait_for_session(daemon, r"  \d{2,} PDUs in")
        daemon.process.kill()
        output = ping.communicate(timeout=SECONDS)[0].decode()
        self.assertEqual(ping.returncode, FAILED)
        self.assertRegex(output, r"^200 pings to \S+, \d+ answers; ")


class ServiceManagerTest(ProcessTest):
    """With a socket in the place of systemd's."""

    def listen(self, name):
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.settimeout(SECONDS)
        manager.bind(name)
        return manager

    def configured(self, **environment):
        config = self.path / "skiffd.conf"
        config.write_text(f'portal: "tcp://127.0.0.1:0"\ntarget {{ name: "{NAME}" lun {{ ram {{ size: "1MiB" }} }} }}\n')
        with mock.patch.dict(os.environ, environment):
            return self.start("--config", str(config))

    def test_is_told_what_happens(self):
        manager = self.listen(str(self.path / "notify"))
        daemon = self.configured(NOTIFY_SOCKET=str(self.path / "notify"))
        ready = f"READY=1\nSTATUS={daemon.ready}"
        self.assertEqual(ready, manager.recv(4096).decode())
        daemon.process.send_signal(signal.SIGHUP)
        self.assertRegex(manager.recv(4096).decode(), r"^RELOADING=1\nMONOTONIC_USEC=\d+$")
        self.assertEqual(ready, manager.recv(4096).decode())
        self.assertEqual(daemon.end(), 0)
        self.assertEqual("STOPPING=1\nSTATUS=ending; initiators have 10s to log out", manager.recv(4096).decode())

    def test_hears_from_time_to_time_that_reactors_turn(self):
        name = f"skiff-process-test-{os.getpid()}"
        manager = self.listen(f"\0{name}")
        daemon = self.configured(NOTIFY_SOCKET=f"@{name}", WATCHDOG_USEC="20000")
        self.assertIn("READY=1", manager.recv(4096).decode())
        for _ in range(3):
            self.assertEqual("WATCHDOG=1", manager.recv(4096).decode())
        self.assertEqual(daemon.end(), 0)

    def test_that_is_gone_is_warned_of(self):
        gone = self.path / "gone"
        daemon = self.configured(NOTIFY_SOCKET=str(gone))
        daemon.wait_for_log(rf"warn.* cannot tell the service manager at NOTIFY_SOCKET {gone} 'READY=1'")
        self.assertEqual(skiff("ls", daemon.portal).returncode, OK)
        self.assertEqual(daemon.end(), 0)

    def test_that_cannot_be_is_a_mistake(self):
        daemon = self.configured(NOTIFY_SOCKET="relative")
        self.assertEqual(daemon.process.wait(SECONDS), FAILED)
        self.assertIn("skiffd: NOTIFY_SOCKET is 'relative'", daemon.log)


class LibraryTest(ProcessTest):
    """libfabric and rdma-core, which few need."""

    RDMA = r"libfabric|libibverbs|librdmacm|libpsm"

    def mapped(self, daemon):
        return set(re.findall(self.RDMA, pathlib.Path(f"/proc/{daemon.process.pid}/maps").read_text()))

    def test_are_loaded_when_they_are_needed(self):
        self.assertEqual(self.mapped(self.quick()), set())
        fabric = self.start("--listen", "libfabric://127.0.0.1:0?provider=tcp", "--target", NAME, "--lun", "ram:1MiB")
        self.assertIn("libfabric", self.mapped(fabric))
        for program in (SKIFFD, SKIFF):
            linked = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=SECONDS, check=True)
            self.assertNotRegex(linked.stdout, self.RDMA)

    def test_a_crash_dies_of_its_signal(self):
        # Sanitizers take these signals, too, if they may.
        theirs = ":".join(f"handle_{name}=0" for name in ("segv", "abort", "sigbus", "sigfpe"))
        options = {name: f"{os.environ.get(name, '')}:{theirs}" for name in ("ASAN_OPTIONS", "TSAN_OPTIONS")}
        self.enterContext(mock.patch.dict(os.environ, options))
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE):
            for listen in ("tcp://127.0.0.1:0", "libfabric://127.0.0.1:0?provider=tcp"):
                daemon = self.start("--listen", listen, "--target", NAME, "--lun", "ram:1MiB")
                self.assertIn("ready", daemon.ready)
                # Nobody needs the core file.
                subprocess.run(["prlimit", "--core=0", "--pid", str(daemon.process.pid)], check=True)
                self.assertEqual(daemon.end(number), -number)

    def test_a_missing_one_is_named(self):
        for name in ("libfabric.so.1", "libibverbs.so.1"):
            (self.path / name).write_bytes(b"")  # Found first, and nothing that can be loaded.
        env = {"LD_LIBRARY_PATH": str(self.path)}
        report = skiff("transports", "--json", env=env)
        problems = {device["name"]: device.get("problem") for transport in json.loads(report.stdout)["transports"]
                    for device in transport["devices"]}
        for name, transport in (("libfabric", "libfabric"), ("libibverbs", "verbs")):
            expected = rf"cannot load {name}\.so\.1 .*apt install --reinstall {name}1$"
            self.assertRegex(problems[transport], expected)
            result = skiff("ls", f"iser://127.0.0.1:1?transport={transport}", env=env)
            self.assertEqual(result.returncode, NO_SESSION)
            self.assertRegex(result.stderr.decode().strip(), expected)
        refused = subprocess.run([SKIFFD, "--listen", "libfabric://127.0.0.1:0?provider=tcp", "--target", NAME, "--lun",
                                  "ram:1MiB"], capture_output=True, text=True, timeout=SECONDS, check=False,
                                 env={**os.environ, **env})
        self.assertEqual(refused.returncode, 1)
        self.assertRegex(refused.stderr, r"skiffd: libfabric://127.0.0.1:0\?provider=tcp: .*cannot load libfabric\.so\.1")
        # Whoever does not need it does not miss it.
        daemon = self.quick()
        self.assertEqual(skiff("ls", daemon.portal, env=env).returncode, OK)


class DescriptorTest(ProcessTest):

    def test_closed_descriptors_are_not_used_for_something_else(self):
        with subprocess.Popen(["bash", "-c", 'exec "$0" "$@" <&- 2>&-', SKIFFD, "--listen", "tcp://127.0.0.1:0",
                               "--target", NAME, "--lun", f"file:{self.path}/disk,size=1MiB"],
                              stdout=subprocess.PIPE) as daemon:
            self.assertIn(b"ready", daemon.stdout.readline())
            for fd in (0, 2):
                self.assertEqual(os.readlink(f"/proc/{daemon.pid}/fd/{fd}"), "/dev/null")
            daemon.terminate()
        self.assertEqual(daemon.returncode, 0)
        # Nor by skiff: what it prints to standard error goes nowhere, and not into the file.
        target = self.quick()
        copy = subprocess.run(["bash", "-c", 'exec "$0" "$@" <&- >&- 2>&-', SKIFF, "copy", target.url(0),
                               self.path / "image", "--length=4k"], timeout=SECONDS, check=False)
        self.assertEqual(copy.returncode, OK)
        self.assertEqual((self.path / "image").read_bytes(), bytes(4096))


    def test_what_cannot_be_read_or_written_is_said(self):
        target = self.quick()
        for arguments, words in ((["ls", target.portal, ">&-"], "cannot write to standard output: "),
                                 (["write", target.url(0), "-q", "<&-"], "Bad file descriptor")):
            result = subprocess.run(["bash", "-c", '"$0" "${@:1:$#-1}" ' + arguments[-1], SKIFF, *arguments],
                                    capture_output=True, text=True, timeout=SECONDS, check=False)
            self.assertEqual(result.returncode, FAILED, result.stderr)
            self.assertIn(words, result.stderr)
        # skiffd serves all the same.
        with open("/dev/full", "wb") as full:
            with subprocess.Popen([SKIFFD, "--listen", "tcp://127.0.0.1:0", "--target", NAME, "--lun", "ram:1MiB"],
                                  stdout=full, stderr=subprocess.PIPE, text=True) as daemon:
                line = next(line for line in daemon.stderr if "standard output" in line)
                self.assertRegex(line, " warn .* ready: No space left on device$")
                daemon.terminate()
        self.assertEqual(daemon.returncode, 0)


class TraceFileTest(ProcessTest):

    def trace(self, daemon, path):
        return skiff("ping", daemon.url(), "-c", "1", "--trace", path)

    def test_is_for_its_owner_only(self):
        before = os.umask(0o022)
        self.addCleanup(os.umask, before)
        theirs, ours, old = (self.path / name for name in ("theirs", "ours", "old"))
        daemon = self.quick("--trace", str(theirs))
        old.write_text("x" * 100000)
        for path in (ours, old):
            self.assertEqual(self.trace(daemon, path).returncode, OK)
        self.assertEqual(daemon.end(), 0)
        for path in (theirs, ours, old):
            self.assertEqual(path.stat().st_mode & 0o777, 0o600, path)
            self.assertLess(path.stat().st_size, 100000, path)

    def test_replaces_nothing_by_another_name(self):
        daemon = self.quick()
        precious, link, hard = (self.path / name for name in ("precious", "link", "hard"))
        precious.write_text("precious")
        link.symlink_to(precious)
        os.link(precious, hard)
        for path, reason in ((link, "is a symbolic link"), (hard, "has more than one name")):
            result = self.trace(daemon, path)
            self.assertEqual(result.returncode, USAGE, path)
            self.assertRegex(result.stderr.decode(), reason)
            refused = subprocess.run([SKIFFD, "--listen", "tcp://127.0.0.1:0", "--target", NAME, "--lun", "ram:1MiB",
                                      "--trace", path], capture_output=True, text=True, timeout=SECONDS, check=False)
            self.assertEqual(refused.returncode, 1)
            self.assertRegex(refused.stderr, reason)
        self.assertEqual(precious.read_text(), "precious")

    def test_says_when_it_stops(self):
        daemon = self.quick("--trace", "/dev/full")
        written = skiff("write", daemon.url(0), "-q", "--trace", "/dev/full", stdin=bytes(MIB))
        self.assertEqual(written.returncode, OK)
        stopped = r"the capture in /dev/full has stopped and is not complete: No space left on device"
        self.assertEqual(len(re.findall(stopped, written.stderr.decode())), 1)
        daemon.wait_for_log(stopped)
        self.assertEqual(daemon.end(), 0)
        self.assertEqual(len(re.findall(stopped, daemon.log)), 1)
        # A limit on files is an error, and no signal.
        limited = subprocess.run(["bash", "-c", 'ulimit -f 4; exec "$0" "$@"', SKIFF, "transports"],
                                 capture_output=True, timeout=SECONDS, check=False)
        self.assertEqual(limited.returncode, OK)


class CommandLineTest(ProcessTest):

    def test_version(self):
        for program in (SKIFFD, SKIFF):
            result = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=SECONDS, check=True)
            self.assertRegex(result.stdout, rf"^{os.path.basename(program)} \d+\.\d+\n$")

    def test_mistyped_subcommand_is_named(self):
        result = skiff("capcity", "iscsi://127.0.0.1/" + NAME + "/0")
        self.assertEqual((result.returncode, result.stdout), (USAGE, b""))
        self.assertRegex(result.stderr.decode(), r"unknown subcommand 'capcity'; did you mean 'capacity'\? There are ")
        self.assertRegex(skiff("format", "x").stderr.decode(), "unknown subcommand 'format'. There are discover, ls, ")

    def test_all_unknown_flags_are_named(self):
        result = skiff("perf", "--iodpth=3", "iscsi://127.0.0.1/" + NAME + "/0", "--bogus", "more")
        self.assertEqual(result.returncode, USAGE)
        self.assertEqual(result.stderr.decode().splitlines()[:-1],
                         ["skiff: unknown flag '--iodpth'; did you mean '--iodepth'?", "skiff: unknown flag '--bogus'",
                          "skiff: 'more' is one argument too many"])
        # Together with what else is wrong.
        self.assertRegex(skiff("ls", "--bogus").stderr.decode(), r"(?s)unknown flag '--bogus'.*url is required")
        daemon = subprocess.run([SKIFFD, "--chek", "--lisen"], capture_output=True, text=True, timeout=SECONDS,
                                check=False)
        self.assertEqual(daemon.returncode, USAGE)
        self.assertRegex(daemon.stderr, r"(?s)'--chek'; did you mean '--check'.*'--lisen'; did you mean '--listen'")

    def test_all_unknown_settings_are_named(self):
        config = self.path / "skiffd.conf"
        config.write_text('portals: "tcp://127.0.0.1:0"\nreactors { coutn: 2 }\n'
                          'target { nmae: "x" lun { ram { size: "1MiB" } } }\n')
        result = subprocess.run([SKIFFD, "--check", "--config", config], capture_output=True, text=True,
                                timeout=SECONDS, check=False)
        self.assertEqual(result.returncode, USAGE)
        found = re.findall(rf"(?m)^{config}:(\d+):\d+: there is no '(\w+)' here; known are ", result.stderr)
        self.assertEqual(found, [("1", "portals"), ("2", "coutn"), ("3", "nmae")])

    def test_an_unknown_host_is_to_blame(self):
        result = skiff("capacity", f"iscsi://nohost.invalid/{NAME}/0")
        self.assertEqual(result.returncode, NO_SESSION)
        self.assertRegex(result.stderr.decode(), 'cannot resolve "nohost.invalid": ')
        self.assertNotRegex(result.stderr.decode(), "target's name|discovery")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
