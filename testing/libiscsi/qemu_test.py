#!/usr/bin/env python3
"""QEMU's own programs over Skiff's libiscsi.so.7, beside libiscsi's.

Usage: qemu_test.py SKIFFD FACE LIBSKIFF
"""

import contextlib
import fcntl
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import termios
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
import cases  # pylint: disable=wrong-import-position
import face  # pylint: disable=wrong-import-position
import peers  # pylint: disable=wrong-import-position
from face import LIBISCSI, SKIFF, expect  # pylint: disable=wrong-import-position

MIB = 1 << 20
# What qemu-io is told; the numbers are patterns.
PATTERNS = ("write -P 7 0 1M", "read -P 7 0 1M", "write -P 9 512 1536", "read -P 9 512 1536", "read -P 7 2048 4096", "flush",
            "write -z 64k 128k", "read -P 0 64k 128k", "read -P 7 192k 64k", "discard 256k 256k", "writev -P 3 1M 4k 8k 512",
            "readv -P 3 1M 512 8k 4k", "write -f -P 4 2M 4k", "read -P 4 2M 4k", "write -z -u 0 1M", "read -P 0 0 1M")
PARALLEL = tuple(f"aio_write -P {number + 1} {number * 64}k 64k" for number in range(48)) + ("aio_flush",)
PARALLEL_READS = tuple(f"aio_read -P {number + 1} {number * 64}k 64k" for number in range(48)) + ("aio_flush",)
WAIT_SECONDS = 20
# QEMU's exit status when boot.S is done.
BOOTED = 33
RATES = re.compile(r", \d+ ops; .*sec\)")


def qemu_io(libraries, library, url, commands):
    """What it says, without how long it took; a pattern that is not there is an error."""
    output = libraries.run(library, "qemu-io", "-f", "raw", "-t", "none",
                           *[part for command in commands for part in ("-c", command)], url)
    if "Pattern verification failed" in output or "error" in output.lower():
        raise face.Failure(output)
    return RATES.sub("", output)


def check_same_io(libraries, url):
    expect("qemu-io", qemu_io(libraries, SKIFF, url, PATTERNS), qemu_io(libraries, LIBISCSI, url, PATTERNS))


def check_parallel(libraries, url):
    """Each reads what the other one wrote."""
    for writer, reader in ((SKIFF, LIBISCSI), (LIBISCSI, SKIFF)):
        qemu_io(libraries, LIBISCSI, url, ("write -z 0 4M",))
        # Which of them ends first is not the same each time.
        qemu_io(libraries, writer, url, PARALLEL)
        qemu_io(libraries, reader, url, PARALLEL_READS)


def check_info(libraries, url):
    expect("qemu-img info", libraries.run(SKIFF, "qemu-img", "info", url), libraries.run(LIBISCSI, "qemu-img", "info", url))


