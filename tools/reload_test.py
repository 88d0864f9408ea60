#!/usr/bin/env python3
"""skiffd takes a changed configuration while it serves: by SIGHUP, as separate processes.

Usage: reload_test.py SKIFFD SKIFF
"""

import os
import re
import signal
import socket
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

from configured_skiffd import MEBIBYTE, OK, PREFIX, SECONDS, ConfiguredTest, lun, ram, target


class ReloadTest(ConfiguredTest):
    # What the log says of it.
    def reload(self, *parts):
        self.write(*parts)
        before = len(self.log())
        self.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            told = self.log()[before:]
            if re.search(r"skiffd\.conf (holds|does not hold)", told):
                return told
            self.assertIsNone(self.process.poll(), self.log())
            time.sleep(0.01)
        raise AssertionError(self.log())

    def changes(self, *parts):
        told = self.reload(*parts)
        self.assertIn("skiffd.conf holds", told)
        return [line.split("changed: ", 1)[1] for line in told.splitlines() if "changed: " in line]

    def refused(self, pattern, *parts):
        told = self.reload(*parts)
        self.assertIn("skiffd.conf does not hold, and nothing was changed", told)
        self.assertNotIn("changed: ", told)
        self.assertRegex(told, pattern)

    def test_the_same_changes_nothing(self):
        self.start(target("a", ram(1)))
        self.assertEqual([], self.changes(target("a", ram(1))))

    def test_luns_and_targets_come_and_go_beside_others_that_work(self):
        self.start(target("a", ram(8)))
        busy = self.perf("a", 0)
        self.assertEqual([f"{PREFIX}:a LUN 1 is added: a RAM disk of 2 MiB"], self.changes(target("a", ram(8), ram(2))))
        self.assertIn("2 MiB", self.capacity("a", 1))
        self.assertEqual([f"target {PREFIX}:b is added", f"{PREFIX}:b LUN 0 is added: a RAM disk of 4 MiB"],
                         self.changes(target("a", ram(8), ram(2)), target("b", ram(4))))
        self.assertIn("4 MiB", self.capacity("b", 0))
        self.assertEqual([f"target {PREFIX}:b is removed"], self.changes(target("a", ram(8), ram(2))))
        self.assertIsNone(self.capacity("b", 0))
        # Again, as it is gone with all that it was.
        self.changes(target("a", ram(8), ram(2)), target("b", ram(3)))
        self.assertIn("3 MiB", self.capacity("b", 0))
        self.assertIsNone(busy.poll())
        busy.send_signal(signal.SIGINT)
        output, _ = busy.communicate(timeout=SECONDS)
        self.assertRegex(output, r"(?m)^write +[1-9]")
        self.assertNotRegex(output, "(?i)mismatch|error|lost")

    def test_what_sessions_use_is_not_taken_away(self):
        self.start(target("a", ram(8), ram(1)))
        busy = self.perf("a", 0)
        while "logged in" not in self.log():
            time.sleep(0.01)
        self.refused(rf"{PREFIX}:a LUN 1 is removed.*, but 1 sessions use {PREFIX}:a, such as that of iqn.*; log them out first",
                     target("a", ram(8)))
        self.assertIn("1 MiB", self.capacity("a", 1))
        busy.send_signal(signal.SIGINT)
        busy.communicate(timeout=SECONDS)
        self.assertEqual([f"{PREFIX}:a LUN 1 is removed: a RAM disk of 1 MiB"], self.changes(target("a", ram(8))))
        self.assertIsNone(self.capacity("a", 1))

    def test_all_or_nothing(self):
        self.start(target("a", ram(1)))
        missing = self.path / "missing"
        for pattern, parts in (
                (r"skiffd\.conf:4: .*missing.* does not exist|missing", (target("a", ram(1), lun(f'file {{ path: "{missing}" }}')),)),
                (r"skiffd\.conf:1: limits\.queue_depth cannot change|queue_depth cannot change",
                 ("limits { queue_depth: 7 }\n", target("a", ram(1), ram(2)))),
                (r"Expected|is not a size|there is no", ("rubbish\n",)),
                (r"tcp://192\.0\.2\.1:1: cannot|192\.0\.2\.1", ('portal: "tcp://192.0.2.1:1"\n',
                                                                target("a", "access: OPEN\n", ram(1)), target("c", "access: OPEN\n", ram(1))))):
            self.refused(pattern, *parts)
            self.assertIsNone(self.capacity("a", 1))
            self.assertIsNone(self.capacity("c", 0))
            self.assertIn("1 MiB", self.capacity("a", 0))

    def test_a_pipe_in_place_of_the_file_is_not_waited_for(self):
        self.start(target("a", ram(1)))
        self.config.unlink()
        os.mkfifo(self.config)
        self.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + SECONDS
        while "is no regular file" not in self.log() and time.monotonic() < until:
            time.sleep(0.01)
        self.assertIn("skiffd.conf does not hold, and nothing was changed", self.log())
        self.config.unlink()
        self.assertEqual([f"{PREFIX}:a LUN 1 is added: a RAM disk of 2 MiB"], self.changes(target("a", ram(1), ram(2))))

    def test_luns_that_take_the_room_of_connections(self):
        self.start(target("a", ram(1)), under=["prlimit", "--nofile=1000"])
        self.assertIn("max_connections is ", self.log())
        told = self.reload(target("a", *[ram(1)] * 10))
        self.assertRegex(told, r"max_connections is \d+, but the limit of 1000 open files has room for about \d+; raise it")
        self.assertNotIn("max_connections", self.reload(target("a", *[ram(1)] * 10)))

    def test_portals(self):
        self.start(target("a", ram(1)))
        before = self.portal
        told = self.changes('portal: "tcp://127.0.0.2:0"\n', target("a", ram(1)))
        self.assertEqual(["portal tcp://127.0.0.2:0 is opened"], told)
        self.assertIn("1 MiB", self.capacity("a", 0))
        self.config.write_text('portal: "tcp://127.0.0.2:0"\n' + target("a", ram(1)), encoding="utf-8")
        length = len(self.log())
        self.process.send_signal(signal.SIGHUP)
        while "skiffd.conf holds" not in self.log()[length:]:
            time.sleep(0.01)
        self.assertIn("changed: portal tcp://127.0.0.1:0 is closed", self.log()[length:])
        self.assertEqual(before, self.portal)
        self.assertIsNone(self.capacity("a", 0))

    def test_nobody_comes_by_a_portal_that_was_not_to_be(self):
        self.start(target("a", ram(1)))
        descriptors = f"/proc/{self.process.pid}/fd"
        before = len(os.listdir(descriptors))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        came = []
        ended = threading.Event()

        def knock():
            while not ended.is_set():
                client = socket.socket()
                client.bind(("127.0.0.2", 0))  # Never to itself.
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    came.append(client)
                else:
                    client.close()

        thread = threading.Thread(target=knock)
        thread.start()
        try:
            for _ in range(10):
                self.refused(r"192\.0\.2\.1", f'portal: "tcp://127.0.0.1:{port}"\nportal: "tcp://192.0.2.1:1"\n',
                             target("a", "access: OPEN\n", ram(1)))
                self.assertEqual(before, len(os.listdir(descriptors)))
        finally:
            ended.set()
            thread.join()
            for client in came:
                client.close()

    # With its old disk it is not for those whom the change lets in.
    def test_a_replaced_lun_is_seen_as_it_is_to_be(self):
        old, new = self.path / "old", self.path / "new"

        def parts(changed):
            disk, address = (new, "127.0.0.1") if changed else (old, "127.0.0.9")
            return (target("a", f'allow {{ address: "{address}" }}\n', lun(f'file {{ path: "{disk}"}}')),)

        old.write_bytes(b"o" * 4096)
        new.write_bytes(b"n" * 4096)
        self.start(*parts(False))
        seen = []
        ended = threading.Event()

        def read():
            while not ended.is_set():
                seen.append(self.skiff("read", self.url("a", 0), "--length", "4096", "-q").stdout)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            self.assertEqual([f"the access rules of {PREFIX}:a are others",
                              f"{PREFIX}:a LUN 0 is replaced: file {new} in place of file {old}"], self.changes(*parts(True)))
            seen.append(self.skiff("read", self.url("a", 0), "--length", "4096", "-q").stdout)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        self.assertEqual({b"", b"n" * 4096}, set(seen) | {b""})
        self.assertIn(b"n" * 4096, seen)

    def test_metrics_come_move_and_go(self):
        def served(told):
            url = re.search(r"metrics are served at (http://\S+)", told)[1]
            with urllib.request.urlopen(url, timeout=SECONDS) as answer:
                self.assertIn(f'target="{PREFIX}:a"', answer.read().decode())
            return url

        self.start(target("a", ram(1)))
        first = served(self.reload('metrics { listen: "127.0.0.1:0" }\n', target("a", ram(1))))
        taken = re.search(r":(\d+)/", first)[1]
        second = served(self.reload('metrics { listen: "127.0.0.2:0" }\n', target("a", ram(1))))
        with self.assertRaises(urllib.error.URLError):
            urllib.request.urlopen(first, timeout=SECONDS)
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", int(taken)))
            other.listen()
            self.refused(f"127.0.0.1:{taken}", f'metrics {{ listen: "127.0.0.1:{taken}" }}\n', target("a", ram(1), ram(2)))
        served(f"metrics are served at {second}")
        self.assertEqual(["metrics are not served"], self.changes(target("a", ram(1))))
        with self.assertRaises(urllib.error.URLError):
            urllib.request.urlopen(second, timeout=SECONDS)

    def test_accounts_and_rules(self):
        self.start(target("a", ram(1), ram(2)))
        secret = self.path / "secret"
        secret.write_text("twelve bytes and more\n", encoding="utf-8")
        secret.chmod(0o600)
        account = f'account {{ name: "client" secret_file: "{secret}" }}\n'
        self.assertEqual([f"the accounts of {PREFIX}:a are others"], self.changes(target("a", account, ram(1), ram(2))))
        self.assertIsNone(self.capacity("a", 0))
        url = self.url("a", 0).replace("iscsi://", "iscsi://client@")
        self.assertEqual(OK, self.skiff("capacity", url, f"--password-file={secret}").returncode)
        rule = 'allow { address: "127.0.0.1" map { lun: 1 as: 5 } }\n'
        self.changes(target("a", rule, ram(1), ram(2)))
        self.assertIn("2 MiB", self.capacity("a", 5))
        self.assertIsNone(self.capacity("a", 0))

    # Who is in already loses what the rules take, and hears of it.
    def test_rules_reach_sessions_that_are_there(self):
        self.start(target("a", ram(8)))
        busy = self.perf("a", 0)
        while "logged in" not in self.log():
            time.sleep(0.01)
        self.changes(target("a", 'allow { address: "127.0.0.9" }\n', ram(8)))
        busy.communicate(timeout=SECONDS)
        self.assertNotEqual(OK, busy.returncode)
        self.assertIsNone(self.capacity("a", 0))

    def test_a_file_goes_from_one_lun_to_another_with_what_is_in_it(self):
        disk = self.path / "disk"
        medium = f'file {{ path: "{disk}" size: "1MiB" }}'
        self.start(target("a", lun(medium)))
        self.assertEqual(OK, self.skiff("write", self.url("a", 0), "-q", data=b"x" * 4096).returncode)
        changes = self.changes(target("a", ram(1)), target("b", lun(medium)))
        self.assertTrue(any("until now" in change for change in changes), changes)
        self.assertEqual(b"x" * 4096, self.skiff("read", self.url("b", 0), "--length", "4096", "-q").stdout)

    def test_a_file_grows_under_those_who_use_it(self):
        disk = self.path / "disk"
        parts = (target("a", lun(f'file {{ path: "{disk}" }}')),)
        disk.write_bytes(b"x" * MEBIBYTE)
        self.start(*parts)
        busy = self.perf("a", 0, f"--size={MEBIBYTE}")
        while "logged in" not in self.log():
            time.sleep(0.01)
        os.truncate(disk, 2 * MEBIBYTE)
        self.assertEqual([f"{PREFIX}:a LUN 0 grows from 1 MiB to 2 MiB: file {disk}"], self.changes(*parts))
        self.assertIn("2 MiB", self.capacity("a", 0))
        self.assertEqual(OK, self.skiff("write", self.url("a", 0), "-q", "--offset", MEBIBYTE, data=b"y" * 4096).returncode)
        self.assertIsNone(busy.poll())
        self.assertEqual([], self.changes(*parts))
        # No session loses what it uses.
        os.truncate(disk, MEBIBYTE)
        self.refused(rf"{PREFIX}:a LUN 0 shrinks from 2 MiB to 1 MiB: file .*, but \d+ sessions use {PREFIX}:a", *parts)
        self.assertIn("2 MiB", self.capacity("a", 0))
        busy.send_signal(signal.SIGINT)
        output, _ = busy.communicate(timeout=SECONDS)
        self.assertRegex(output, r"(?m)^write +[1-9]")
        self.assertNotRegex(output, "(?i)mismatch|error|lost")
        self.assertEqual([f"{PREFIX}:a LUN 0 shrinks from 2 MiB to 1 MiB: file {disk}"], self.changes(*parts))
        self.assertIn("1 MiB", self.capacity("a", 0))
        self.assertNotEqual(OK, self.skiff("write", self.url("a", 0), "-q", "--offset", MEBIBYTE, data=b"y" * 4096).returncode)
        self.assertEqual(MEBIBYTE, disk.stat().st_size)

    def test_a_file_grows_on_its_way_to_another_lun(self):
        disk = self.path / "disk"
        medium = lun(f'file {{ path: "{disk}" }}')
        disk.write_bytes(b"x" * MEBIBYTE)
        self.start(target("a", medium))
        os.truncate(disk, 3 * MEBIBYTE)
        self.changes(target("a", ram(1)), target("b", medium))
        self.assertIn("3 MiB", self.capacity("b", 0))
        self.assertEqual([], self.changes(target("a", ram(1)), target("b", medium)))

    def test_the_log_level(self):
        self.start(target("a", ram(1)))
        self.assertEqual(['log_level is "debug"'], self.changes('log_level: "debug"\n', target("a", ram(1))))
        self.capacity("a", 0)
        self.assertIn(" debug ", self.log())

    def test_many_changes_leave_no_descriptor_behind(self):
        self.start(target("a", ram(1)))
        descriptors = f"/proc/{self.process.pid}/fd"
        self.changes(target("a", ram(1)), target("b", lun(f'file {{ path: "{self.path}/disk" size: "1MiB" }}')))
        self.changes(target("a", ram(1)))
        before = len(os.listdir(descriptors))
        for _ in range(10):
            self.changes(target("a", ram(1)), target("b", lun(f'file {{ path: "{self.path}/disk" }}')))
            self.changes(target("a", ram(1)))
        self.assertEqual(before, len(os.listdir(descriptors)))


if __name__ == "__main__":
    ConfiguredTest.skiffd, ConfiguredTest.skiff_program = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
