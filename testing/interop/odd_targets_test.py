#!/usr/bin/env python3
"""skiff with targets that are small, old, ill, or that lie, each a few lines here.

Usage: odd_targets_test.py SKIFF
"""

import socket
import struct
import subprocess
import sys
import tempfile
import threading

NAME = "iqn.2026-11.org.example.skiff:odd"
LIMIT_SECONDS = 60
BLOCK = 512
BLOCKS = 8192

LOGIN, COMMAND, DATA_OUT, LOGOUT = 0x03, 0x01, 0x05, 0x06
INQUIRY, READ_10, WRITE_10, REPORT_LUNS, READ_CAPACITY_16 = 0x12, 0x28, 0x2a, 0xa0, 0x9e
ILLEGAL_REQUEST, RECOVERED_ERROR = 5, 1
# All that a target may answer to what skiff proposes.
ANSWERS = """MaxRecvDataSegmentLength=65536 InitialR2T=Yes ImmediateData=No HeaderDigest=None DataDigest=None MaxConnections=1
    ErrorRecoveryLevel=0 MaxBurstLength=262144 FirstBurstLength=65536 MaxOutstandingR2T=1 DefaultTime2Wait=2
    DefaultTime2Retain=0 DataPDUInOrder=Yes DataSequenceInOrder=Yes""".split()
STANDARD_INQUIRY = bytes([0, 0, 6, 2, 31, 0, 0, 2]) + b"SKIFF   ODD DISK        1.0 "


class Command:
    """A SCSI Command that came."""

    def __init__(self, header):
        self.lun = header[8:16]
        self.tag = header[16:20]
        self.length = struct.unpack(">I", header[20:24])[0]
        self.cdb = header[32:48]


class Connection:
    """One connection of a target; `odd(connection, command)` answers what it wants to, and returns true then."""

    def __init__(self, stream, odd):
        self._stream = stream
        self._odd = odd
        self._stat_sn = 1
        self._cmd_sn = 1

    def _receive(self, size):
        data = b""
        while len(data) < size:
            piece = self._stream.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def _next(self):
        header = self._receive(48)
        length = int.from_bytes(header[5:8], "big")
        return header, self._receive(header[4] * 4 + length + -length % 4)[:length]

    def send(self, opcode, tag, *, flags=0x80, status=0, at=None, data=b"", counts=True):
        """One PDU; `at` has fields by their offsets."""
        header = bytearray(48)
        header[0], header[1], header[3] = opcode, flags, status
        header[5:8] = len(data).to_bytes(3, "big")
        header[16:20] = tag
        header[24:36] = struct.pack(">III", self._stat_sn, self._cmd_sn, self._cmd_sn + 63)
        for offset, value in (at or {}).items():
            header[offset:offset + len(value)] = value
        self._stat_sn += counts
        self._stream.sendall(bytes(header) + data + bytes(-len(data) % 4))

    def data_in(self, command, data, final=True):
        short = command.length - len(data)
        self.send(0x25, command.tag, flags=(0x81 | (2 if short else 0)) if final else 0x80, data=data, counts=final,
                  at={20: b"\xff" * 4, 44: struct.pack(">I", short if final else 0)})

    def status(self, command, status=0, sense=b""):
        self.send(0x21, command.tag, status=status, data=struct.pack(">H", len(sense)) + sense if sense else b"")

    def check_condition(self, command, key, code=0):
        self.status(command, 2, bytes([0x70, 0, key, 0, 0, 0, 0, 10, 0, 0, 0, 0, code, 0, 0, 0, 0, 0]))

    def ask(self, command, offset, length, number=0):
        """Asks for data and takes them."""
        self.send(0x31, command.tag, counts=False, at={20: struct.pack(">I", 7), 36: struct.pack(">III", number, offset,
                                                                                             length)})
        while True:
            header, _ = self._next()
            if header[0] & 0x3f == DATA_OUT and header[1] & 0x80:
                return

    def serve(self):
        while True:
            header, data = self._next()
            opcode = header[0] & 0x3f
            if not header[0] & 0x40:
                self._cmd_sn += opcode != DATA_OUT
            if opcode == LOGIN:
                self._log_in(header, data)
            elif opcode == LOGOUT:
                self.send(0x26, header[16:20])
            elif opcode == COMMAND:
                command = Command(header)
                if not self._odd(self, command):
                    self._answer(command)

    def _log_in(self, header, data):
        self._cmd_sn = struct.unpack(">I", header[24:28])[0]
        asked = {pair.split(b"=")[0].decode() for pair in data.split(b"\0")}
        keys = [key for key in ANSWERS if key.split("=")[0] in asked] + ["TargetPortalGroupTag=1"]
        self.send(0x23, header[16:20], flags=header[1],
                  at={8: header[8:14] + b"\0\1"}, data="".join(key + "\0" for key in keys).encode())

    def _answer(self, command):
        operation = command.cdb[0]
        answers = {
            INQUIRY: STANDARD_INQUIRY,
            REPORT_LUNS: struct.pack(">I", 8) + bytes(12),
            READ_CAPACITY_16: struct.pack(">QI", BLOCKS - 1, BLOCK) + bytes(20),
            READ_10: bytes(command.length),
        }
        if operation == INQUIRY and command.cdb[1] & 1:
            self.check_condition(command, ILLEGAL_REQUEST, 0x24)
        elif operation in answers:
            self.data_in(command, answers[operation][:command.length])
        elif operation in (0x00, 0x35):
            self.status(command)
        else:
            self.check_condition(command, ILLEGAL_REQUEST, 0x20)


