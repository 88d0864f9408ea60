"""The panels of Grafana's dashboard, without Grafana: what they ask Prometheus, and a picture of the answers."""

import collections
import html
import json
import math
import pathlib
import re

FILE = pathlib.Path("tools/metrics/grafana/skiff.json")
# What Grafana replaces in an expression, where everything is chosen.
EVERYTHING = {"$target": ".*", "$lun": ".*"}


class Panel:
    """One of the dashboard's, with its place in Grafana's grid of 24 columns."""

    def __init__(self, panel):
        self.title = panel["title"]
        self.kind = panel["type"]
        self.place = panel["gridPos"]
        defaults = panel.get("fieldConfig", {}).get("defaults", {})
        self.unit = defaults.get("unit", "none")
        self.most = defaults.get("max")
        self.queries = [(target["expr"], target["legendFormat"]) for target in panel.get("targets", ())]

    def answers(self, over_time, interval):
        """[(legend, labels, [(time, value)])] of all its expressions; `over_time` asks for one."""
        return [(legend_of(legend, labels) or self.title, labels, values) for expression, legend in self.queries
                for labels, values in over_time(expand(expression, interval))]


def panels():
    return [Panel(panel) for panel in json.loads(FILE.read_text(encoding="utf-8"))["panels"]]


def expand(expression, interval):
    for name, value in {**EVERYTHING, "$__rate_interval": interval}.items():
        expression = expression.replace(name, value)
    return expression


def legend_of(pattern, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), pattern).strip()


# The units of panels: what stands behind a number, its steps, and their prefixes.
DECIMAL = (1000, ("", "k", "M", "G", "T"))
BINARY = (1024, ("", "Ki", "Mi", "Gi", "Ti"))
UNITS = {"none": ("", *DECIMAL), "iops": ("/s", *DECIMAL), "ops": ("/s", *DECIMAL), "cps": ("/s", *DECIMAL),
         "Bps": ("B/s", *DECIMAL), "bytes": ("B", *BINARY)}


def text_of(value, unit):
    if math.isnan(value):
        return "–"
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s":
        for factor, name in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
            if value * factor >= 1 or name == "µs":
                return f"{value * factor:.3g} {name}" if value else "0"
    suffix, base, prefixes = UNITS[unit]
    power = 0
    while power + 1 < len(prefixes) and abs(value) >= base:
        value /= base
        power += 1
    return f"{value:.3g} {prefixes[power]}{suffix}".strip()


COLUMN, LINE, GAP, LEFT = 44, 15, 10, 68  # Pixels.
ROWS_SHOWN = 6  # Of a legend.
HEIGHTS = {"row": 26, "stat": 66, "timeseries": 150}  # Without the rows of the legend.
COLOURS = ("#4878a8", "#d08040", "#5a9a58", "#b04a5a", "#8068a8", "#907050", "#c078a8", "#707070")


def picture(answers, begin, end):
    """SVG of (panel, what Panel.answers() gave) in the order of the dashboard. Legends have the highest values."""
    out = []
    top = bottom = GAP
    line = None
    # What stands beside each other is as high as the longest legend.
    rows = collections.Counter()
    for panel, series in answers:
        if panel.kind == "timeseries":
            rows[panel.place["y"]] = max(rows[panel.place["y"]], min(len(series), ROWS_SHOWN))
    for panel, series in answers:
        height = HEIGHTS[panel.kind] + LINE * rows[panel.place["y"]]
        if panel.place["y"] != line:
            line, top = panel.place["y"], bottom
            bottom = top + height + GAP
        x, width = GAP + COLUMN * panel.place["x"], COLUMN * panel.place["w"] - GAP
        out.append(f'<g transform="translate({x} {top})">')
        if panel.kind == "row":
            out.append(f'<text y="18" font-size="15" font-weight="bold">{html.escape(panel.title)}</text>')
        else:
            out += [f'<rect width="{width}" height="{height}" fill="white" stroke="#ddd"/>',
                    f'<text x="10" y="18" font-weight="bold">{html.escape(panel.title)}</text>']
            out += number(panel, series) if panel.kind == "stat" else graph(panel, series, width, begin, end)
        out.append("</g>")
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMN * 24 + GAP} {bottom}" '
                      'font-family="sans-serif" font-size="12">',
                      '<rect width="100%" height="100%" fill="#f6f6f6"/>', *out, "</svg>", ""])


def number(panel, series):
    last = series[0][2][-1][1] if series else math.nan
    return [f'<text x="10" y="50" font-size="26" fill="{COLOURS[0]}">{html.escape(text_of(last, panel.unit))}</text>']


def ceiling(value, unit):
    """A round number from there on: of halves and quarters, which the axis has."""
    base = 2 if unit == "bytes" else 10
    power = base ** math.floor(math.log(value, base))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)


def graph(panel, series, width, begin, end):
    numbers = [value for _, _, values in series for _, value in values if not math.isnan(value)]
    most = panel.most or ceiling(max([*numbers, 0]) or 1, panel.unit)
    right, top, height = width - 12, 30, 90
    out = []
    for part in range(3):
        y = top + height - height * part / 2
        out.append(f'<line x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{text_of(most * part / 2, panel.unit)}</text>')
    for second in range(0, int(end - begin) + 1, 10):
        x = LEFT + (right - LEFT) * second / (end - begin)
        out.append(f'<text x="{x:.1f}" y="{top + height + 15}" text-anchor="middle" fill="#888">{second} s</text>')
    # Whoever is highest first, as the legend has room for some alone.
    ranked = sorted(series, key=lambda one: -max((v for _, v in one[2] if not math.isnan(v)), default=0))
    for i, (legend, _, values) in enumerate(ranked):
        colour = COLOURS[i % len(COLOURS)]
        points = [(LEFT + (right - LEFT) * (when - begin) / (end - begin), top + height * (1 - min(value / most, 1)))
                  for when, value in values if not math.isnan(value)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        if i < ROWS_SHOWN:
            y = top + height + 36 + LINE * i
            highest = max((value for _, value in values if not math.isnan(value)), default=math.nan)
            out.append(f'<rect x="12" y="{y - 9}" width="10" height="10" fill="{colour}"/>'
                       f'<text x="28" y="{y}">{html.escape(legend)}</text>'
                       f'<text x="{right}" y="{y}" text-anchor="end">{html.escape(text_of(highest, panel.unit))}</text>')
    return out
