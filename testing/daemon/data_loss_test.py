#!/usr/bin/env python3
"""What is kept with a medium: its identity, and that a flush failed.

As root, a flush that fails: on a loop device whose file is on a file system that is full. As anybody, the same without
the failure: a record as a failure leaves it. Where files have no extended attributes, the record is a file beside the
medium; as root, that is tested on any machine.
"""

import errno
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


def has_attributes(directory):
    """Whether files there can have the record as an attribute."""
    probe = pathlib.Path(directory, "probe")
    probe.touch()
    try:
        os.setxattr(probe, ATTRIBUTE, b"x")
        return True
    except OSError as error:
        check(error.errno == errno.ENOTSUP, f"the probe of attributes fails: {error}")
        return False
    finally:
        probe.unlink()


def beside(path):
    return pathlib.Path(f"{path}.skiff")


def test_identity(skiffd, directory, media):
    """Of files in the directory `media`."""
    disk = pathlib.Path(media, "disk")
    moved = pathlib.Path(media, "moved")
    attributes = has_attributes(media)
    (first,) = serials(skiffd, directory, file_lun(disk))
    check(len(first) == 32, f"a serial is {first}")
    check(beside(disk).exists() != attributes, f"the record is elsewhere: {os.listdir(media)}")
    check(serials(skiffd, directory, file_lun(disk)) == [first], "another serial after a restart")
    disk.rename(moved)
    if not attributes:
        beside(disk).rename(beside(moved))
    other, same = serials(skiffd, directory, file_lun(disk) + file_lun(moved))
    check(same == first, "another serial under another name")
    check(other != first, "another file under the same name is not another disk")
    check(serials(skiffd, directory, file_lun(disk, 'serial: "mine"')) == ["mine"], "a serial that is given is not used")
    if not attributes:
        disk.unlink()
        moved.rename(disk)
        (alone,) = serials(skiffd, directory, file_lun(disk))
        check(alone not in (first, other), "a file without its record has an identity that it cannot know")


def test_ram(skiffd, directory):
    ram = 'lun { ram { size: "1MiB" } }'
    check(serials(skiffd, directory, ram) != serials(skiffd, directory, ram), "RAM that was lost is the same disk")


def change_record(path, change):
    """Where the record is."""
    if has_attributes(os.path.dirname(path)):
        os.setxattr(path, ATTRIBUTE, change(os.getxattr(path, ATTRIBUTE)))
    else:
        beside(path).write_bytes(change(beside(path).read_bytes()))


def lost(record):
    """What a failed flush leaves behind."""
    text = record.replace(b"lost=0 errno=0", b"lost=1700000000 errno=5").rstrip()
    return text.ljust(len(record) - 1) + b"\n"


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


def test_record(skiffd, directory, media):
    disk = f"{media}/lost"
    serials(skiffd, directory, file_lun(disk))
    for change, log in ((lost, "Input/output error"), (lambda record: b"?" + record[1:], "cannot be read")):
        change_record(disk, change)
        with raw_iscsi.Daemon(skiffd, directory, file_lun(disk)) as daemon:
            expect_lost(daemon, log)
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
        check(not has_attributes(plain), "ramfs has attributes")
        test_identity(skiffd, directory, plain)
        test_record(skiffd, directory, plain)
    finally:
        subprocess.run(["umount", "--lazy", plain], check=True)


def test_two_paths(skiffd, directory):
    """To one disk: the locks do not tell, its identity does."""
    state = f'state_directory: "{directory}/state"'
    file = f"{directory}/twice"
    devices = []
    try:
        with open(file, "wb") as disk:
            disk.truncate(1 << 20)
        for _ in range(2):
            attach = [LOSETUP, "--find", "--show", file]
            devices.append(subprocess.run(attach, capture_output=True, text=True, check=True).stdout.strip())
        luns = "".join(f'lun {{ file {{ path: "{device}" }} }}' for device in devices)
        first, second = serials(skiffd, directory, luns, settings=state)
        check(first == second, "one disk has two serials")
        log = pathlib.Path(directory, "log").read_text(encoding="utf-8")
        check(f"LUN 1 has the identity of {TARGET} LUN 0" in log, f"there is no warning:\n{log}")
    finally:
        for device in devices:
            subprocess.run([LOSETUP, "--detach", device], check=False)


def main():
    skiffd = sys.argv[1]
    with tempfile.TemporaryDirectory() as directory:
        if not has_attributes(directory):
            print(f"files in {directory} have no attributes: the records are beside them")
        test_identity(skiffd, directory, directory)
        test_ram(skiffd, directory)
        test_record(skiffd, directory, directory)
        if not is_root():
            print("SKIPPED: no attributes, failed flush, two paths: they need root, to mount and to attach loop devices")
            return
        test_no_attributes(skiffd, directory)
        if not LOSETUP or not os.path.exists("/dev/loop-control"):
            print("SKIPPED: failed flush, two paths: they need losetup and /dev/loop-control")
            return
        test_failed_flush(skiffd, directory)
        test_two_paths(skiffd, directory)


if __name__ == "__main__":
    main()
