#!/usr/bin/env python3
"""Measures Skiff's codec, datamovers and transports, compares two such runs, and draws them.

Usage: skiff-bench run [--json FILE] [--program PROGRAM] [--repetitions N] [--min-time SECONDS] [--filter REGEX]
                       [--transport URL,URL...]
       skiff-bench compare A.json B.json [--svg FILE] [--limit RATIO]
       skiff-bench chart A.json [B.json] [--filter REGEX] > FILE.svg

PROGRAM has the benchmarks, and the transports that are linked into it. docs/skiff-bench.md tells what the figures mean.
compare says of each benchmark that both have how many times A's time B takes. Where the repetitions of both overlap, that
is within the spread. With --limit, the exit status is 1 if one is beyond the spread and takes more than RATIO times.
"""

import argparse
import html
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

NANOSECONDS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
# What Google Benchmark has besides the counters of a benchmark.
FIELDS = {"name", "family_index", "per_family_instance_index", "run_name", "run_type", "repetitions", "repetition_index",
          "threads", "iterations", "real_time", "cpu_time", "time_unit", "label"}


class BenchError(Exception):
    """For people."""


def rounded(value):
    """Three digits, as nobody needs more."""
    if value == 0:
        return "0"
    digits = max(0, 2 - int(f"{abs(value):e}".split("e")[1]))
    return f"{value:,.{digits}f}"


def time_text(nanoseconds):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{rounded(nanoseconds / size)} {unit}"
    return f"{rounded(nanoseconds)} ns"


class Result:
    """The repetitions of one benchmark: times of an operation in nanoseconds, and the medians of the counters."""

    def __init__(self, times, counters):
        if not times:
            raise BenchError("a benchmark without times")
        self.times = times
        self.counters = counters

    @property
    def median(self):
        return statistics.median(self.times)

    @property
    def spread(self):
        """From the least to the most, in parts of the median."""
        return (max(self.times) - min(self.times)) / self.median if self.median > 0 else 0

    def overlaps(self, other):
        return min(self.times) <= max(other.times) and min(other.times) <= max(self.times)


def results_of(report):
    """Results by name, of Google Benchmark's report. A benchmark that failed is an error."""
    times, counters = {}, {}
    for entry in report["benchmarks"]:
        if entry.get("run_type") != "iteration":
            continue
        name = entry["run_name"].removesuffix("/real_time")
        if entry.get("error_occurred"):
            raise BenchError(f"{name}: {entry.get('error_message', 'failed')}")
        # An iteration may be many operations, such as a batch of commands.
        rate = entry.get("items_per_second", 0)
        times.setdefault(name, []).append(
            1e9 / rate if rate > 0 else entry["real_time"] * NANOSECONDS[entry["time_unit"]])
        for key, value in entry.items():
            if key not in FIELDS and isinstance(value, (int, float)) and not isinstance(value, bool):
                counters.setdefault(name, {}).setdefault(key, []).append(value)
    return {name: Result(samples, {key: statistics.median(values) for key, values in counters.get(name, {}).items()})
            for name, samples in times.items()}


