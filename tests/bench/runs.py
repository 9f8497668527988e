# SPDX-License-Identifier: BSD-3-Clause
"""Runs of an experiment: a file of them, to which more may be added, and what they come to as text. Their
form and their bars are those of tests/bench/figures.py."""
import json
import os
import re
import subprocess
import sys

import figures


def version_of(path):
    """The version that a server's program tells, such as 7.0.15."""
    for flag in ("--version", "-V"):
        done = subprocess.run([path, flag], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        found = re.search(r"\d+\.\d+(\.\d+)?", done.stdout)
        if found and done.returncode == 0:
            return found.group(0)
    return "?"


def dump(data):
    """JSON with a line for each run."""
    head = json.dumps({k: v for k, v in data.items() if k != "runs"})
    return head[:-1] + ', "runs": [\n' + ",\n".join(json.dumps(r) for r in data["runs"]) + "\n]}\n"


class Runs:
    """args: of the command line: json, quick, note, late_ms."""

    def __init__(self, args):
        self.path = args.json
        scale = "quick" if args.quick else "full"
        self.data = {"machine": "%d cores" % os.cpu_count(), "scale": scale, "versions": {}, "commands": [], "runs": []}
        if self.path and os.path.exists(self.path):
            with open(self.path) as f:
                self.data = json.load(f)
            if self.data["scale"] != scale:
                sys.exit("%s holds runs of another scale" % self.path)
        self.data["late_ms"] = args.late_ms
        if args.note:
            self.data["note"] = args.note

    def add_programs(self, programs):
        self.data["versions"].update({n: version_of(p) for n, p in programs.items()})

    def add(self, experiment, case, server, got, late_ms=0, series=None):
        """Keep a run, and tell of it; returns whether it has to be repeated, because its load was late."""
        run = {"experiment": experiment.name, "case": case, "server": server, "late_ms": round(late_ms, 3),
               "figures": {k: None if v is None else round(v, 4) for k, v in got.items()}}
        if series:
            run["series"] = series
        self.data["runs"].append(run)
        late = figures.is_late(self.data, run)
        print("%-8s %-22s %-10s%s  %s" % (experiment.name, case, server, " late" if late else "", "  ".join(
            "%s %s" % (f, figures.cell(f, got)) for f in experiment.columns)), flush=True)
        return late and set(got) & set(figures.TIMED)

    def save(self):
        if self.path:
            with open(self.path + ".new", "w") as f:
                f.write(dump(self.data))
            os.replace(self.path + ".new", self.path)

    def print_tables(self, experiments):
        """Returns whether all bars hold."""
        all_hold = True
        for experiment in experiments:
            if not figures.runs_of(self.data, experiment.name):
                continue
            print("\n" + experiment.title)
            rows = figures.table(self.data, experiment.name)
            widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
            for row in rows:
                print("  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))))
            for row in figures.gains_table(self.data) if experiment.name == "hits" else []:
                print("  ".join(c.rjust(w) for c, w in zip(row, (24, 9, 9, 9, 9, 22))))
            for text, value, limit, holds in figures.bars(self.data, experiment.name):
                all_hold &= holds
                print("bar: %s: %.3f, %s: %s" % (text, value, limit, "holds" if holds else "does not hold"))
        return all_hold
