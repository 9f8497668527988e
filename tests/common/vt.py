# SPDX-License-Identifier: BSD-3-Clause
"""A screen as a terminal shows it: enough of xterm to follow what ncurses sends. For tests of programs
that draw, and for pictures of them."""
import re

TOKEN = re.compile(rb"\x1b\[([?>]?)([0-9;]*)([A-Za-z@`])|\x1b[()][A-Z0-9]|\x1b[=>78M]|\x1b\][^\x07]*\x07"
                   rb"|[\x00-\x1f\x7f]|[\x20-\x7e]|[\xc2-\xf4][\x80-\xbf]*|.", re.S)


class Screen:
    """rows x columns cells, each a character and its style: a set of 'bold', 'dim', 'reverse' and a colour
    such as '32'."""

    def __init__(self, rows=24, columns=80):
        self.rows, self.columns = rows, columns
        self.y = self.x = 0
        self.style = frozenset()
        self.last = " "
        self.cells = [self.blank() for _ in range(rows)]

    def blank(self):
        return [(" ", frozenset())] * self.columns

    def feed(self, data):
        for token in TOKEN.finditer(data):
            if token.group(3):
                if not token.group(1):
                    self.control(token.group(3).decode(), [int(n) if n else 0 for n in token.group(2).split(b";")])
            elif token.group()[0] >= 0x20 and token.group() != b"\x7f":
                self.put(token.group().decode("utf-8", "replace"))
            elif token.group() == b"\r":
                self.x = 0
            elif token.group() == b"\n":
                self.y = min(self.y + 1, self.rows - 1)
            elif token.group() == b"\b":
                self.x = max(self.x - 1, 0)
        return self

    def put(self, ch):
        if self.x >= self.columns:
            self.x, self.y = 0, min(self.y + 1, self.rows - 1)
        self.cells[self.y][self.x] = (ch, self.style)
        self.last = ch
        self.x += 1

    def erase(self, y, begin, end):
        for x in range(max(begin, 0), min(end, self.columns)):
            self.cells[y][x] = (" ", frozenset())

    def control(self, what, n):
        one = max(n[0], 1)
        if what in "Hf":
            self.y = min(one, self.rows) - 1
            self.x = min(max(n[1] if len(n) > 1 else 1, 1), self.columns) - 1
        elif what == "d":
            self.y = min(one, self.rows) - 1
        elif what in "G`":
            self.x = min(one, self.columns) - 1
        elif what == "A":
            self.y = max(self.y - one, 0)
        elif what == "B":
            self.y = min(self.y + one, self.rows - 1)
        elif what == "C":
            self.x = min(self.x + one, self.columns - 1)
        elif what == "D":
            self.x = max(self.x - one, 0)
        elif what == "K":
            self.erase(self.y, 0 if n[0] else self.x, self.x + 1 if n[0] == 1 else self.columns)
        elif what == "J":
            if n[0] == 0:
                self.erase(self.y, self.x, self.columns)
            for y in range(self.y + 1 if n[0] == 0 else 0, self.y if n[0] == 1 else self.rows):
                self.cells[y] = self.blank()
        elif what == "X":
            self.erase(self.y, self.x, self.x + one)
        elif what == "P":
            row = self.cells[self.y]
            self.cells[self.y] = (row[:self.x] + row[self.x + one:] + self.blank())[:self.columns]
        elif what == "@":
            row = self.cells[self.y]
            self.cells[self.y] = (row[:self.x] + self.blank()[:one] + row[self.x:])[:self.columns]
        elif what == "b":
            for _ in range(one):
                self.put(self.last)
        elif what in "LM":
            rows = self.cells
            if what == "L":
                rows = rows[:self.y] + [self.blank() for _ in range(one)] + rows[self.y:]
            else:
                rows = rows[:self.y] + rows[self.y + one:] + [self.blank() for _ in range(one)]
            self.cells = rows[:self.rows]
        elif what == "m":
            self.attributes(n)

    def attributes(self, numbers):
        names = {1: "bold", 2: "dim", 7: "reverse"}
        for n in numbers:
            if n == 0:
                self.style = frozenset()
            elif n in names:
                self.style |= {names[n]}
            elif 30 <= n <= 39:
                self.style = frozenset(s for s in self.style if not s.isdigit()) | ({str(n)} if n != 39 else set())

    def lines(self):
        return ["".join(ch for ch, _ in row).rstrip() for row in self.cells]
