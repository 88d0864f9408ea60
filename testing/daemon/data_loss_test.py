#!/usr/bin/env python3
"""What is kept with a medium: its identity, and that a flush failed.

As root, a flush that fails: on a loop device whose file is on a file system that is full. As anybody, the same without
the failure: a record as a failure leaves it.
"""

import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import raw_iscsi
from raw_iscsi import SYNCHRONIZE_CACHE, TARGET, is_root, read10, sense, write10

BLOCKS = 128
LOSETUP = shutil.which("losetup", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
ATTRIBUTE = "user.skiff.medium"


def check(condition, message):
    if not condition:
        sys.exit(f"FAIL: {message}")


def serial_of(peer, lun=0):
    status, data, _ = peer.command([0x12, 1, 0x80, 0, 255, 0], lun, data_in=255)
    check(status == 0, "INQUIRY fails")
    return data[4 : 4 + struct.unpack(">H", data[2:4])[0]].decode()


def serials(skiffd, directory, luns, **options):
    """Of a daemon that is started and ended for it."""
    count = luns.count("lun {")
    with raw_iscsi.Daemon(skiffd, directory, luns, **options) as daemon:
        with raw_iscsi.Initiator(daemon.port) as peer:
            check(peer.login() == (0, 0), "login fails")
            found = []
            for lun in range(count):
                peer.ready(lun)
                found.append(serial_of(peer, lun))
        check(daemon.stop() == 0, "skiffd did not end in order")
        return found


def file_lun(path, more=""):
    return f'lun {{ file {{ path: "{path}" size: "1MiB" }} {more} }}'


def test_identity(skiffd, directory):
    disk = pathlib.Path(directory, "disk")
    (first,) = serials(skiffd, directory, file_lun(disk))
    check(len(first) == 32, f"a serial is {first}")
    check(serials(skiffd, directory, file_lun(disk)) == [first], "another serial after a restart")
    disk.rename(f"{directory}/moved")
    moved = f"{directory}/moved"
    other, same = serials(skiffd, directory, file_lun(disk) + file_lun(moved))
    check(same == first, "another serial under another name")
    check(other != first, "another file under the same name is not another disk")
    check(serials(skiffd, directory, file_lun(disk, 'serial: "mine"')) == ["mine"], "a serial that is given is not used")
    ram = 'lun { ram { size: "1MiB" } }'
    check(serials(skiffd, directory, ram) != serials(skiffd, directory, ram), "RAM that was lost is the same disk")


def lose(path):
    """What a failed flush leaves behind."""
    record = os.getxattr(path, ATTRIBUTE)
    lost = record.replace(b"lost=0 errno=0", b"lost=1700000000 errno=5").rstrip()
    os.setxattr(path, ATTRIBUTE, lost.ljust(len(record) - 1) + b"\n")


def expect_lost(daemon, name):
    """Whatever needs the medium fails; the rest does not."""
    with raw_iscsi.Initiator(daemon.port) as peer:
        peer.login()
        peer.ready()
        check(serial_of(peer), "there is no serial")
        results = [
            sense(peer.command(read10(0, 8), data_in=4096)),
            sense(peer.command(write10(0, 8), data_out=b"x" * 4096)),
            sense(peer.command(SYNCHRONIZE_CACHE)),
        ]
        check(results == ["03/11/00", "03/0c/00", "03/0c/00"], f"after data were lost: {results}")
    daemon.wait_for_log(f"--clear-data-loss {TARGET}/0")
    check(name in daemon.log(), f"the log has nothing of {name}:\n{daemon.log()}")


def expect_served(skiffd, directory, luns, settings=""):
    """Once it is cleared, also at the next start."""
    for flags in (["--clear-data-loss", f"{TARGET}/0"], []):
        with raw_iscsi.Daemon(skiffd, directory, luns, settings, flags=flags) as daemon:
            with raw_iscsi.Initiator(daemon.port) as peer:
                peer.login()
                peer.ready()
                check(sense(peer.command(SYNCHRONIZE_CACHE)) == "GOOD", f"not served with {flags}: {daemon.log()}")
                check(sense(peer.command(read10(0, 8), data_in=4096)) == "GOOD", "not read")


def test_record(skiffd, directory):
    disk = f"{directory}/lost"
    serials(skiffd, directory, file_lun(disk))
    lose(disk)
    with raw_iscsi.Daemon(skiffd, directory, file_lun(disk)) as daemon:
        expect_lost(daemon, "Input/output error")
    expect_served(skiffd, directory, file_lun(disk))
    wrong = subprocess.run(
        [skiffd, "--config", f"{directory}/skiffd.conf", "--check", "--clear-data-loss", f"{TARGET}/9"],
        capture_output=True,
        text=True,
        check=False,
    )
    check(wrong.returncode == 2 and f"{TARGET}/9 is no LUN" in wrong.stderr, f"a wrong LUN: {wrong}")


def fill_up(daemon):
    """Writes more than there is room for, and flushes on two sessions."""
    with raw_iscsi.Initiator(daemon.port) as peer, raw_iscsi.Initiator(daemon.port) as other:
        peer.login()
        peer.ready()
        other.login("iqn.2026-11.org.example:other")
        other.ready()
        for lba in range(0, 8192, BLOCKS):
            peer.command(write10(lba, BLOCKS), data_out=b"S" * (BLOCKS * 512))
        results = [sense(each.command(SYNCHRONIZE_CACHE)) for each in (peer, other, peer)]
        check("GOOD" not in results, f"flushes of lost data: {results}")
        fua = sense(peer.command(write10(0, 8, fua=True), data_out=b"F" * 4096))
        check(fua != "GOOD", "a FUA write succeeds after a failed flush")


def test_failed_flush(skiffd, directory):
    full = f"{directory}/full"
    state = f'state_directory: "{directory}/state" reactors {{ count: 2 }}'
    os.mkdir(full)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "skiff", full], check=True)
    device = None
    try:
        with open(f"{full}/file", "wb") as file:
            file.truncate(8 << 20)
        device = subprocess.run(
            [LOSETUP, "--find", "--show", f"{full}/file"], capture_output=True, text=True, check=True
        ).stdout.strip()
        luns = f'lun {{ file {{ path: "{device}" }} }}'
        with raw_iscsi.Daemon(skiffd, directory, luns, state) as daemon:
            fill_up(daemon)
            daemon.wait_for_log("flush failed")
            daemon.wait_for_log("is remembered")
            check(daemon.stop() == 0, "skiffd did not end in order")
        with raw_iscsi.Daemon(skiffd, directory, luns, state) as daemon:
            expect_lost(daemon, "a flush failed at")
        subprocess.run(["mount", "-o", "remount,size=32m", full], check=True)
        expect_served(skiffd, directory, luns, state)
    finally:
        if device:
            subprocess.run([LOSETUP, "--detach", device], check=False)
        subprocess.run(["umount", "--lazy", full], check=True)


def test_no_attributes(skiffd, directory):
    """A file system that has none: the record is a file beside the medium."""
    plain = f"{directory}/plain"
    os.mkdir(plain)
    subprocess.run(["mount", "-t", "ramfs", "skiff", plain], check=True)
    try:
        (first,) = serials(skiffd, directory, file_lun(f"{plain}/disk"))
        check(os.path.exists(f"{plain}/disk.skiff"), f"there is no record: {os.listdir(plain)}")
        check(serials(skiffd, directory, file_lun(f"{plain}/disk")) == [first], "the identity is not kept")
        os.rename(f"{plain}/disk", f"{plain}/old")
        check(serials(skiffd, directory, file_lun(f"{plain}/disk")) != [first], "another file has the same identity")
    finally:
        subprocess.run(["umount", "--lazy", plain], check=True)


def main():
    skiffd = sys.argv[1]
    with tempfile.TemporaryDirectory() as directory:
        test_identity(skiffd, directory)
        test_record(skiffd, directory)
        if is_root():
            test_no_attributes(skiffd, directory)
            if LOSETUP and os.path.exists("/dev/loop-control"):
                test_failed_flush(skiffd, directory)


if __name__ == "__main__":
    main()
