# SPDX-License-Identifier: BSD-3-Clause
"""A real Prometheus (Debian's package) that scrapes one daemon, and queries to it."""
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
import mayfly                                                           # noqa: E402
from mayfly import wait_for                                             # noqa: E402

CONFIG = """global:
  scrape_interval: 1s
scrape_configs:
  - job_name: mayfly
    static_configs:
      - targets: ['127.0.0.1:%d']
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def listens(port, process):
    """It does, or it has ended."""
    if process.poll() is not None:
        return True
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    except OSError:
        return False


class Prometheus:
    """A Prometheus that runs in a folder; call it with a query."""

    def __init__(self, folder, target, log):
        self.log = log
        config = os.path.join(folder, "prometheus.yml")
        mayfly.write(config, CONFIG % target)
        for _ in range(5):      # somebody may take the port before it does
            self.port = free_port()
            self.process = subprocess.Popen(
                ["prometheus", "--config.file=" + config, "--web.listen-address=127.0.0.1:%d" % self.port,
                 "--storage.tsdb.path=" + os.path.join(folder, "data"), "--log.level=warn"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
            wait_for(lambda: listens(self.port, self.process), "prometheus listens")
            if self.process.poll() is None:
                break

    def ask(self, path, **what):
        """The series of an answer; none if it is not ready yet."""
        if self.process.poll() is not None:
            self.log.seek(0)
            raise AssertionError("prometheus ended: " + self.log.read()[-2000:])
        url = "http://127.0.0.1:%d/api/v1/%s?%s" % (self.port, path, urllib.parse.urlencode(what))
        try:
            with urllib.request.urlopen(url, timeout=mayfly.PATIENCE) as answer:
                return json.load(answer)["data"]["result"]
        except OSError:
            return []

    def __call__(self, query):
        """(labels, value) of each series at present."""
        return [(r["metric"], float(r["value"][1])) for r in self.ask("query", query=query)]

    def over_time(self, query, start, end, step):
        """(labels, [(time, value), ...]) of each series."""
        return [(r["metric"], [(t, float(v)) for t, v in r["values"]])
                for r in self.ask("query_range", query=query, start=start, end=end, step=step)]


@contextlib.contextmanager
def prometheus(target):
    """A Prometheus that scrapes this port."""
    mayfly.needs("prometheus")
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder, open(os.path.join(folder, "log"), "w+") as log:
        running = Prometheus(folder, target, log)
        try:
            yield running
        finally:
            running.process.terminate()
            running.process.wait(mayfly.PATIENCE)
