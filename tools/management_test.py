#!/usr/bin/env python3
"""A running skiffd is changed and shown by skiffctl, and by clients that mean no good.

Usage: management_test.py SKIFFD SKIFF SKIFFCTL
"""

import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest
import unittest.mock

from configured_skiffd import OK, PREFIX, SECONDS, ConfiguredTest, lun, ram, target

FAILED, USAGE, UNREACHABLE, IN_USE, DIFFERS = range(1, 6)
SKIFFCTL = None
COMPLETION = os.path.join(os.path.dirname(os.path.realpath(__file__)), "skiffctl/completion.bash")
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\x04\0\0\0\0\0"


class ManagedTest(ConfiguredTest):

    def start(self, *parts, management=""):
        self.socket = self.path / "socket"
        self.management = f'management {{ socket: "{self.socket}" {management} }}\n'
        super().start(self.management, *parts)

    def ctl(self, *arguments, data=None):
        return subprocess.run([SKIFFCTL, "--socket", str(self.socket), *map(str, arguments)], capture_output=True, text=True,
                              timeout=SECONDS, input=data, check=False)

    def says(self, *arguments, data=None, code=OK):
        result = self.ctl(*arguments, data=data)
        self.assertEqual(result.returncode, code, result.stderr + self.log())
        return result.stdout if code in (OK, DIFFERS) else result.stderr

    def json(self, *arguments):
        return json.loads(self.says("--json", *arguments))

    def wanted(self, *parts):
        return 'portal: "tcp://127.0.0.1:0"\n' + self.management + "".join(parts)

    def applied(self, *parts, options=(), code=OK):
        return self.says("apply", "-f", "-", *options, data=self.wanted(*parts), code=code)

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        self.addCleanup(client.close)
        client.connect(str(self.socket))
        client.settimeout(SECONDS)
        return client

    def wait_for(self, what):
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            found = what()
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(self.log())


class LibraryLogTest(ManagedTest):

    def test_the_log_has_what_grpc_says(self):
        with unittest.mock.patch.dict(os.environ, {"GRPC_VERBOSITY": "debug"}):
            self.start('log_level: "debug" log { format: "json" }\n', target("a", ram(1)))
        client = self.connect()
        client.sendall(b"no preface of HTTP/2 at all, but long enough to be one")
        said = self.wait_for(lambda: [event for event in map(json.loads, self.log().splitlines()) if "library" in event])
        self.assertTrue(said[0]["message"].startswith("gRPC: "), said)