class Target:
    """Listens on a free port; `luns` is what commands were for."""

    def __init__(self, odd):
        self.luns = set()
        self._odd = odd
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.portal = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _note(self, connection, command):
        if command.cdb[0] != REPORT_LUNS:
            self.luns.add(command.lun[:2].hex())
        return self._odd(connection, command)

    def _accept(self):
        while True:
            stream, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(stream,), daemon=True).start()

    def _serve(self, stream):
        with stream:
            try:
                Connection(stream, self._note).serve()
            except (EOFError, OSError):
                pass


def refuses(operation):
    def odd(connection, command):
        if command.cdb[0] == operation:
            connection.check_condition(command, ILLEGAL_REQUEST, 0x20)
        return command.cdb[0] == operation
    return odd


def answers(operation, data):
    def odd(connection, command):
        if command.cdb[0] == operation:
            connection.data_in(command, data[:command.length])
        return command.cdb[0] == operation
    return odd


def recovers(missing):
    """Reads all but `missing` bytes, and says that it had trouble."""
    def odd(connection, command):
        if command.cdb[0] != READ_10:
            return False
        connection.data_in(command, bytes(command.length - missing), final=False)
        connection.check_condition(command, RECOVERED_ERROR, 0x17)
        return True
    return odd


def writes(*ranges):
    """Asks for these halves of the data, and says that all is written."""
    def odd(connection, command):
        if command.cdb[0] != WRITE_10:
            return False
        half = command.length // 2
        for number, which in enumerate(ranges):
            connection.ask(command, which * half, half, number)
        connection.status(command)
        return True
    return odd


def lists_lun(first_level):
    return answers(REPORT_LUNS, struct.pack(">IIH", 8, 0, first_level) + bytes(6))


def main():
    skiff = sys.argv[1]
    failures = []

    def trial(what, odd, arguments, status, words, luns=None):
        target = Target(odd)
        command = [skiff] + [argument.replace("URL", f"iscsi://{target.portal}/{NAME}") for argument in arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_SECONDS,
                              text=True, check=False)
        right = done.returncode == status and words in done.stdout and luns in (None, target.luns)
        print("ok   " if right else "WRONG", what)
        if not right:
            failures.append(what)
            print(f"  status {done.returncode}, LUNs {target.luns}: {done.stdout}")

    with tempfile.NamedTemporaryFile() as data:
        data.write(bytes(4096))
        data.flush()
        read = ["read", "URL/0", "--length=4k", "-q", "-o", "/dev/null"]
        write = ["write", "URL/0", "-q", "-i", data.name]
        nothing = lambda connection, command: False
        trial("nothing odd", nothing, read, 0, "")
        trial("no REPORT LUNS", refuses(REPORT_LUNS), ["ls", "URL"], 0, "ODD DISK")
        trial("protection information", answers(READ_CAPACITY_16, struct.pack(">QIB", BLOCKS - 1, BLOCK, 1) + bytes(19)),
              ["capacity", "URL/0"], 0, str(BLOCKS * BLOCK))
        trial("RECOVERED ERROR with all data", recovers(0), read, 0, "the disk recovered from an error")
        trial("RECOVERED ERROR without some", recovers(512), read, 1, "residual of 512 bytes")
        for first_level in (0x012c, 0x412c):
            trial(f"LUN 300 listed as {first_level:04x}h", lists_lun(first_level), ["capacity", "URL/300"], 0,
                  str(BLOCKS * BLOCK), {f"{first_level:04x}"})
        trial("data of a write asked for", writes(0, 1), write, 0, "")
        trial("not asked for", writes(), write, 1, "residual of 4096 bytes")
        trial("half of them", writes(0), write, 1, "residual of 2048 bytes")
        trial("one half twice", writes(0, 0), write, 1, "residual of 2048 bytes")
        trial("the second half only", writes(1), write, 1, "residual of 2048 bytes")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
