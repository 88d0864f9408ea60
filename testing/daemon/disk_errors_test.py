#!/usr/bin/env python3
"""Disks that fail: what skiffd's log and its tables say, on a real file that is out of space or was cut short.

As root, also on a file system that is full; as anybody, on a file that is cut short.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile

import raw_iscsi
from raw_iscsi import is_root, read10, sense, write10


def check(condition, message):
    if not condition:
        sys.exit(f"FAIL: {message}")


def file_lun(path, size):
    return f'lun {{ file {{ path: "{path}" size: "{size}" }} }}'


def expect_line(daemon, *parts):
    log = daemon.wait_for_log(parts[0])
    check(
        any(all(part in line for part in parts) for line in log.splitlines()),
        f"no line with {parts}:\n{log}",
    )


def test_cut_short(skiffd):
    with tempfile.TemporaryDirectory() as directory:
        disk = f"{directory}/disk"
        with raw_iscsi.Daemon(skiffd, directory, file_lun(disk, "1MiB")) as daemon:
            with raw_iscsi.Initiator(daemon.port) as peer:
                peer.login()
                peer.ready()
                os.truncate(disk, 0)
                for _ in range(100):
                    check(sense(peer.command(read10(8, 8), data_in=4096)) == "03/11/00", "a read does not fail")
            expect_line(
                daemon,
                "LUN 0: read of 4096 bytes at byte 4096 failed:",
                raw_iscsi.TARGET,
                " error ",
                "made shorter while it was served (failure 1 of this LUN)",
            )
            check(daemon.log().count("read of 4096 bytes") < 20, f"a line for each read:\n{daemon.log()}")
            daemon.process.send_signal(signal.SIGUSR1)
            daemon.wait_for_log("100 failures (100 reads, 0 writes")
            check(daemon.stop() == 0, "skiffd did not end in order")


def test_fields(skiffd):
    """Programs find which disk it is, and why it fails."""
    with tempfile.TemporaryDirectory() as directory:
        disk = f"{directory}/disk"
        settings = 'log { format: "json" }'
        with raw_iscsi.Daemon(skiffd, directory, file_lun(disk, "1MiB"), settings) as daemon:
            with raw_iscsi.Initiator(daemon.port) as peer:
                peer.login()
                peer.ready()
                os.truncate(disk, 0)
                check(sense(peer.command(read10(8, 8), data_in=4096)) == "03/11/00", "a read does not fail")
            log = daemon.wait_for_log("read of 4096 bytes")
            event = next(event for event in map(json.loads, log.splitlines()) if event["level"] == "error")
            check((event["target"], event["lun"]) == (raw_iscsi.TARGET, 0), event)
            check(event["reason"].startswith("read of 4096 bytes at byte 4096 failed: "), event)


def test_full(skiffd, directory):
    with raw_iscsi.Daemon(skiffd, directory, file_lun(f"{directory}/full/disk", "8MiB")) as daemon:
        with raw_iscsi.Initiator(daemon.port) as peer:
            peer.login()
            peer.ready()
            results = [
                sense(peer.command(write10(lba, 128), data_out=b"S" * (128 * 512))) for lba in range(0, 4096, 128)
            ]
            check("07/27/07" in results, f"no write fails: {results}")
        expect_line(daemon, "LUN 0: write of 65536 bytes at byte ", "No space left on device", " error ")


def main():
    skiffd = sys.argv[1]
    test_cut_short(skiffd)
    test_fields(skiffd)
    if not is_root():
        return
    with tempfile.TemporaryDirectory() as directory:
        os.mkdir(f"{directory}/full")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "skiff", f"{directory}/full"], check=True)
        try:
            test_full(skiffd, directory)
        finally:
            # Lazily: the kernel takes a ring of io_uring down a moment after its process.
            subprocess.run(["umount", "--lazy", f"{directory}/full"], check=True)


if __name__ == "__main__":
    main()
