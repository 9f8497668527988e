# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the source (*.def), for tests that are generated from them."""
import os
import re

TOP = os.environ.get("MAYFLY_SRCDIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def read(name):
    with open(os.path.join(TOP, name)) as f:
        return f.read()


def rows(name, kinds):
    """The rows of a table: the word before the parenthesis, then the columns between its outer commas."""
    found = []
    text = re.sub(r"/\*.*?\*/", "", read(name), flags=re.S)
    for row in re.finditer(r"^(?:%s)\(((?:\"(?:[^\"\\]|\\.)*\"|'.'|[^\"'()]|\([^()]*\))*)\)" % kinds, text, re.M):
        columns = re.findall(r"(?:\"(?:[^\"\\]|\\.)*\"|'.'|[^\"',()]|\([^()]*\))+", row.group(1))
        found.append([row.group(0).split("(")[0]] + [c.strip() for c in columns])
    assert found, name
    return found
