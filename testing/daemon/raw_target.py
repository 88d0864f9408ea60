"""A target that is small, old, ill, or that lies: what it does oddly is a function of a few lines.

`odd(connection, command)` answers a SCSI command if it wants to, and returns true then. Everything else is answered as
a small disk does, but for pings and Text Requests, which are not answered.
"""

import socket
import struct
import threading

NAME = "iqn.2026-11.org.example.skiff:odd"
BLOCK = 512
BLOCKS = 8192

COMMAND, LOGIN, TEXT, DATA_OUT, LOGOUT = 0x01, 0x03, 0x04, 0x05, 0x06
INQUIRY, READ_10, WRITE_10, REPORT_LUNS, READ_CAPACITY_16 = 0x12, 0x28, 0x2a, 0xa0, 0x9e
RECOVERED_ERROR, HARDWARE_ERROR, ILLEGAL_REQUEST = 1, 4, 5
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
    """One connection of a target."""

    def __init__(self, stream, odd, text):
        self._stream = stream
        self._odd = odd
        self._text = text
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
            elif opcode == TEXT and self._text is not None:
                self._text(self, header)

    def text(self, request, data, final=True):
        """The answer to a Text Request, or a part of it."""
        self.send(0x24, request[16:20], flags=0x80 if final else 0x40, data=data,
                  at={20: b"\xff" * 4 if final else struct.pack(">I", 9)})

    def _log_in(self, header, data):
        self._cmd_sn = struct.unpack(">I", header[24:28])[0]
        asked = {pair.split(b"=")[0].decode() for pair in data.split(b"\0")}
        keys = [key for key in ANSWERS if key.split("=")[0] in asked]
        if "TargetName" in asked:
            keys.append("TargetPortalGroupTag=1")
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
    """Listens on a free port; `luns` is what commands were for. `text(connection, header)` answers Text Requests."""

    def __init__(self, odd, text=None, name=NAME):
        self.luns = set()
        self._name = name
        self._odd = odd
        self._text = text
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.portal = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()

    def url(self, lun=None):
        return f"iscsi://{self.portal}/{self._name}" + ("" if lun is None else f"/{lun}")

    def _note(self, connection, command):
        if command.cdb[0] != REPORT_LUNS:
            self.luns.add(command.lun[:2].hex())
        return self._odd(connection, command)

    def _accept(self):
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(stream,), daemon=True).start()

    def _serve(self, stream):
        with stream:
            try:
                Connection(stream, self._note, self._text).serve()
            except (EOFError, OSError):
                pass


def nothing(_connection, _command):
    return False


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
