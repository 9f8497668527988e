# SPDX-License-Identifier: BSD-3-Clause
"""A daemon that is killed under load, again and again, and what it brings back each time.

The load stores values that name their key and version, deletes, touches, lets expire and flushes, and
notes what each key may have after a crash: every state since the last one that was promised to last."""
import random
import threading
import time
import zlib

import mayfly
from kept import figure, kept

KEYS = 400
STEADY = 100    # others, which nobody changes after they are stored
ABSENT = (None, None)

# Of each mode: options, and is what was answered safe once it is in the log?
MODES = {
    "snapshot": ((), False),
    "keys-no": (("appendonly=keys", "appendfsync=no"), True),
    "keys-everysec": (("appendonly=keys", "appendfsync=everysec"), True),
    "keys-always": (("appendonly=keys", "appendfsync=always"), True),
    "full-no": (("appendonly=full", "appendfsync=no"), True),
    "full-everysec": (("appendonly=full", "appendfsync=everysec"), True),
    "full-always": (("appendonly=full", "appendfsync=always"), True),
}


def value_of(key, version):
    text = b"%s:%d:" % (key, version)
    return text + b"%08x" % zlib.crc32(text) + b"x" * (version * 37 % 300)


def is_whole(key, value):
    fields = value.split(b":")
    return len(fields) == 3 and fields[0] == key and \
        fields[2].rstrip(b"x")[:8] == b"%08x" % zlib.crc32(b"%s:%s:" % (fields[0], fields[1]))


def allowed(states, value, asked):
    """The possible states of a key that match a value, or a miss (None), at that time."""
    if value is None:
        return [s for s in states if s[0] is None or s[1]]
    version = int(value.split(b":")[1])
    return [s for s in states if s[0] == version and (s[1] is None or asked < s[1])]


def left_of(value, fits):
    """The possible states of a key from now on, with and without a deadline: a touch may have been executed but not
    answered."""
    if value is None:
        return [ABSENT]
    return fits[:1] if len(set(fits)) == 1 else [(fits[0][0], float("inf"))]


class Model:
    """The possible states of each key: the first is the promised one, later ones may or may not be lost. A state is a
    version and the time from which it must not be seen."""

    def __init__(self):
        self.may = {b"k%d" % n: [ABSENT] for n in range(KEYS)}
        self.version = 0
        self.steady = set()

    def note(self, key, state):
        self.may[key].append(state)

    def mark(self):
        """The present states, for promise()."""
        return {key: len(states) for key, states in self.may.items()}

    def promise(self, mark):
        """No state older than those at the mark may reappear."""
        for key, n in mark.items():
            self.may[key] = self.may[key][n - 1:]

    def flushed(self):
        for key in self.may:
            self.may[key] = [ABSENT]
        self.steady = set()

    def flush_may_come(self):
        for key in self.may:
            self.may[key].append(ABSENT)
        self.steady = set()


class Crash:
    def __init__(self, mode, seed):
        self.options, self.is_logged = MODES[mode]
        self.is_answered_safe = mode.endswith("always")
        self.is_full = mode.startswith("full")      # what is promised is not even a miss
        self.rng = random.Random(seed)
        self.model = Model()
        self.kills = self.hits = self.misses = self.requests = 0

    def batch(self, c):
        """Send several requests at once. Their answers promise durability only if the policy does."""
        lines, notes = [], []
        for key in self.rng.sample(sorted(self.model.may), 20):
            kind = self.rng.random()
            if kind < 0.55:
                self.model.version += 1
                value = value_of(key, self.model.version)
                lines.append(b"ms %s %d\r\n%s\r\n" % (key, len(value), value))
                notes.append((key, self.model.version, None))
            elif kind < 0.65:
                self.model.version += 1
                value = value_of(key, self.model.version)
                lines.append(b"ms %s %d p30\r\n%s\r\n" % (key, len(value), value))
                notes.append((key, self.model.version, 0.03))
            elif kind < 0.9:
                lines.append(b"md %s\r\n" % key)
                notes.append((key, None, None))
            else:
                lines.append(b"mg %s p20\r\n" % key)     # ends soon, if it is there
                notes.append((key, self.model.may[key][-1][0], 0.02))
        for key, version, ttl in notes:     # each may have happened as soon as it is sent
            self.model.note(key, (version, ttl and float("inf")))
        c.send(b"".join(lines))
        answers = [c.line() for _ in lines]
        if None in answers or b"" in answers:
            raise ConnectionError
        now = time.time()
        for (key, version, ttl), answer in zip(notes, answers):
            if answer == b"EN":
                self.model.may[key][-1] = ABSENT
            elif ttl:
                self.model.may[key][-1] = (version, version and now + ttl)
        if self.is_answered_safe:
            self.model.promise(self.model.mark())
        self.requests += len(lines)

    def store_steady(self, c):
        values = {b"s%d" % n: value_of(b"s%d" % n, 0) for n in range(STEADY)}
        c.send(b"".join(b"ms %s %d\r\n%s\r\n" % (key, len(value), value) for key, value in values.items()))
        for _ in values:
            if c.line() != b"HD":
                raise ConnectionError
        if self.is_full and self.is_answered_safe:
            self.model.steady = {b"s%d" % n for n in range(STEADY)}

    def load(self, d):
        """Wait until the daemon has ended."""
        with d.operator() as c:
            if not self.model.steady:
                self.store_steady(c)
            while True:
                self.batch(c)
                kind = self.rng.random()
                if kind < 0.002:
                    self.model.flush_may_come()
                    if c.ask(b"flush_all") != b"OK":
                        raise ConnectionError
                    self.model.flushed()
                    self.store_steady(c)
                elif kind < 0.02:
                    mark = self.model.mark()
                    if c.ask(b"save") == b"OK":
                        self.model.promise(mark)
                        self.model.steady = {b"s%d" % n for n in range(STEADY)}
                elif self.is_logged and kind < 0.3:
                    mark = self.model.mark()
                    if figure(c, "aof_pending_bytes") == 0:
                        self.model.promise(mark)

    def look(self, c):
        """The restored states, which become the present ones."""
        for key, states in self.model.may.items():
            asked = time.time() - 0.05
            value = c.get(key)
            fits = allowed(states, value, asked)
            if value is None:
                self.misses += 1
                assert not self.is_full or fits, \
                    "%r is missing after kill %d, and may have %r" % (key, self.kills, states)
            else:
                self.hits += 1
                assert is_whole(key, value), (key, value)
                assert fits, "%r has %r after kill %d, and may have %r" % (key, value[:60], self.kills, states)
            self.model.may[key] = left_of(value, fits)
        # Of keys a few may be taken for changed ones (lib/log/keyset.h).
        lost = [key for key in self.model.steady if c.get(key) is None]
        assert len(lost) <= (0 if self.is_full else STEADY / 20), "kill %d has lost %r" % (self.kills, lost)

    def run(self, kills):
        with kept() as k:
            for self.kills in range(kills + 1):
                options = [o for each in self.options for o in ("-o", each)]
                with k.daemon(*options) as d:
                    with d.operator() as c:
                        self.look(c)
                    if self.kills == kills:
                        return
                    killer = threading.Timer(self.rng.uniform(0.02, 0.4), d.process.kill)
                    killer.start()
                    try:
                        self.load(d)
                    except (OSError, EOFError, ConnectionError, AssertionError) as why:
                        if d.process.poll() is None:
                            killer.join()
                        d.process.wait(mayfly.PATIENCE)
                        assert not isinstance(why, AssertionError) or d.process.returncode == -9, why
                    killer.join()
                    assert d.process.returncode == -9, d.process.returncode
