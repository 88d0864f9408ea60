#!/usr/bin/env python3
"""What skiff says of targets that have no disks, refuse commands, or do not answer.

Usage: odd_targets_test.py SKIFFD SKIFF
"""

import json
import os
import socket
import struct
import sys
import threading
import unittest

from tools_test import FAILED, MIB, NAME, NO_SESSION, OK, Daemon, skiff

TEXT_REQUEST, LOGIN_REQUEST, COMMAND, LOGOUT_REQUEST = 0x04, 0x03, 0x01, 0x06
INQUIRY, REPORT_LUNS = 0x12, 0xa0
ANSWERS = {
    "AuthMethod": "None", "TargetPortalGroupTag": "1", "MaxRecvDataSegmentLength": "65536", "InitialR2T": "Yes",
    "ImmediateData": "Yes", "HeaderDigest": "None", "DataDigest": "None", "MaxConnections": "1",
    "ErrorRecoveryLevel": "0", "MaxBurstLength": "262144", "FirstBurstLength": "65536", "MaxOutstandingR2T": "1",
    "DefaultTime2Wait": "2", "DefaultTime2Retain": "0", "DataPDUInOrder": "Yes", "DataSequenceInOrder": "Yes",
}
DISK, CD_ROM, NONE = 0x00, 0x05, 0x7f  # The first byte of INQUIRY data.
KEY_ILLEGAL_REQUEST, KEY_HARDWARE_ERROR = 5, 4


def inquiry(kind):
    return bytes([kind, 0, 6, 2, 31, 0, 0, 2]) + b"ODD     ODD DEVICE      1.0 "


class Connection:
    """One connection of an OddTarget."""

    def __init__(self, target, stream):
        self.target, self.stream = target, stream
        self.stat_sn, self.cmd_sn = 1, 1

    def receive(self, size):
        data = b""
        while len(data) < size:
            part = self.stream.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def serve(self):
        while True:
            bhs = self.receive(48)
            length = int.from_bytes(bhs[5:8], "big")
            data = self.receive(length + -length % 4)[:length]
            opcode = bhs[0] & 0x3f
            if opcode == LOGIN_REQUEST:
                self.cmd_sn = struct.unpack(">I", bhs[24:28])[0]
                self.log_in(bhs, data)
                continue
            if not bhs[0] & 0x40:
                self.cmd_sn += 1
            if opcode == COMMAND:
                self.execute(bhs)
            elif opcode == LOGOUT_REQUEST:
                self.send(0x26, bhs)
                return
            # Nothing else is answered.

    def send(self, opcode, request, data=b"", flags=0x80, status=0, residual=0, login=False):
        bhs = bytearray(48)
        bhs[0], bhs[1], bhs[3] = opcode, flags, 0 if login else status
        bhs[5:8] = len(data).to_bytes(3, "big")
        if login:
            bhs[8:14] = request[8:14]
            bhs[14:16] = b"\0\1" if flags & 0x83 == 0x83 else b"\0\0"
        elif opcode == 0x25:
            bhs[20:24] = b"\xff" * 4
        bhs[16:20] = request[16:20]
        struct.pack_into(">III", bhs, 24, self.stat_sn, self.cmd_sn, self.cmd_sn + 31)
        if not login:
            struct.pack_into(">I", bhs, 44, residual)
        self.stat_sn += 1
        self.stream.sendall(bytes(bhs) + data + bytes(-len(data) % 4))

    def log_in(self, bhs, data):
        asked = [pair.split("=")[0] for pair in data.decode().split("\0") if pair]
        security = bhs[1] & 0x0c == 0
        wanted = ["AuthMethod"] if security else [key for key in ANSWERS if key != "AuthMethod" and key in asked]
        if "TargetName" in asked:
            wanted.append("TargetPortalGroupTag")
        text = "".join(f"{key}={ANSWERS[key]}\0" for key in wanted)
        self.send(0x23, bhs, text.encode(), flags=bhs[1] & 0x8f, login=True)

    def execute(self, bhs):
        lun, cdb, allocated = bhs[9], bhs[32:48], struct.unpack(">I", bhs[20:24])[0]
        answer = None
        if cdb[0] == REPORT_LUNS and self.target.luns is not None:
            answer = struct.pack(">II", 8 * len(self.target.luns), 0)
            answer += b"".join(bytes([0, number]) + bytes(6) for number in self.target.luns)
        elif cdb[0] == INQUIRY and not cdb[1] & 1:
            answer = inquiry((self.target.luns or {0: CD_ROM}).get(lun, NONE))
        if answer is not None:
            answer = answer[:allocated]
            flags = 0x81 | (2 if len(answer) < allocated else 0)
            return self.send(0x25, bhs, answer, flags=flags, residual=allocated - len(answer))
        key, code = (KEY_HARDWARE_ERROR, 0x44) if cdb[0] != REPORT_LUNS else (KEY_ILLEGAL_REQUEST, 0x20)
        sense = bytes([0x70, 0, key, 0, 0, 0, 0, 10, 0, 0, 0, 0, code, 0, 0, 0, 0, 0])
        return self.send(0x21, bhs, struct.pack(">H", len(sense)) + sense, status=2)


