#!/usr/bin/env python3
"""Draws Grafana's dashboard as it looks over a skiffd under load, with the answers of a real Prometheus server.

Usage: draw_dashboard.py SKIFFD SKIFF [SECONDS] > FILE.svg
"""

import sys
import tempfile
import time

sys.dont_write_bytecode = True
import dashboard
import stand

INTERVAL = "5s"


def main():
    skiffd_program, skiff = sys.argv[1:3]
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 40
    with tempfile.TemporaryDirectory() as directory, stand.Skiffd(skiffd_program, directory) as skiffd, \
            stand.Prometheus(skiffd.metrics, directory) as prometheus:
        begin = time.time()
        # Some of it without load before, and after.
        time.sleep(seconds / 8)
        with stand.Load(skiff, skiffd, seconds * 5 // 8) as load:
            time.sleep(seconds / 4)
            load.fail()
            load.wait()
        time.sleep(seconds / 8)
        end = time.time()
        answers = [(panel, panel.answers(lambda query: prometheus.over_time(query, begin, end), INTERVAL))
                   for panel in dashboard.panels()]
    sys.stdout.write(dashboard.picture(answers, begin, end))


if __name__ == "__main__":
    main()
