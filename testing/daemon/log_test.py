#!/usr/bin/env python3
"""The log of skiffd: what peers send doesn't make it grow, and who doesn't read it stops nothing."""

import datetime
import json
import os
import re
import sys
import tempfile
import time

import raw_iscsi


def check(condition, message):
    if not condition:
        sys.exit(f"FAIL: {message}")


def test_ignored_pdus(skiffd):
    """PDUs outside of the window are ignored, and their number is said."""
    count = 20000
    with tempfile.TemporaryDirectory() as directory, raw_iscsi.Daemon(
        skiffd, directory, settings='log { burst: 5 interval: "1s" }'
    ) as daemon:
        with raw_iscsi.Initiator(daemon.port) as peer:
            peer.login()
            begun = time.monotonic()
            peer.send(peer.nop_out(cmd_sn=0x7FFFFFFF) * count + peer.nop_out())
            check(peer.pdu()[0][0] == 0x20, "the ping that follows is not answered")
            # One a second, after the first ones.
            lines = daemon.log().count("ignored a PDU")
            allowed = 5 + 2 * (time.monotonic() - begun + 1)
            check(lines <= allowed, f"{lines} lines for {count} PDUs:\n{daemon.log()[:2000]}")
            daemon.wait_for_log("more were not logged like: 127.0.0.1:")
        check(daemon.stop() == 0, "skiffd did not end in order")


def test_logins(skiffd):
    """A host that comes again and again, and is refused."""
    count = 100
    with tempfile.TemporaryDirectory() as directory, raw_iscsi.Daemon(skiffd, directory) as daemon:
        for _ in range(count):
            with raw_iscsi.Initiator(daemon.port) as peer:
                check(peer.login(target="iqn.2026-11.org.example:other") == (2, 3), "login is not refused")
        check(daemon.stop() == 0, "skiffd did not end in order")
        # So many kinds of lines each login may have; what was left out is told at the end.
        lines = daemon.log().count("\n")
        check(lines < 50, f"{lines} lines for {count} logins:\n{daemon.log()[:4000]}")
        check("more were not logged like: 127.0.0.1:" in daemon.log(), f"nothing about the rest:\n{daemon.log()}")


def test_reader_is_stuck(skiffd):
    """Nobody reads the pipe: what is served goes on, and so does the end."""
    reader, writer = os.pipe()
    settings = 'log_level: "debug" log { interval: "0s" queue: "64KiB" flush_timeout: "10ms" }'
    with tempfile.TemporaryDirectory() as directory, raw_iscsi.Daemon(
        skiffd, directory, settings=settings, stderr=writer
    ) as daemon:
        os.close(writer)
        with raw_iscsi.Initiator(daemon.port) as peer:
            peer.login()
            # More lines than pipe and queue hold, without the limits.
            peer.send(peer.nop_out(cmd_sn=0x7FFFFFFF) * 20000 + peer.nop_out())
            check(peer.pdu()[0][0] == 0x20, "the ping that follows is not answered")
        with raw_iscsi.Initiator(daemon.port) as other:
            check(other.login() == (0, 0), "another initiator does not get in")
        check(daemon.stop() == 0, "skiffd did not end in order")
    text = b""
    while piece := os.read(reader, 1 << 16):
        text += piece
    os.close(reader)
    check(b"ignored a PDU" in text, "the log has nothing")


def events(daemon):
    """What a log of JSON has: each line is one object, in UTF-8."""
    text = daemon.log_path.read_bytes()
    check("\u202e".encode() not in text and b"\x7f" not in text, "the log has characters that deceive")
    lines = text.split(b"\n")
    check(lines.pop() == b"", "the last line has no end")
    found = [json.loads(line.decode()) for line in lines]
    for event in found:
        check(event["level"] in ("error", "warning", "info", "debug"), event)
        check(event["time"].endswith("Z"), event)
        datetime.datetime.strptime(event["time"], "%Y-%m-%dT%H:%M:%S.%fZ")
    return found


