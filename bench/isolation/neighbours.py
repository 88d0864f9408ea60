#!/usr/bin/env python3
"""One initiator that behaves badly, over TCP: what bench/isolation/isolation puts beside well-behaved ones.

Usage: neighbours.py KIND PORT LUN

Does what the kind is named for, until it is killed. Prints "ready" once it does.
"""

import contextlib
import itertools
import pathlib
import select
import socket
import struct
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "testing/daemon"))
import raw_iscsi  # pylint: disable=wrong-import-position

MIB = 1 << 20
BLOCK = 512
DEPTH = 64
FLOOD_BLOCK = 1024  # Requests.
FLOOD_ANSWERS = 32 << 10
HEADER, CMD_SN = 48, 24
MUTE_CONNECTIONS = 64
SLOW_BYTES_PER_SECOND = 200_000
SLOW_PIECE = 4096
NAME = "iqn.2026-11.org.example:neighbour"


class Neighbour(raw_iscsi.Initiator):
    """Sends what it likes."""

    def __init__(self, port, lun):
        super().__init__(port)
        self.port = port
        self.lun = lun

    def enter(self):
        """Logs in, once there is room, and has the unit attentions behind it."""
        self.login(name=NAME)
        self.ready(self.lun)
        print("ready", flush=True)

    def request(self, cdb, flags, length):
        """A command, without its data."""
        self.task_tag += 1
        header = struct.pack(">BBHI", 0x01, 0x81 | flags, 0, 0) + struct.pack(">HHI", self.lun, 0, 0)
        header += struct.pack(">IIII", self.task_tag, length, self.cmd_sn, self.exp_stat_sn)
        self.cmd_sn += 1
        return header + bytes(cdb).ljust(16, b"\0")

    def reads(self):
        """As many READs of 1 MiB as the window lets through."""
        blocks = MIB // BLOCK
        return b"".join(self.request(raw_iscsi.read10(i * blocks, blocks), 0x40, MIB) for i in range(DEPTH))

    def control(self, opcode, flags, specific=b""):
        """An immediate request."""
        self.task_tag += 1
        header = struct.pack(">BB", 0x40 | opcode, flags).ljust(8, b"\0") + struct.pack(">HHI", self.lun, 0, 0)
        header += struct.pack(">I", self.task_tag) + specific
        return header.ljust(48, b"\0")

    def take(self, count):
        """Receives so many bytes."""
        while count > 0:
            taken = len(self.socket.recv(count))
            if not taken:
                raise EOFError
            count -= taken

    def flood(self, make):
        """Sends without an end, as much as the target takes, and takes what comes back.

        What it sends is made once, and it waits where it can do neither: its part of the load's processor stays small.
        """
        block = memoryview(b"".join(make() for _ in range(FLOOD_BLOCK)))
        self.socket.setblocking(False)
        # Not for each of them: the target sends them as it makes them.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, FLOOD_ANSWERS)
        poll = select.poll()
        poll.register(self.socket, select.POLLIN | select.POLLOUT)
        at = 0
        while True:
            poll.poll()
            with contextlib.suppress(BlockingIOError):
                at = (at + self.socket.send(block[at:])) % len(block)
            with contextlib.suppress(BlockingIOError):
                if not self.socket.recv(MIB):
                    raise EOFError


def silent_writer(port, lun):
    """WRITEs of 1 MiB, and never their data."""
    neighbour = Neighbour(port, lun)
    neighbour.enter()
    blocks = MIB // BLOCK
    neighbour.send(b"".join(neighbour.request(raw_iscsi.write10(i * blocks, blocks), 0x20, MIB) for i in range(DEPTH)))
    take_all(neighbour)


def mute_reader(port, lun):
    """READs of 1 MiB, and never takes what comes."""
    neighbour = Neighbour(port, lun)
    neighbour.enter()
    neighbour.send(neighbour.reads())
    time.sleep(1 << 20)


