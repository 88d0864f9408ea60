"""Measurements in turns, and what they are judged by."""

import json
import operator
import pathlib
import statistics


class Report:
    """Measurements in turns, their medians, and the goals."""

    def __init__(self, rounds):
        self._rounds = rounds
        self.samples = {}
        self.goals = []

    def measure(self, measurements):
        """`measurements`: name -> function."""
        for _ in range(self._rounds):
            for name, function in measurements.items():
                self.samples.setdefault(name, []).append(function())
        for name in measurements:
            self.note(name)

    def median(self, name):
        return statistics.median(self.samples[name])

    def note(self, name):
        print(f"     {name}: {self.median(name):,.2f}   ({', '.join(f'{sample:,.2f}' for sample in self.samples[name])})",
              flush=True)

    def ratio(self, dividend, divisor):
        """The median of the rounds' ratios: a machine that changes its pace between rounds does not move it."""
        return statistics.median(map(operator.truediv, self.samples[dividend], self.samples[divisor]))

    def at_least(self, what, value, goal):
        self._judge(what, value, goal, value >= goal, "≥")

    def at_most(self, what, value, goal):
        self._judge(what, value, goal, value <= goal, "≤")

    def _judge(self, what, value, goal, met, sign):
        self.goals.append({"goal": what, "value": value, "limit": goal, "met": met})
        print(f"{'PASS' if met else 'MISS'} {what}: {value:.2f} (goal {sign} {goal:.2f})", flush=True)

    def finish(self, file=None):
        """Says how many goals were met, writes everything to `file`, and returns whether all were."""
        missed = [goal["goal"] for goal in self.goals if not goal["met"]]
        print(f"{len(self.goals) - len(missed)} goals met, {len(missed)} missed")
        if file:
            pathlib.Path(file).write_text(
                json.dumps({"samples": self.samples, "goals": self.goals}, indent=1), encoding="utf-8")
        return not missed