class ApplyTest(ManagedTest):

    def test_what_is_wanted_is_shown_and_then_done(self):
        self.start(target("a", ram(8)))
        more = self.wanted(target("a", ram(8), ram(2)))
        self.assertEqual(self.says("diff", "-f", "-", data=more, code=DIFFERS),
                         f"would change: {PREFIX}:a LUN 1 is added: a RAM disk of 2 MiB\n")
        self.assertIsNone(self.capacity("a", 1))
        self.assertEqual(self.applied(target("a", ram(8), ram(2))), f"changed: {PREFIX}:a LUN 1 is added: a RAM disk of 2 MiB\n")
        self.assertIn("2 MiB", self.capacity("a", 1))
        self.assertEqual(self.says("diff", "-f", "-", data=more), "nothing changes\n")
        self.assertIn("changed: ", self.log())

    def test_what_runs_can_be_applied_as_it_is_told(self):
        secret = self.path / "secret"
        secret.write_text("twelve bytes and more\n", encoding="utf-8")
        secret.chmod(0o600)
        self.start(target("a", f'account {{ name: "client" secret_file: "{secret}" }}\n', ram(1)))
        told = self.says("get")
        self.assertNotIn("twelve", told)
        self.assertEqual(self.says("apply", "-f", "-", data=told), "nothing changes\n")
        # Comments are in whatever encoding.
        self.config.write_bytes(b"# B\xfcro\n" + told.encode())
        self.assertEqual(self.says("apply", "-f", self.config), "nothing changes\n")
        self.assertIn("secret_file", json.loads(self.says("--json", "get"))["config"])

    def test_mistakes_have_their_places_and_nothing_is_changed(self):
        self.start(target("a", ram(1)))
        for code, pattern, parts in (
                (USAGE, r"^standard input:3:\d+: ", ("rubbish: 1\n", target("a", ram(1), ram(2)))),
                (USAGE, r"standard input:5: .*missing", (target("a", ram(1), lun(f'file {{ path: "{self.path}/missing" }}')),)),
                (FAILED, r"queue_depth cannot change", ("limits { queue_depth: 7 }\n", target("a", ram(1), ram(2)))),
                (FAILED, r"who manages skiffd", ('management { socket: "/tmp/other" }\n', target("a", ram(1), ram(2))))):
            # The last one has two sections.
            text = self.wanted(*parts) if "management" not in parts[0] else 'portal: "tcp://127.0.0.1:0"\n' + "".join(parts)
            self.assertRegex(self.says("apply", "-f", "-", data=text, code=code), pattern)
            self.assertIsNone(self.capacity("a", 1))
        self.assertRegex(self.says("apply", "-f", self.path / "nothing", code=USAGE), "nothing")

    def test_what_sessions_use_goes_by_force_or_after_they_have_gone(self):
        self.start(target("a", ram(8), ram(1)))
        busy = self.perf("a", 0)
        self.wait_for(lambda: [s for s in self.json("list", "sessions")["session"] if s["logged_in"]])
        self.assertRegex(self.applied(target("a", ram(8)), code=IN_USE), "1 sessions use")
        shown = self.ctl("diff", "-f", "-", data=self.wanted(target("a", ram(8))))
        self.assertEqual((shown.returncode, shown.stdout), (IN_USE, f"would change: {PREFIX}:a LUN 1 is removed: a RAM disk of 1 MiB\n"))
        self.assertEqual(self.ctl("diff", "-f", "-", "--force", data=self.wanted(target("a", ram(8)))).returncode, DIFFERS)
        self.assertNotIn("sessions use", self.log())
        self.assertRegex(self.applied(target("a", ram(8)), options=["--wait", "600ms"], code=IN_USE), "nothing was changed")
        self.assertIn("LUN 1 is removed", self.applied(target("a", ram(8)), options=["--force"]))
        self.assertIsNone(self.capacity("a", 1))
        self.assertIsNone(busy.poll())
        waits = subprocess.Popen([SKIFFCTL, "--socket", str(self.socket), "apply", "-f", "-", "--wait", "1h"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        waits.stdin.write(self.wanted(target("b", ram(1))))
        waits.stdin.close()
        busy.send_signal(signal.SIGINT)
        output, _ = busy.communicate(timeout=SECONDS)
        self.assertNotRegex(output, "(?i)mismatch|error|lost")
        self.assertEqual(waits.wait(SECONDS), OK)
        waits.stdout.close()
        self.assertIn("1 MiB", self.capacity("b", 0))

    def test_of_two_at_once_each_is_done_whole(self):
        self.start(target("a", ram(1)))
        wanted = [self.wanted(target("a", ram(1)), *(target(f"{name}{i}", ram(1)) for i in range(5))) for name in "xy"]
        clients = []
        for text in wanted * 4:
            client = subprocess.Popen([SKIFFCTL, "--socket", str(self.socket), "apply", "-f", "-"], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
            client.stdin.write(text)
            client.stdin.close()
            clients.append(client)
        for client in clients:
            self.assertEqual(client.wait(SECONDS), OK)
            client.stdout.close()
        names = {t["name"].rsplit(":", 1)[1] for t in self.json("list", "targets")["target"]}
        self.assertIn(names, [{"a"} | {f"{name}{i}" for i in range(5)} for name in "xy"])


class ShowTest(ManagedTest):

    def test_lists(self):
        self.start(target("a", 'alias: "first"\n', ram(8), lun(f'file {{ path: "{self.path}/disk" size: "1MiB" }}')))
        busy = self.perf("a", 0)
        session, = self.wait_for(lambda: [s for s in self.json("list", "sessions")["session"] if int(s["commands"]["writes"]) > 0])
        self.assertEqual(session["target"], f"{PREFIX}:a")
        self.assertEqual(session["data_model"], "iSCSI")
        self.assertRegex(self.says("list", "sessions"), r"(?m)^ID +INITIATOR.*\n\d+ +iqn\.")
        self.assertEqual(self.json("list", "targets")["target"],
                         [{"name": f"{PREFIX}:a", "alias": "first", "luns": 2, "sessions": 1, "open": True, "draining": False}])
        first, second = self.json("list", "luns")["lun"]
        self.assertEqual((first["size_bytes"], second["size_bytes"]), (str(8 << 20), str(1 << 20)))
        self.assertGreater(int(first["commands"]["writes"]), 0)
        portal, = self.json("list", "portals")["portal"]
        self.assertEqual((portal["bound"], portal["sessions"]), (f"tcp://{self.portal}", 1))
        self.assertIn("tcp", [device["transport"] for device in self.json("list", "devices")["device"]])
        status = self.json("status")
        self.assertEqual(int(status["pid"]), self.process.pid)
        self.assertEqual(status["sessions"], "1")
        self.assertIn("memory budget", self.says("status"))
        self.assertRegex(self.says("top", "-n", "1", "--interval", "200ms"), rf"{PREFIX}:a +0 .*\n")
        self.assertGreater(len(self.json("top", "-n", "1", "--interval", "10ms")["lun"]), 0)
        busy.send_signal(signal.SIGINT)
        busy.communicate(timeout=SECONDS)

    def test_the_log_level(self):
        self.start(target("a", ram(1)))
        self.assertEqual(self.says("log-level", "debug"), "the log level was info, and is debug\n")
        self.capacity("a", 0)
        self.assertIn(" debug ", self.log())
        self.assertIn("'loud' is no level", self.says("log-level", "loud", code=USAGE))

    def test_a_trace_of_a_session_that_is_there(self):
        self.start(target("a", ram(8)))
        busy = self.perf("a", 0)
        self.wait_for(lambda: [s for s in self.json("list", "sessions")["session"] if s["logged_in"]])
        file = self.path / "trace.pcapng"
        self.says("trace", "start", file)
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        self.assertIn("already; stop it first", self.says("trace", "start", self.path / "other", code=FAILED))
        self.assertEqual(self.json("status")["trace_file"], str(file))
        self.wait_for(lambda: file.stat().st_size > 100000)
        self.assertIn(str(file), self.says("trace", "stop"))
        size = file.stat().st_size
        self.assertIn("no trace", self.says("trace", "stop", code=FAILED))
        self.assertEqual(self.skiff("capacity", self.url("a", 0)).returncode, OK)
        self.assertEqual(file.stat().st_size, size)
        busy.send_signal(signal.SIGINT)
        busy.communicate(timeout=SECONDS)
        self.assertIn("whole path", self.says("trace", "start", "here", code=USAGE))

    def test_a_trace_destroys_nothing(self):
        disk = self.path / "disk"
        self.start(target("a", lun(f'file {{ path: "{disk}" size: "1MiB" }}')))
        os.mkfifo(self.path / "fifo")
        for there in (disk, self.path / "fifo", self.path):
            self.assertIn("is there already; name another file", self.says("trace", "start", there, code=FAILED))
        self.assertEqual(disk.stat().st_size, 1 << 20)

    def test_a_trace_that_broke_off_says_so(self):
        self.start(target("a", ram(8)))
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        self.says("trace", "start", self.path / "trace.pcapng")
        self.skiff("write", self.url("a", 0), "-q", data=b"x" * (2 << 20))
        self.assertIn("is not complete: File too large", self.says("trace", "stop", code=FAILED))


class SessionTest(ManagedTest):

    def test_drop(self):
        self.start(target("a", ram(8)))
        busy = self.perf("a", 0)
        before, = self.wait_for(lambda: [s for s in self.json("list", "sessions")["session"] if s["logged_in"]])
        self.assertIn("say which", self.says("drop", code=USAGE))
        self.assertIn("no such session", self.says("drop", "--initiator", "iqn.2026-11.com.example:nobody", code=FAILED))
        self.assertEqual(self.says("drop", before["id"]), "1 sessions are told to end\n")
        # It comes again.
        self.wait_for(lambda: [s for s in self.json("list", "sessions")["session"] if s["logged_in"] and s["id"] != before["id"]])
        self.assertIsNone(busy.poll())
        busy.send_signal(signal.SIGINT)
        output, _ = busy.communicate(timeout=SECONDS)
        self.assertNotRegex(output, "(?i)mismatch|lost")

    def test_drain(self):
        self.start(target("a", ram(8)), target("b", ram(8)))
        busy = self.perf("a", 0)
        self.wait_for(lambda: [s for s in self.json("list", "sessions")["session"] if s["logged_in"]])
        self.assertIn("1 sessions are told", self.says("drain", f"{PREFIX}:a", "--grace", "0s"))
        self.wait_for(lambda: not [s for s in self.json("list", "sessions")["session"] if s["logged_in"]])
        self.assertEqual([t["draining"] for t in self.json("list", "targets")["target"]], [True, False])
        self.assertIn("8 MiB", self.capacity("b", 0))
        # A change of something else lets nobody in.
        self.assertIn("LUN 1 is added", self.applied(target("a", ram(8)), target("b", ram(8), ram(1))))
        self.assertIsNone(self.capacity("a", 0))
        # Nor does one of its own, for which it is closed a while.
        self.applied(target("a", ram(8), ram(2)), target("b", ram(8), ram(1)))
        self.assertIn("LUN 1 is removed", self.applied(target("a", ram(8)), target("b", ram(8), ram(1))))
        self.assertIsNone(self.capacity("a", 0))
        self.assertIn("lets initiators in", self.says("drain", f"{PREFIX}:a", "--end"))
        self.assertIn("8 MiB", self.capacity("a", 0))
        # Its initiator has not given up.
        self.wait_for(lambda: [s for s in self.json("list", "sessions")["session"] if s["logged_in"]])
        busy.send_signal(signal.SIGINT)
        busy.communicate(timeout=SECONDS)
        self.assertIn("there is no target", self.says("drain", "iqn.2026-11.com.example:none", code=FAILED))


class SocketTest(ManagedTest):

    def test_is_for_its_owner_only_and_goes_with_the_daemon(self):
        self.start(target("a", ram(1)))
        self.assertEqual(stat.S_IMODE(self.socket.stat().st_mode), 0o600)
        self.process.terminate()
        self.process.wait(SECONDS)
        self.assertFalse(self.socket.exists())
        self.assertIn("cannot reach skiffd", self.says("get", code=UNREACHABLE))

    def test_has_the_mode_and_group_that_are_configured(self):
        group = os.getgid()
        self.start(target("a", ram(1)), management=f'mode: "0660" group: "{group}"')
        self.assertEqual(stat.S_IMODE(self.socket.stat().st_mode), 0o660)
        self.assertEqual(self.socket.stat().st_gid, group)

    def refused(self, pattern, management):
        self.write(f"management {{ {management} }}\n", target("a", ram(1)))
        result = subprocess.run([self.skiffd, "--config", self.config], capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertNotEqual(result.returncode, OK)
        self.assertRegex(result.stderr, pattern)

    def test_what_is_in_its_place(self):
        path = self.path / "socket"
        path.write_text("precious", encoding="utf-8")
        self.refused(r"skiffd\.conf:2:.*something else is there", f'socket: "{path}"')
        self.assertEqual(path.read_text(encoding="utf-8"), "precious")
        path.unlink()
        # Of a process that was killed.
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        self.start(target("a", ram(1)))
        self.assertIn("tcp", self.says("get"))
        self.refused(r"another process listens there", f'socket: "{path}"')
        self.assertIn("tcp", self.says("get"))

    def test_mistakes_of_its_configuration(self):
        self.refused("not the path of a socket", 'socket: "here"')
        self.refused("not a mode", 'mode: "0999"')
        self.refused("not a mode", 'mode: "4777"')
        self.refused("no user 'nobody-at-all'", 'user: "nobody-at-all"')
        self.refused("no group 'nobody-at-all'", 'group: "nobody-at-all"')
        self.refused("has 107 bytes at most", f'socket: "/tmp/{"x" * 200}"')

    def test_neither_rubbish_nor_silence_disturb_others(self):
        self.start(target("a", ram(1)))
        for data in (b"", b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n", PREFACE, PREFACE + SETTINGS, PREFACE + SETTINGS + os.urandom(10000),
                     PREFACE + SETTINGS + b"\xff\xff\xff\x01\x05\0\0\0\x01" + b"x" * 10000):
            client = self.connect()
            try:
                client.sendall(data)
            except BrokenPipeError:
                pass
        self.assertIn("tcp", self.says("get"))
        self.assertIsNone(self.process.poll())

    def test_more_connections_than_are_allowed_are_closed(self):
        self.start(target("a", ram(1)))
        clients = [self.connect() for _ in range(64)]
        self.assertEqual(self.connect().recv(1), b"")
        self.assertIn("refuses connections", self.wait_for(lambda: self.log() if "refuses" in self.log() else ""))
        for client in clients:
            client.close()
        self.wait_for(lambda: self.ctl("get").returncode == OK)

    def test_calls_that_are_none(self):
        self.start(target("a", ram(1)))
        large = self.path / "large"
        large.write_text("#" * (16 << 20) + "\n", encoding="utf-8")
        self.assertIn("is larger than 16777216 bytes; make it smaller", self.says("apply", "-f", large, code=USAGE))
        self.assertIn("is larger than 16777216 bytes; make it smaller",
                      self.says("apply", "-f", "-", data=large.read_text(encoding="utf-8"), code=USAGE))
        # What a file can hold.
        text = self.wanted(target("a", ram(1), ram(2)))
        self.assertIn("LUN 1 is added", self.says("apply", "-f", "-", data="#" * ((16 << 20) - len(text) - 1) + "\n" + text))
        self.assertIn("tcp", self.says("get"))

    def test_the_command_line(self):
        for arguments in ((), ("list",), ("list", "rubbish"), ("drop", "x"), ("apply",), ("top", "--interval", "soon")):
            result = subprocess.run([SKIFFCTL, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
            self.assertEqual(result.returncode, USAGE, arguments)
            self.assertTrue(result.stderr, arguments)
        version = subprocess.run([SKIFFCTL, "--version"], capture_output=True, text=True, timeout=SECONDS, check=True)
        self.assertTrue(re.match(r"skiffctl \d", version.stdout))

    def test_output_that_is_lost(self):
        self.start(target("a", ram(1)))
        commands = [["get"], ["--json", "get"], ["status"], ["drop", "--all"], ["drain", "--end"], ["log-level", "info"],
                    ["apply", "-f", str(self.config)], ["top", "-n", "1", "--interval", "1ms"], ["--version"], ["--help"]]
        commands += [["list", what] for what in ("sessions", "targets", "luns", "portals", "devices")]
        for arguments in commands:
            with open("/dev/full", "wb") as full:
                result = subprocess.run([SKIFFCTL, "--socket", str(self.socket), *arguments], stdout=full, stderr=subprocess.PIPE,
                                        text=True, timeout=SECONDS, check=False)
            self.assertEqual(result.returncode, FAILED, arguments)
            self.assertIn("skiffctl: cannot write to standard output: ", result.stderr, arguments)

    def test_completion(self):
        def completed(*words):
            script = f"""
                PATH={os.path.dirname(os.path.abspath(SKIFFCTL))}:$PATH
                source {COMPLETION}
                COMP_WORDS=(skiffctl "$@"); COMP_CWORD=$#
                _skiffctl
                printf '%s\\n' "${{COMPREPLY[@]}}"
                """
            result = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, timeout=SECONDS, check=True)
            return result.stdout.split()

        self.assertIn("apply", completed(""))
        self.assertEqual(sorted(completed("list", "")), ["--help", "devices", "luns", "portals", "sessions", "targets"])
        self.assertEqual(completed("drain", "--e"), ["--end"])
        self.assertEqual(completed("log-level", "w"), ["warning"])


if __name__ == "__main__":
    ConfiguredTest.skiffd, ConfiguredTest.skiff_program, SKIFFCTL = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