def load(path):
    """A run that was kept by --json."""
    try:
        kept = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        return {name: Result([float(time) for time in each["times_ns"]], each["counters"])
                for name, each in kept["results"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, BenchError) as error:
        raise BenchError(f"{path} is no run of skiff-bench: {error!r}") from error


def keep(path, results, context):
    kept = {"machine": {key: context[key] for key in ("host_name", "num_cpus", "mhz_per_cpu", "date") if key in context},
            "results": {name: {"times_ns": each.times, "counters": each.counters} for name, each in results.items()}}
    pathlib.Path(path).write_text(json.dumps(kept, indent=1), encoding="utf-8")


def table(rows, head):
    """Columns as wide as they have to be; all but the first to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        yield "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))).rstrip()


def run_table(results):
    rows = []
    for name, each in results.items():
        counters = dict(each.counters)
        counters.pop("items_per_second", None)
        counters.pop("bytes_per_second", None)
        rate = 1e9 / each.median if each.median > 0 else 0
        extra = ", ".join(f"{key} {rounded(value)}" for key, value in counters.items())
        rows.append([name, time_text(each.median), f"±{50 * each.spread:.0f} %", f"{rounded(rate)}/s", extra])
    return table(rows, ["benchmark", "time", "spread", "rate", "counters"])


def compare(before, after):
    """Rows of name, ratio, and what it says."""
    common = [name for name in before if name in after]
    if not common:
        raise BenchError("the two runs have no benchmark in common")
    for name in common:
        a, b = before[name], after[name]
        ratio = b.median / a.median if a.median > 0 else float("inf")
        verdict = "within the spread" if a.overlaps(b) else "slower" if ratio > 1 else "faster"
        yield name, ratio, verdict


def svg(runs, title):
    """Bars of the medians, each with a line from the least to the most; on a scale by powers of ten."""
    names = list(dict.fromkeys(name for _, results in runs for name in results))
    if not names:
        raise BenchError("nothing to draw")
    low = min(min(each.times) for _, results in runs for each in results.values())
    high = max(max(each.times) for _, results in runs for each in results.values())
    first, last = exponent(low), exponent(high) + 1
    left, width, bar = 20 + 7 * max(map(len, names)), 560, 14
    row = bar * len(runs) + 8
    height = 60 + row * len(names)

    def x_of(value):
        return left + width * (position(value) - first) / (last - first)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 110}" height="{height + 30}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>', f'<text x="10" y="18">{html.escape(title)}</text>']
    colours = ("#4878a8", "#d08040")
    for i, (label, _) in enumerate(runs):
        out.append(f'<rect x="{left + 200 * i}" y="26" width="10" height="10" fill="{colours[i % 2]}"/>'
                   f'<text x="{left + 14 + 200 * i}" y="36">{html.escape(pathlib.Path(label).name)}</text>')
    for power in range(first, last + 1):
        x = x_of(10.0 ** power)
        out.append(f'<line x1="{x:.1f}" y1="44" x2="{x:.1f}" y2="{height}" stroke="#ddd"/>'
                   f'<text x="{x:.1f}" y="{height + 16}" text-anchor="middle">{time_text(10.0 ** power)}</text>')
    for i, name in enumerate(names):
        top = 50 + row * i
        out.append(f'<text x="{left - 8}" y="{top + row / 2}" text-anchor="end">{html.escape(name)}</text>')
        for j, (_, results) in enumerate(runs):
            if name not in results:
                continue
            each, y = results[name], top + bar * j
            end = x_of(each.median)
            out.append(f'<rect x="{left}" y="{y}" width="{max(end - left, 1):.1f}" height="{bar - 3}" '
                       f'fill="{colours[j % 2]}"/>'
                       f'<line x1="{x_of(min(each.times)):.1f}" y1="{y + 5}" x2="{x_of(max(each.times)):.1f}" '
                       f'y2="{y + 5}" stroke="black" stroke-width="2"/>'
                       f'<text x="{max(end, x_of(max(each.times))) + 5:.1f}" y="{y + 10}">{time_text(each.median)}</text>')
    return "\n".join([*out, "</svg>", ""])


def position(value):
    """On the scale: the power of ten."""
    return math.log10(max(value, 1e-3))


def exponent(value):
    return math.floor(position(value))


def program_of(options):
    """As asked for, or where it is built or installed."""
    here = pathlib.Path(sys.argv[0]).absolute().parent
    installed = here.parent / "lib/skiff/skiff-benches"
    return options.program or str(installed if installed.is_file() else here / "skiff_benches")


def measure(options):
    program = program_of(options)
    command = [program, "--benchmark_format=json", f"--benchmark_repetitions={options.repetitions}",
               f"--benchmark_min_time={options.min_time:f}", f"--benchmark_filter={options.filter}"]
    if options.transport:
        command.append(f"--transport={options.transport}")
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    except OSError as error:
        raise BenchError(f"cannot run {program}: {error.strerror}") from error
    if done.returncode != 0:
        raise BenchError(f"{program} failed with exit status {done.returncode}")
    try:
        report = json.loads(done.stdout)
    except ValueError as error:
        raise BenchError(f"no benchmark of {program} matches \"{options.filter}\"") from error
    results = results_of(report)
    print("\n".join(run_table(results)))
    if options.json:
        keep(options.json, results, report.get("context", {}))
    return 0


def compare_runs(options):
    before, after = load(options.before), load(options.after)
    rows = list(compare(before, after))
    print("\n".join(table([[name, time_text(before[name].median), time_text(after[name].median), f"{ratio:.2f}", verdict]
                           for name, ratio, verdict in rows], ["benchmark", "A", "B", "B/A", "says"])))
    for label, results, other in ((options.before, before, after), (options.after, after, before)):
        lonely = [name for name in results if name not in other]
        if lonely:
            print(f"only in {label}: {', '.join(lonely)}")
    if options.svg:
        chart = svg([(options.before, before), (options.after, after)], "time of an operation")
        pathlib.Path(options.svg).write_text(chart, encoding="utf-8")
    beyond = [name for name, ratio, verdict in rows if options.limit and verdict == "slower" and ratio > options.limit]
    if beyond:
        print(f"more than {options.limit:g} times as slow: {', '.join(beyond)}")
    return 1 if beyond else 0


def draw(options):
    runs = []
    for path in options.runs:
        wanted = {name: each for name, each in load(path).items() if re.search(options.filter, name)}
        runs.append((path, wanted))
    sys.stdout.write(svg(runs, "time of an operation"))
    return 0


def positive(kind):
    def parse(text):
        value = kind(text)
        if not 0 < value <= 1e6:
            raise argparse.ArgumentTypeError(f"{text} is not above 0, or too much")
        return value
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="measure, and print a table")
    run.add_argument("--program", help="what has the benchmarks; else Skiff's own")
    run.add_argument("--json", metavar="FILE", help="keep the run")
    run.add_argument("--repetitions", type=positive(int), default=5)
    run.add_argument("--min-time", type=positive(float), default=0.1, metavar="SECONDS", help="of each repetition")
    run.add_argument("--filter", default=".", metavar="REGEX")
    run.add_argument("--transport", metavar="URLS", help="URLs to listen on, by commas; else every one that works")
    run.set_defaults(action=measure)
    both = commands.add_parser("compare", help="two runs that were kept")
    both.add_argument("before", metavar="A.json")
    both.add_argument("after", metavar="B.json")
    both.add_argument("--svg", metavar="FILE", help="also draw them")
    both.add_argument("--limit", type=positive(float), metavar="RATIO")
    both.set_defaults(action=compare_runs)
    chart = commands.add_parser("chart", help="draw one run, or two, as SVG on the standard output")
    chart.add_argument("runs", nargs="+", metavar="RUN.json")
    chart.add_argument("--filter", default=".", metavar="REGEX")
    chart.set_defaults(action=draw)
    return parser.parse_args()


def main():
    options = parse_arguments()
    try:
        if len(getattr(options, "runs", [])) > 2:
            raise BenchError("a chart has one run or two")
        return options.action(options)
    except (BenchError, re.error) as error:
        print(f"skiff-bench: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