class OddTarget:
    """Has `luns` with INQUIRY and REPORT LUNS, and is broken for all else; no REPORT LUNS without any."""

    def __init__(self, luns=None):
        self.luns = luns
        self.server = socket.create_server(("127.0.0.1", 0))
        self.portal = f"127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                stream = self.server.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(stream,), daemon=True).start()

    def serve(self, stream):
        with stream:
            try:
                Connection(self, stream).serve()
            except (EOFError, OSError):
                pass

    def url(self, lun=None):
        return f"iscsi://{self.portal}/{NAME}" + ("" if lun is None else f"/{lun}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.close()


class OddTargetsTest(unittest.TestCase):

    def test_inquiry_is_for_anything(self):
        with OddTarget({0: CD_ROM, 3: DISK}) as target:
            result = skiff("inquiry", target.url(0))
            self.assertEqual(result.returncode, OK, result.stderr)
            self.assertRegex(result.stdout.decode(), r"product: +ODD DEVICE")
            missing = skiff("inquiry", target.url(7))
            self.assertEqual(missing.returncode, FAILED)
            self.assertRegex(missing.stderr.decode(), "the target has no LUN 7; it has 0, 3$")

    def test_ls_tells_problems_below_its_table(self):
        with OddTarget({0: CD_ROM, 3: DISK}) as target:
            result = skiff("ls", target.url())
            self.assertEqual(result.returncode, FAILED, result.stderr)
            lines = result.stdout.decode().splitlines()
            self.assertRegex(lines[1], rf"^{NAME} +0 +- +- +ODD +ODD DEVICE +1.0$")
            self.assertRegex(lines[2], rf"^{NAME} +3 +-$")
            self.assertEqual(lines[3], f"{NAME} LUN 0: no disk, but of type 05h")
            self.assertRegex(lines[4], rf"^{NAME} LUN 3: .*HARDWARE ERROR")
            report = skiff("ls", target.url(), "--json")
            self.assertEqual(report.returncode, FAILED)
            luns = json.loads(report.stdout)["targets"][0]["luns"]
            self.assertEqual((luns[0]["device_type"], luns[1]["lun"]), (CD_ROM, 3))
            self.assertIn("problem", luns[1])
        with OddTarget({0: CD_ROM}) as target:
            self.assertEqual(skiff("ls", target.url()).returncode, OK)

    def test_ls_tries_lun_0_where_nothing_is_listed(self):
        with OddTarget() as target:
            result = skiff("ls", target.url())
            self.assertEqual(result.returncode, OK, result.stderr)
            self.assertRegex(result.stdout.decode(), rf"(?m)^{NAME} +0 +- +- +ODD +ODD DEVICE +1.0$")

    def test_discovery_obeys_the_command_timeout(self):
        with OddTarget() as target:
            result = skiff("discover", target.portal, "--command-timeout=200ms", "--timeout=30s")
            self.assertEqual(result.returncode, NO_SESSION)
            self.assertRegex(result.stderr.decode(),
                             r"did not answer a Text Request within 200ms .*--command-timeout sets the limit$")

    def test_few_of_many_luns_are_named(self):
        luns = [argument for number in range(20) for argument in ("--lun", f"ram:1MiB,lun={number * 10}")]
        daemon = Daemon("--listen", "tcp://127.0.0.1:0", "--target", NAME, *luns)
        self.addCleanup(daemon.close)
        for command in ("capacity", "inquiry"):
            result = skiff(command, daemon.url(408))
            self.assertEqual(result.returncode, FAILED)
            self.assertRegex(result.stderr.decode(),
                             r"has no LUN 408; it has 0, 10, .*, 150 and 4 more \(ls lists them\)$")

    def test_advice_is_short_and_said_once(self):
        daemon = Daemon("--listen", "tcp://127.0.0.1:0", "--target", NAME, "--lun", "ram:1MiB")
        self.addCleanup(daemon.close)
        for scheme in ("iscsi", "auto"):
            result = skiff("capacity", f"{scheme}://{daemon.portal}/iqn.2026-11.com.example:other/0")
            self.assertEqual(result.returncode, NO_SESSION)
            told = result.stderr.decode().splitlines()[-1]
            self.assertEqual(told.count("discovery"), 1, told)
            self.assertLessEqual(told.count("check"), 1, told)
        no_rdma = skiff("capacity", f"iser://{daemon.portal}/{NAME}/0")
        self.assertEqual(no_rdma.returncode, NO_SESSION)
        self.assertLess(len(no_rdma.stderr), 600, no_rdma.stderr)
        self.assertRegex(no_rdma.stderr.decode(), r"by RDMA: verbs: .*; libfabric: .*skiff transports")

    def test_too_much_memory_is_warned_of(self):
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        for size, expected in ((f"{2 * memory // MIB}MiB", True), ("1MiB", False)):
            daemon = Daemon("--listen", "tcp://127.0.0.1:0", "--target", NAME, "--lun", f"ram:{size}")
            self.addCleanup(daemon.close)
            self.assertIn("ready", daemon.ready)
            self.assertEqual("warn  RAM disks can grow to" in daemon.log, expected, daemon.log)
            self.assertEqual(daemon.end(), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