def check_images(libraries, url, directory):
    """A file system's worth of bytes there and back, as an image of QEMU's and raw."""
    source = pathlib.Path(directory, "source.raw")
    with open(source, "wb") as file:
        for number in range(16):
            file.write(bytes([number]) * (MIB // 2))
            file.seek(MIB // 2, 1)
        file.truncate(16 * MIB)
    libraries.run(SKIFF, "qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", source, url)
    for library in (SKIFF, LIBISCSI):
        back = pathlib.Path(directory, f"{library}.qcow2")
        libraries.run(library, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", url, back)
        libraries.run(library, "qemu-img", "compare", "-f", "raw", "-F", "qcow2", url, back)
    libraries.run(SKIFF, "qemu-img", "create", "-f", "qcow2", url, "32M")
    libraries.run(SKIFF, "qemu-io", "-f", "qcow2", "-c", "write -P 5 3M 1M", url)
    libraries.run(SKIFF, "qemu-img", "check", "-f", "qcow2", url)
    output = libraries.run(LIBISCSI, "qemu-io", "-f", "qcow2", "-c", "read -P 5 3M 1M", url)
    expect("another reader", "failed" in output, False)


def check_map(libraries, url):
    """GET LBA STATUS: what is there and what is not."""
    qemu_io(libraries, SKIFF, url, ("discard 0 16M", "write -P 1 4M 1M"))
    maps = {library: libraries.run(library, "qemu-img", "map", "--output=json", "-f", "raw", url)
            for library in (SKIFF, LIBISCSI)}
    expect("qemu-img map", maps[SKIFF], maps[LIBISCSI])


def check_bench(libraries, url):
    for arguments in (("-d", "1", "-s", "4k", "-c", "500"), ("-w", "-d", "32", "-s", "4k", "-c", "2000"),
                      ("-w", "-d", "16", "-s", "128k", "-c", "300"), ("-w", "--flush-interval=10", "-d", "8", "-c", "200")):
        libraries.run(SKIFF, "qemu-img", "bench", "-t", "none", "-f", "raw", *arguments, url)


def check_errors(libraries, target):
    for url, wanted in ((target.url(lun=9), "LOGICAL_UNIT_NOT_SUPPORTED"),
                        (f"iscsi://me@{target.portal}/{target.name}/0", "Failed to parse URL"),  # QEMU's words.
                        (f"iscsi://{target.portal}/iqn.2026-11.org.example:none/0", "iqn.2026-11.org.example:none"),
                        (f"iscsi://127.0.0.1:1/{target.name}/0", "Connection refused")):
        output = libraries.run(SKIFF, "qemu-img", "info", url, status=1)
        if wanted not in output:
            raise face.Failure(f"no '{wanted}' in {output}")


class Interactive:
    """A qemu-io that is told one command after another: of more that are there at once, it would read all, and look at the first."""

    def __init__(self, libraries, url):
        self.process = libraries.start(SKIFF, "qemu-io", "-f", "raw", "-t", "none", url, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.said = ""

    def tell(self, *commands):
        deadline = time.monotonic() + WAIT_SECONDS
        for command in commands:
            self.process.stdin.write(f"{command}\n")
            self.process.stdin.flush()
            while self._unread() > 0:
                if time.monotonic() > deadline:
                    raise face.Failure(f"qemu-io does not take '{command}' within {WAIT_SECONDS} s")
                time.sleep(0.001)

    def _unread(self):
        return int.from_bytes(fcntl.ioctl(self.process.stdin, termios.FIONREAD, bytes(4)), sys.byteorder)

    def wait_for(self, text):
        deadline = time.monotonic() + WAIT_SECONDS
        output = self.process.stdout.fileno()
        while text not in self.said:
            ready, _, _ = select.select([output], [], [], max(0, deadline - time.monotonic()))
            more = os.read(output, 65536).decode() if ready else ""
            self.said += more
            if not more or "verification failed" in self.said:
                raise face.Failure(f"no '{text}' within {WAIT_SECONDS} s: {self.said}")
        self.said = self.said.partition(text)[2]

    def end(self):
        output, _ = self.process.communicate("quit\n", timeout=WAIT_SECONDS)
        if self.process.returncode != 0 or "failed" in output:
            raise face.Failure(f"qemu-io: status {self.process.returncode}\n{output}")


@contextlib.contextmanager
def interactive(libraries, url):
    session = Interactive(libraries, url)
    try:
        yield session
    finally:
        peers.stop(session.process)


def check_loaded(libraries, url):
    with interactive(libraries, url) as session:
        session.tell("read 0 512")
        session.wait_for("512/512")
        libraries.check_loaded(session.process)
        session.end()


def check_restart(libraries, skiffd, directory):
    """The target dies with writes in flight, and comes back with its file: nothing is lost that was acknowledged."""
    image = pathlib.Path(directory, "restarted")
    with open(image, "wb") as file:
        file.truncate(64 * MIB)
    target = peers.Skiffd(skiffd, [f"file:{image}"], directory)
    with target, interactive(libraries, target.url()) as session:
        session.tell("write -P 1 0 1M", "flush")
        session.wait_for("1048576/1048576")
        session.tell(*(f"aio_write -P {number + 2} {number + 1}M 1M" for number in range(24)))
        target.kill()
        time.sleep(0.5)
        target.start()  # At the same port.
        session.tell("aio_flush", "read -P 1 0 1M", *(f"read -P {number + 2} {number + 1}M 1M" for number in range(24)))
        for number in range(25):
            session.wait_for(f"read 1048576/1048576 bytes at offset {number * MIB}")
        session.end()


def check_boot(libraries, url, directory):
    """A guest boots from the disk, reads it and writes it, by SeaBIOS's driver for virtio."""
    code, image = pathlib.Path(directory, "boot.o"), pathlib.Path(directory, "boot.raw")
    subprocess.run(["as", "--32", "-o", code, HERE / "boot.S"], check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", code, image], check=True)
    text = b"booted from Skiff's disk"
    with open(image, "ab") as file:
        file.write(text)
        file.truncate(64 << 10)
    libraries.run(SKIFF, "qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, url)
    output = libraries.run(SKIFF, "qemu-system-x86_64", "-nodefaults", "-display", "none", "-serial", "stdio", "-m", "64",
                           "-no-reboot", "-device", "isa-debug-exit,iobase=0xf4,iosize=1",
                           "-drive", f"file={url},format=raw,if=none,id=disk,cache=none",
                           "-device", "virtio-blk-pci,drive=disk,bootindex=0", status=BOOTED)
    expect("the guest", text.decode() in output, True)
    back = pathlib.Path(directory, "boot.back")
    # It counts from the start, not from what is skipped.
    libraries.run(LIBISCSI, "qemu-img", "dd", "-f", "raw", "-O", "raw", f"if={url}", f"of={back}", "bs=512", "skip=2", "count=3")
    expect("what the guest wrote", back.read_bytes()[:len(text)], text)


class IserSkiffd(peers.Skiffd):
    """Without an RDMA device."""

    scheme = "libfabric"

    def _description(self):
        description = super()._description()
        description[description.index("--listen") + 1] += "?provider=tcp"
        return description


def check_iser(libraries, skiffd, directory):
    """iser:// over libfabric: the options stay with the portal."""
    with IserSkiffd(skiffd, face.LUNS, directory) as target:
        url = f"{target.url()}?transport=libfabric&provider=tcp".replace("iscsi://", "iser://")
        qemu_io(libraries, SKIFF, url, PATTERNS)
        qemu_io(libraries, SKIFF, url, PARALLEL)
        qemu_io(libraries, SKIFF, url, PARALLEL_READS)


def main():
    skiffd, library, libskiff = sys.argv[1:]
    collected = cases.Cases("libiscsi_qemu")
    with tempfile.TemporaryDirectory() as directory, peers.Skiffd(skiffd, face.LUNS, directory) as target:
        libraries = face.Libraries(directory, library, libskiff)
        url = target.url()
        collected.run("the library that is loaded", check_loaded, libraries, url)
        collected.run("qemu-img info", check_info, libraries, url)
        collected.run("qemu-io", check_same_io, libraries, url)
        collected.run("qemu-io in parallel", check_parallel, libraries, url)
        collected.run("qemu-img convert, compare, create, check", check_images, libraries, url, directory)
        collected.run("qemu-img map", check_map, libraries, url)
        collected.run("qemu-img bench", check_bench, libraries, url)
        collected.run("errors", check_errors, libraries, target)
        collected.run("a target that is restarted", check_restart, libraries, skiffd, directory)
        collected.run("a guest that boots", check_boot, libraries, url, directory)
        collected.run("iser://", check_iser, libraries, skiffd, directory)
    return collected.finish()


if __name__ == "__main__":
    sys.exit(main())
