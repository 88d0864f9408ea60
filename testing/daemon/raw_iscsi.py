"""skiffd on a free port, and an initiator that sends what it is told to, also what no initiator would."""

import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import time

TARGET = "iqn.2026-11.org.example.skiff:daemon"
PATIENCE_SECONDS = 60


class Daemon:
    """A skiffd. Its log is a file, unless there is another place for it."""

    def __init__(self, skiffd, directory, luns='lun { ram { size: "1MiB" } }', settings="", flags=(), stderr=None):
        self.directory = pathlib.Path(directory)
        config = self.directory / "skiffd.conf"
        config.write_text(
            f'portal: "tcp://127.0.0.1:0"\n{settings}\ntarget {{ name: "{TARGET}"\n{luns}\n}}\n', encoding="utf-8"
        )
        self.log_path = self.directory / "log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [skiffd, "--config", config, *flags],
                stdout=subprocess.PIPE,
                stderr=log if stderr is None else stderr,
                text=True,
            )
        line = self.process.stdout.readline()
        if not line.startswith("ready"):
            self.process.wait()
            raise RuntimeError(f"skiffd did not start: {self.log()}")
        # Their addresses, in the order of the configuration: the first is over TCP.
        self.portals = re.findall(r"\bportal=(\S+)", line)
        self.port = int(self.portals[0].rpartition(":")[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def wait_for_log(self, text):
        """The log, once it has the text."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.log():
            if time.monotonic() > deadline:
                raise AssertionError(f"no '{text}' in the log:\n{self.log()}")
            time.sleep(0.02)
        return self.log()

    def stop(self):
        """Ends it in order. Returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)


class Initiator:
    """One connection, and the session on it. Answers no pings: nothing here takes that long."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        self.cmd_sn = 1
        self.exp_stat_sn = 0
        self.task_tag = 0x10

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def receive(self, length):
        data = b""
        while len(data) < length:
            piece = self.socket.recv(length - len(data))
            if not piece:
                raise EOFError("the target closed the connection")
            data += piece
        return data

    def pdu(self):
        """The next PDU: its header and its data."""
        header = self.receive(48)
        length = int.from_bytes(header[5:8], "big")
        data = self.receive(length + -length % 4)[:length]
        if header[0] & 0x3F in (0x20, 0x21, 0x23, 0x24, 0x26):
            self.exp_stat_sn = int.from_bytes(header[24:28], "big") + 1
        return header, data

    def login(self, name="iqn.2026-11.org.example:raw", target=TARGET):
        """Into full feature phase; returns status class and detail. Bytes of a name that are no UTF-8 are surrogates."""
        keys = "".join(
            f"{key}\0"
            for key in (
                f"InitiatorName={name}",
                "SessionType=Normal",
                f"TargetName={target}",
                "InitialR2T=No",
                "ImmediateData=Yes",
                "MaxRecvDataSegmentLength=262144",
            )
        ).encode(errors="surrogateescape")
        # Operational negotiation straight to full feature phase.
        header = struct.pack(">BBBB", 0x43, 0x87, 0, 0) + struct.pack(">I", len(keys))
        header += b"\x80\0\0\0\0\1" + struct.pack(">HIHHII", 0, 1, 1, 0, self.cmd_sn, 0)
        self.send(header.ljust(48, b"\0") + keys + b"\0" * (-len(keys) % 4))
        answer, _ = self.pdu()
        return answer[36], answer[37]

    def nop_out(self, cmd_sn=None):
        """A ping; outside of the window where a CmdSN is given, else immediate."""
        self.task_tag += 1
        immediate = 0x40 if cmd_sn is None else 0
        header = struct.pack(">BB", immediate, 0x80).ljust(16, b"\0")
        header += struct.pack(">IIII", self.task_tag, 0xFFFFFFFF, cmd_sn or self.cmd_sn, self.exp_stat_sn)
        return header.ljust(48, b"\0")

    def command(self, cdb, lun=0, data_out=b"", data_in=0):
        """Runs a command: status, data, sense data."""
        self.task_tag += 1
        flags = 0x81 | (0x40 if data_in else 0) | (0x20 if data_out else 0)
        header = struct.pack(">BBHI", 0x01, flags, 0, len(data_out)) + struct.pack(">HHI", lun, 0, 0)
        header += struct.pack(">IIII", self.task_tag, max(len(data_out), data_in), self.cmd_sn, self.exp_stat_sn)
        self.cmd_sn += 1
        self.send(header + bytes(cdb).ljust(16, b"\0") + data_out)
        received = bytearray(data_in)
        while True:
            answer, data = self.pdu()
            opcode = answer[0] & 0x3F
            if opcode == 0x25:
                offset = int.from_bytes(answer[40:44], "big")
                received[offset : offset + len(data)] = data
                if answer[1] & 1:
                    self.exp_stat_sn = int.from_bytes(answer[24:28], "big") + 1
                    return answer[3], bytes(received), b""
            elif opcode == 0x21:
                return answer[3], bytes(received), data[2:]
            else:
                raise AssertionError(f"an unexpected PDU, opcode {opcode:#x}")

    def ready(self, lun=0):
        """Takes the unit attentions away."""
        while self.command(b"\0" * 6, lun)[0] != 0:
            pass


def sense(result):
    """Of a command's result: "GOOD", or sense key, ASC and ASCQ in hex."""
    status, _, data = result
    if status == 0:
        return "GOOD"
    return f"{data[2] & 0xF:02x}/{data[12]:02x}/{data[13]:02x}"


def read10(lba, blocks):
    return struct.pack(">BBIBHB", 0x28, 0, lba, 0, blocks, 0)


def write10(lba, blocks, fua=False):
    return struct.pack(">BBIBHB", 0x2A, 8 if fua else 0, lba, 0, blocks, 0)


SYNCHRONIZE_CACHE = bytes([0x35] + [0] * 9)


def is_root():
    return os.geteuid() == 0