def slow_reader(port, lun):
    """READs of 1 MiB, of which it takes 200 KB a second."""
    neighbour = Neighbour(port, lun)
    neighbour.enter()
    neighbour.send(neighbour.reads())
    while neighbour.socket.recv(SLOW_PIECE):
        time.sleep(SLOW_PIECE / SLOW_BYTES_PER_SECOND)


def nop_flood(port, lun):
    """Pings."""
    neighbour = Neighbour(port, lun)
    neighbour.enter()
    neighbour.flood(lambda: neighbour.control(0x00, 0x80, struct.pack(">II", 0xFFFFFFFF, neighbour.cmd_sn)))


def reject_flood(port, lun):
    """PDUs of a kind that there is not."""
    neighbour = Neighbour(port, lun)
    neighbour.enter()
    neighbour.flood(lambda: neighbour.control(0x1C, 0x80, struct.pack(">II", 0, neighbour.cmd_sn)))


def task_management_flood(port, lun):
    """ABORT TASK of tasks that there are not."""
    neighbour = Neighbour(port, lun)
    neighbour.enter()
    neighbour.flood(lambda: neighbour.control(
        0x02, 0x81, struct.pack(">IIII", 0x7FFFFFFF, neighbour.cmd_sn, neighbour.exp_stat_sn, neighbour.cmd_sn)))


def text_flood(port, lun):
    """SendTargets, again and again."""
    neighbour = Neighbour(port, lun)
    neighbour.enter()
    text = b"SendTargets=All\0"

    def make():
        header = bytearray(neighbour.control(0x04, 0x80, struct.pack(">II", 0xFFFFFFFF, neighbour.cmd_sn)))
        header[5:8] = len(text).to_bytes(3, "big")
        return bytes(header) + text

    neighbour.flood(make)


def flush_storm(port, lun):
    """SYNCHRONIZE CACHE, as many at once as there may be, and again when all are answered."""
    neighbour = Neighbour(port, lun)
    neighbour.enter()
    block = bytearray().join(neighbour.request(raw_iscsi.SYNCHRONIZE_CACHE, 0, 0) for _ in range(DEPTH))
    while True:
        neighbour.send(block)
        neighbour.take(DEPTH * HEADER)  # The responses. Their tags are free again.
        for i in range(DEPTH):
            struct.pack_into(">I", block, i * HEADER + CMD_SN, neighbour.cmd_sn)
            neighbour.cmd_sn += 1


def sessions(port, target):
    """Logs in again and again."""
    print("ready", flush=True)
    for number in itertools.count():
        with contextlib.suppress(OSError, EOFError), raw_iscsi.Initiator(port) as initiator:
            initiator.login(name=f"{NAME}-{number % 100}", target=target)


def login_storm(port, lun):  # pylint: disable=unused-argument
    """Sessions, again and again."""
    sessions(port, raw_iscsi.TARGET)


def login_refusals(port, lun):  # pylint: disable=unused-argument
    """Logins to a target that there is not."""
    sessions(port, "iqn.2026-11.org.example:nobody")


def mute_logins(port, lun):  # pylint: disable=unused-argument
    """Connections that say nothing."""
    print("ready", flush=True)
    held = []
    while True:
        with contextlib.suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", port), 1))
        if len(held) > MUTE_CONNECTIONS:
            held.pop(0).close()


def take_all(neighbour):
    """Reads what comes and does nothing about it."""
    while neighbour.socket.recv(MIB):
        pass
    raise EOFError


KINDS = {
    kind.__name__.replace("_", "-"): kind
    for kind in (silent_writer, mute_reader, slow_reader, nop_flood, reject_flood, task_management_flood, text_flood,
                 flush_storm, login_storm, login_refusals, mute_logins)
}


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in KINDS:
        sys.exit(f"{__doc__}\nKinds: {', '.join(KINDS)}")
    kind, port, lun = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    while True:
        # It is thrown out now and then. It comes back.
        with contextlib.suppress(OSError, EOFError):
            KINDS[kind](port, lun)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
