#!/usr/bin/env python3
"""Measures Skiff's codec, datamovers and transports, compares two such runs, and draws them.

Usage: skiff-bench run [OPTION]...
   or: skiff-bench compare A.json B.json [--svg FILE] [--limit RATIO]
   or: skiff-bench chart A.json [B.json] [--filter REGEX] > FILE.svg
   or: skiff-bench beside REPORT.json --ours TEXT --theirs TEXT [--filter REGEX] > FILE.svg

Options of run:
  --json FILE         keep the run
  --program PROGRAM   what has the benchmarks, and the transports that are linked into it; else Skiff's own
  --repetitions N     of each benchmark; 5 if not given
  --min-time SECONDS  of each repetition; 0.1 if not given
  --filter REGEX      only the benchmarks whose names have it
  --transport URLS    URLs to listen on, by commas; else every transport that works on the machine

Options of compare:
  --svg FILE          also draw them
  --limit RATIO       the exit status is 1 if one is beyond the spread and takes more than RATIO times

Options of beside:
  --ours TEXT         what names of samples have that are ours
  --theirs TEXT       what stands in its place where they are the peer's

compare says of each benchmark that both have how many times A's time B takes. Where the repetitions of both overlap, that
is within the spread. beside draws how many times as fast ours is in a report of Skiff's comparisons with its peers.
docs/skiff-bench.md, in Skiff's sources, tells what the figures mean.
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
import typing

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


class Chart(typing.NamedTuple):
    """What a chart of bars is made of; its scale is logarithmic."""
    title: str
    labels: list  # Of the bars of a row: none where there is one, and the title says what it is.
    rows: list  # Name, and for each label the values, or None.
    ticks: list  # Values that have a line; the first and the last one are the ends.
    origin: float  # Where bars begin.
    text: typing.Callable  # A value as text.


COLOURS = ("#4878a8", "#d08040")
PLOT, BAR = 560, 14  # Pixels: how wide the plot is, how high the place of a bar.


def svg(chart):
    """Bars of the medians, each with a line from the least to the most."""
    if not chart.rows:
        raise BenchError("nothing to draw")
    left = 20 + 7 * max(len(name) for name, _ in chart.rows)
    first, last = position(chart.ticks[0]), position(chart.ticks[-1])
    row = BAR * len(chart.rows[0][1]) + 8
    height = 60 + row * len(chart.rows)

    def x_of(value):
        return left + PLOT * (position(value) - first) / (last - first)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + PLOT + 110}" height="{height + 30}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>', f'<text x="10" y="18">{html.escape(chart.title)}</text>']
    for i, label in enumerate(chart.labels):
        out.append(f'<rect x="{left + 200 * i}" y="26" width="10" height="10" fill="{COLOURS[i % 2]}"/>'
                   f'<text x="{left + 14 + 200 * i}" y="36">{html.escape(label)}</text>')
    for tick in chart.ticks:
        x = x_of(tick)
        out.append(f'<line x1="{x:.1f}" y1="44" x2="{x:.1f}" y2="{height}" stroke="#ddd"/>'
                   f'<text x="{x:.1f}" y="{height + 16}" text-anchor="middle">{chart.text(tick)}</text>')
    for i, (name, bars) in enumerate(chart.rows):
        top = 50 + row * i
        out.append(f'<text x="{left - 8}" y="{top + row / 2}" text-anchor="end">{html.escape(name)}</text>')
        out += [bar_of(chart, values, COLOURS[j % 2], top + BAR * j, x_of) for j, values in enumerate(bars) if values]
    return "\n".join([*out, "</svg>", ""])


def bar_of(chart, values, colour, y, x_of):
    median = statistics.median(values)
    begin, end = sorted((x_of(chart.origin), x_of(median)))
    least, most = x_of(min(values)), x_of(max(values))
    return (f'<rect x="{begin:.1f}" y="{y}" width="{max(end - begin, 1):.1f}" height="{BAR - 3}" fill="{colour}"/>'
            f'<line x1="{least:.1f}" y1="{y + 5}" x2="{most:.1f}" y2="{y + 5}" stroke="black" stroke-width="2"/>'
            f'<text x="{max(end, most) + 5:.1f}" y="{y + 10}">{chart.text(median)}</text>')


def chart_of_runs(runs):
    """Times of an operation, of one run or two with their labels."""
    names = list(dict.fromkeys(name for _, results in runs for name in results))
    every = [time for _, results in runs for each in results.values() for time in each.times]
    if not every:
        raise BenchError("nothing to draw")
    ticks = [10.0 ** power for power in range(exponent(min(every)), exponent(max(every)) + 2)]
    return Chart("time of an operation", [pathlib.Path(label).name for label, _ in runs],
                 [(name, [results[name].times if name in results else None for _, results in runs]) for name in names],
                 ticks, ticks[0], time_text)


# Ratios that a scale may show, if there is room: those to the left are chosen first.
RATIOS = (1, 2, 5, 10, 20, 50, 100, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 1.5, 0.7, 1.2, 0.8, 1.1, 0.9, 1.05, 0.95)
APART = 36  # Pixels.


def ratio_ticks(low, high):
    """Ends that have all between them, and what there is room for."""
    low, high = min(low, 0.95) / 1.02, max(high, 1.05) * 1.02
    span = position(high) - position(low)
    chosen = []
    for ratio in RATIOS:
        if low <= ratio <= high and all(abs(position(ratio) - position(one)) / span * PLOT >= APART
                                        for one in [low, high, *chosen]):
            chosen.append(ratio)
    return [low, *sorted(chosen), high]


def chart_of_peers(samples, ours, theirs, wanted):
    """How many times as fast ours is, round by round; of a report with samples of both."""
    rows = []
    for name, values in samples.items():
        peer = samples.get(name.replace(ours, theirs)) if ours in name else None
        if peer is None or not re.search(wanted, name):
            continue
        if len(peer) != len(values) or not all(value > 0 for value in [*values, *peer]):
            raise BenchError(f"\"{name}\" and its peer have other rounds, or no figures above 0")
        ratios = [a / b for a, b in zip(values, peer)]
        # Less time is faster.
        takes_time = re.search(r"\b(ns|µs|ms|s)\b", name.replace(ours, "")) is not None
        label = " ".join(name.replace(ours, "").split()).strip(":, ")
        rows.append((label, [[1 / ratio for ratio in ratios] if takes_time else ratios]))
    if not rows:
        raise BenchError(f"no sample has \"{ours}\" where another one has \"{theirs}\"")
    every = [ratio for _, (ratios,) in rows for ratio in ratios]
    return Chart(f"{ours}: how many times as fast as {theirs}; the lines span all rounds", [], rows,
                 ratio_ticks(min(every), max(every)), 1, lambda ratio: f"{ratio:.3g}")


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
        chart = svg(chart_of_runs([(options.before, before), (options.after, after)]))
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
    sys.stdout.write(svg(chart_of_runs(runs)))
    return 0


def draw_beside(options):
    try:
        samples = {name: [float(value) for value in values] for name, values in
                   json.loads(pathlib.Path(options.report).read_text(encoding="utf-8"))["samples"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchError(f"{options.report} is no report of a comparison: {error!r}") from error
    sys.stdout.write(svg(chart_of_peers(samples, options.ours, options.theirs, options.filter)))
    return 0


def positive(kind):
    def parse(text):
        value = kind(text)
        if not 0 < value <= 1e6:
            raise argparse.ArgumentTypeError(f"{text} is not above 0, or too much")
        return value
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", help=argparse.SUPPRESS)
    run = commands.add_parser("run")
    run.add_argument("--program")
    run.add_argument("--json", metavar="FILE")
    run.add_argument("--repetitions", type=positive(int), default=5)
    run.add_argument("--min-time", type=positive(float), default=0.1, metavar="SECONDS")
    run.add_argument("--filter", default=".", metavar="REGEX")
    run.add_argument("--transport", metavar="URLS")
    run.set_defaults(action=measure)
    both = commands.add_parser("compare")
    both.add_argument("before", metavar="A.json")
    both.add_argument("after", metavar="B.json")
    both.add_argument("--svg", metavar="FILE")
    both.add_argument("--limit", type=positive(float), metavar="RATIO")
    both.set_defaults(action=compare_runs)
    chart = commands.add_parser("chart")
    chart.add_argument("runs", nargs="+", metavar="RUN.json")
    chart.add_argument("--filter", default=".", metavar="REGEX")
    chart.set_defaults(action=draw)
    beside = commands.add_parser("beside")
    beside.add_argument("report", metavar="REPORT.json")
    beside.add_argument("--ours", required=True, metavar="TEXT")
    beside.add_argument("--theirs", required=True, metavar="TEXT")
    beside.add_argument("--filter", default=".", metavar="REGEX")
    beside.set_defaults(action=draw_beside)
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
