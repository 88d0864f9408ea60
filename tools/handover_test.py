#!/usr/bin/env python3
"""Sessions go on in the skiffd that is started in place of another, as separate processes.

A service manager of the test's own keeps descriptors as sd_notify(3) says.

Usage: handover_test.py SKIFFD SKIFF
"""

import array
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from configured_skiffd import PREFIX, SECONDS, ConfiguredTest, lun, ram, target

FIRST_DESCRIPTOR = 3
MOST_DESCRIPTORS = 253


class ServiceManager:
    """Keeps the descriptors that it is sent, until they are taken back."""

    def __init__(self, path):
        self.path = path
        self.kept = []
        self.told = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while True:
            message, control, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(4 * MOST_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC)
            descriptors = array.array("i")
            for _, _, data in control:
                descriptors.frombytes(data)
            lines = message.decode().split("\n")
            if "END" in lines:
                break
            if "FDSTORE=1" in lines:
                self.kept += descriptors
            else:
                if "FDSTOREREMOVE=1" in lines:
                    self.forget()
                for descriptor in descriptors:  # BARRIER=1
                    os.close(descriptor)
            self.told.append(lines[0])

    def forget(self):
        for descriptor in self.kept:
            os.close(descriptor)
        self.kept = []

    def end(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"END", str(self.path))
        self.thread.join()
        self.forget()
        self.socket.close()


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class HandoverTest(ConfiguredTest):
    def setUp(self):
        super().setUp()
        self.manager = ServiceManager(self.path / "notify")
        self.addCleanup(self.manager.end)
        self.portal = f"127.0.0.1:{free_port()}"

    def write(self, *parts):
        self.config.write_text(f'portal: "tcp://{self.portal}"\n' + "".join(parts), encoding="utf-8")

    def launch(self, managed=True):
        """With what is kept, from descriptor 3 on (sd_listen_fds(3))."""
        kept = [os.dup(descriptor) for descriptor in self.manager.kept]

        def place():
            # Above where they go, first.
            moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 200) for descriptor in kept]
            for number, descriptor in enumerate(moved):
                os.dup2(descriptor, FIRST_DESCRIPTOR + number, inheritable=True)

        environment = dict(os.environ)
        if managed:
            environment["NOTIFY_SOCKET"] = str(self.manager.path)
        command = f"LISTEN_PID=$$ LISTEN_FDS={len(kept)} exec \"$0\" --config \"$1\""
        with open(self.path / "log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(["/bin/sh", "-c", command, self.skiffd, self.config], stdout=subprocess.PIPE, stderr=log, text=True,
                                            env=environment, close_fds=False, preexec_fn=place)
        for descriptor in kept:
            os.close(descriptor)

    def begin(self, *parts, managed=True):
        self.write(*parts)
        self.launch(managed)
        self.addCleanup(self.end)
        self.await_ready()

    def await_ready(self):
        self.assertIn("ready", self.process.stdout.readline(), self.log())

    def leave(self):
        self.process.send_signal(signal.SIGUSR2)
        self.assertEqual(self.process.wait(SECONDS), 0, self.log())
        self.process.stdout.close()

    def restart(self):
        self.leave()
        self.launch()
        self.await_ready()

    def file(self, name, mebibytes=16):
        return lun(f'file {{ path: "{self.path / name}" size: "{mebibytes}MiB" }}')

    def finish(self, load):
        self.assertIsNone(load.poll())
        load.send_signal(signal.SIGINT)
        output, _ = load.communicate(timeout=SECONDS)
        self.assertRegex(output, r"(?m)^write +[1-9]")
        self.assertNotRegex(output, "(?i)mismatch|error|lost|again")
        return output

    def await_filled(self, name, mebibytes=16):
        """A load has written all of this file once, and measures from then on."""
        until = time.monotonic() + SECONDS
        while (self.path / name).stat().st_blocks * 512 < mebibytes << 20:
            self.assertLess(time.monotonic(), until, self.log())
            time.sleep(0.01)

    def await_log(self, pattern):
        until = time.monotonic() + SECONDS
        while not re.search(pattern, self.log()):
            self.assertLess(time.monotonic(), until, self.log())
            time.sleep(0.01)

    def test_verified_loads_go_on_through_ten_restarts(self):
        self.begin(target("a", self.file("a")), target("b", self.file("b")))
        loads = [self.perf("a", 0), self.perf("b", 0)]
        for name in "ab":
            self.await_log(f"logged in to {PREFIX}:{name}")
            self.await_filled(name)
        for _ in range(10):
            time.sleep(0.3)
            self.restart()
        time.sleep(0.3)
        for load in loads:
            print(self.finish(load))
        self.assertEqual(self.log().count("logged in to"), 2, self.log())
        self.assertEqual(self.log().count("goes on in another process"), 20, self.log())
        self.assertEqual(self.manager.kept, [])

    def test_goes_on_where_it_is_managed_and_traced(self):
        self.begin(target("a", self.file("a")), f'management {{ socket: "{self.path / "managed"}" }}\n')
        load = self.perf("a", 0)
        self.await_log("logged in to")
        self.await_filled("a")
        for _ in range(2):
            time.sleep(0.2)
            self.restart()
        time.sleep(0.2)
        self.finish(load)
        self.assertEqual(self.log().count("logged in to"), 1, self.log())

    def test_a_portal_may_become_one_of_all_addresses(self):
        self.begin(target("a", self.file("a")))
        loopback = self.portal
        self.leave()
        self.portal = f"0.0.0.0:{loopback.split(':')[1]}"
        self.write(target("a", "access: OPEN\n", self.file("a")))
        self.launch()
        self.await_ready()
        for portal in (self.portal, loopback):
            self.leave()
            self.portal = portal
            self.write(target("a", "access: OPEN\n", self.file("a")))
            self.launch()
            self.await_ready()
        self.assertIn("16 MiB", self.capacity("a", 0))

    def test_disks_that_changed_places_are_not_taken_for_each_other(self):
        self.begin(target("a", self.file("a")), target("b", self.file("b")))
        load = self.perf("a", 0, "--reconnect-timeout=1h")
        self.await_log("logged in to")
        self.leave()
        self.write(target("a", self.file("b")), target("b", self.file("a")))
        self.launch()
        self.await_ready()
        self.await_log("has to log in again: a disk is another one than it was")
        load.kill()
        load.communicate(timeout=SECONDS)

    def test_descriptors_that_are_not_there_are_not_taken(self):
        self.write(target("a", self.file("a")), f'management {{ socket: "{self.path / "managed"}" }}\n')
        command = 'LISTEN_PID=$$ LISTEN_FDS=1000 exec "$0" --config "$1"'
        with open(self.path / "log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(["/bin/sh", "-c", command, self.skiffd, self.config], stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(self.end)
        self.await_ready()
        self.assertIn("16 MiB", self.capacity("a", 0))

    def test_who_connects_meanwhile_waits(self):
        self.begin(target("a", self.file("a")))
        self.leave()
        host, port = self.portal.split(":")
        with socket.create_connection((host, int(port)), timeout=SECONDS):
            command = subprocess.Popen([self.skiff_program, "capacity", self.url("a", 0)], stdout=subprocess.PIPE, text=True)
            time.sleep(0.2)
            self.launch()
            self.await_ready()
            output, _ = command.communicate(timeout=SECONDS)
        self.assertIn("16 MiB", output)

    def test_what_a_process_that_fails_was_given_is_not_lost(self):
        self.begin(target("a", self.file("a")))
        load = self.perf("a", 0)
        self.await_log("logged in to")
        self.await_filled("a")
        self.leave()
        right = self.config.read_text(encoding="utf-8")
        self.config.write_text("rubbish\n", encoding="utf-8")
        self.launch()
        self.assertEqual(self.process.wait(SECONDS), 2)
        self.process.stdout.close()
        self.config.write_text(right, encoding="utf-8")
        self.launch()
        self.await_ready()
        time.sleep(0.2)
        self.finish(load)
        self.assertEqual(self.log().count("logged in to"), 1, self.log())

    def test_ram_disks_do_not_go_on(self):
        self.begin(target("a", ram(8)), target("b", self.file("b")))
        ram_load = subprocess.Popen([self.skiff_program, "perf", self.url("a", 0), "--rw=read", "--runtime=1h"], stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True)
        load = self.perf("b", 0)
        for name in "ab":
            self.await_log(f"logged in to {PREFIX}:{name}")
        self.await_filled("b")
        self.restart()
        self.await_log(rf"(?s)(logged in to {PREFIX}:a.*){{2}}")
        time.sleep(0.2)
        self.finish(load)
        self.assertEqual(self.log().count(f"logged in to {PREFIX}:b"), 1, self.log())
        ram_load.send_signal(signal.SIGINT)
        ram_load.communicate(timeout=SECONDS)

    def test_without_a_manager_it_ends(self):
        self.begin(target("a", self.file("a")), managed=False)
        self.process.send_signal(signal.SIGUSR2)
        self.assertEqual(self.process.wait(SECONDS), 0)
        self.assertIn("to log out", self.log())
        self.process.stdout.close()
        self.launch(managed=False)
        self.await_ready()


if __name__ == "__main__":
    ConfiguredTest.skiffd, ConfiguredTest.skiff_program = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1], verbosity=2)