def test_json(skiffd):
    """Programs find the same fields in each event, whatever peers call themselves."""
    hostile = ['iqn.a"},{"level":"error', "iqn.a\nb", "iqn.\udcff\udcfe", "\\", "\x01\x7f", "iqn." + "\xe9" * 200,
               "iqn.2026-11.org.example:\u202ea"]
    settings = 'log_level: "debug" log { format: "json" interval: "0s" }'
    with tempfile.TemporaryDirectory() as directory, raw_iscsi.Daemon(skiffd, directory, settings=settings) as daemon:
        for name in hostile:
            for names in ({"name": name}, {"target": name}):
                with raw_iscsi.Initiator(daemon.port) as peer:
                    check(peer.login(**names)[0] == 2, f"{names} is let in")
        for i in range(20):
            with raw_iscsi.Initiator(daemon.port) as peer:
                check(peer.login(f"iqn.2026-11.org.example:raw{i}") == (0, 0), "an initiator does not get in")
                port = peer.socket.getsockname()[1]
        with raw_iscsi.Initiator(daemon.port) as peer:
            peer.login("iqn.2026-11.org.example:warned")
            peer.send(peer.nop_out(cmd_sn=0x7FFFFFFF) + peer.nop_out())
            check(peer.pdu()[0][0] == 0x20, "the ping that follows is not answered")
        check(daemon.stop() == 0, "skiffd did not end in order")
        found = events(daemon)
    warning, = [event for event in found if "ignored a PDU" in event["message"]]
    check(warning["reason"].startswith("ignored a PDU") and warning["initiator"].endswith(":warned"), warning)
    found = [event for event in found if not event.get("initiator", "").endswith(":warned")]
    logins = [event for event in found if " logged in to " in event["message"]]
    check(len(logins) == 20, f"{len(logins)} logins in the log")
    expected = {
        "level": "info",
        "address": f"127.0.0.1:{port}",
        "portal": "tcp://127.0.0.1:0",
        "initiator": "iqn.2026-11.org.example:raw19",
        "target": raw_iscsi.TARGET,
    }
    check(expected.items() <= logins[-1].items(), f"{logins[-1]} lacks some of {expected}")
    reasons = [event["reason"] for event in found if event["message"].endswith("closing: " + event.get("reason", "?"))]
    check(len(reasons) >= 2 * len(hostile), f"reasons of refused logins: {reasons}")
    check(any("InitiatorName" in reason for reason in reasons), reasons)
    check(any("U+202E must not be used" in reason for reason in reasons), reasons)


def test_repeats(skiffd):
    """What comes again and again is counted, and no count is lost at the end."""
    count = 50
    settings = 'log { interval: "0s" repeat_window: "1h" }'
    with tempfile.TemporaryDirectory() as directory, raw_iscsi.Daemon(skiffd, directory, settings=settings) as daemon:
        for _ in range(count):
            with raw_iscsi.Initiator(daemon.port) as peer:
                check(peer.login() == (0, 0), "an initiator does not get in")
        with raw_iscsi.Initiator(daemon.port) as peer:
            check(peer.login("iqn.2026-11.org.example:other") == (0, 0), "another initiator does not get in")
        daemon.wait_for_log("iqn.2026-11.org.example:other logged in")
        check(daemon.log().count("example:raw logged in") == 1, f"no line, or several:\n{daemon.log()}")
        check(daemon.stop() == 0, "skiffd did not end in order")
        told = re.findall(r"example:raw logged in to \S+ \((\d+) more in \S+\)", daemon.log())
        check(told == [str(count - 1)], f"{told} were counted:\n{daemon.log()}")


def main():
    skiffd = sys.argv[1]
    test_ignored_pdus(skiffd)
    test_logins(skiffd)
    test_reader_is_stuck(skiffd)
    test_json(skiffd)
    test_repeats(skiffd)


if __name__ == "__main__":
    main()
