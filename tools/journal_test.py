#!/usr/bin/env python3
"""skiffd's log in systemd's journal, which this test is: in a mount namespace, for who may make one.

Usage: journal_test.py SKIFFD SKIFF
"""

import socket
import struct
import subprocess
import sys
import unittest

from configured_skiffd import PREFIX, SECONDS, ConfiguredTest, ram, target

JOURNAL = 'log { format: "journal" }\n'
# In a namespace of its own, where the directory $0 is the journal's, becomes "$@".
WITH_JOURNAL = ("unshare", "--mount", "sh", "-ec", 'mount -t tmpfs none /run; mkdir -p /run/systemd/journal; '
                'mount --bind "$0" /run/systemd/journal; exec "$@"')
WITHOUT_JOURNAL = ("unshare", "--mount", "sh", "-ec", 'mount -t tmpfs none /run; exec "$0" "$@"')


def parse(datagram):
    """The fields of the journal's native protocol."""
    fields = {}
    while datagram:
        line, _, datagram = datagram.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            size, = struct.unpack_from("<Q", datagram)
            value, datagram = datagram[8:8 + size], datagram[9 + size:]
        fields[name.decode()] = value.decode()
    return fields


class JournalTest(ConfiguredTest):
    def setUp(self):
        super().setUp()
        directory = self.path / "journal"
        directory.mkdir()
        self.journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.journal.close)
        self.journal.bind(str(directory / "socket"))
        self.journal.settimeout(SECONDS)
        self.under = (*WITH_JOURNAL, directory)

    def receive_until(self, field):
        while True:
            event = parse(self.journal.recv(1 << 16))
            self.assertEqual("skiffd", event["SYSLOG_IDENTIFIER"])
            if field in event:
                return event

    def test_events_have_fields(self):
        self.start(JOURNAL, target("a", ram(1)), under=self.under)
        self.assertIn("1 MiB", self.capacity("a", 0))
        event = self.receive_until("SKIFF_INITIATOR")
        self.assertEqual("6", event["PRIORITY"])
        self.assertIn(event["SKIFF_INITIATOR"], event["MESSAGE"])
        self.assertEqual(f"{PREFIX}:a", event["SKIFF_TARGET"])
        self.assertRegex(event["SKIFF_ADDRESS"], r"^127\.0\.0\.1:\d+$")
        self.assertEqual("", self.log())

    def test_refusals_have_their_reason(self):
        self.start(JOURNAL, target("a", ram(1)), under=self.under)
        self.assertIsNone(self.capacity("b", 0))
        event = self.receive_until("SKIFF_REASON")
        self.assertEqual("4", event["PRIORITY"])
        self.assertIn(event["SKIFF_REASON"], event["MESSAGE"])

    def test_a_machine_without_a_journal_is_an_error(self):
        self.write(JOURNAL, target("a", ram(1)))
        result = subprocess.run([*WITHOUT_JOURNAL, self.skiffd, "--config", self.config], capture_output=True, text=True,
                                timeout=SECONDS, check=False)
        self.assertEqual(1, result.returncode)
        self.assertIn("/run/systemd/journal/socket", result.stderr)
        self.assertIn('write "text" or "json"', result.stderr)


if __name__ == "__main__":
    ConfiguredTest.skiffd, ConfiguredTest.skiff_program = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
