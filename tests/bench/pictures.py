# SPDX-License-Identifier: BSD-3-Clause
"""What the pictures of docs/ share: colours, gnuplot, and the words for readers who do not see them."""
import os
import re
import shutil
import subprocess
import xml.sax.saxutils

COLOURS = {"mayflyd": "#0b7a75", "memcached": "#c8553d", "redis": "#6d597a", "valkey": "#e09f3e"}


def gnuplot():
    """The program ($GNUPLOT, by default the one on the PATH), or None."""
    return shutil.which(os.environ.get("GNUPLOT", "gnuplot"))


def opening(width, height, title, text, more=""):
    """The beginning of an SVG whose title and text alternative are these."""
    return ("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"title desc\" viewBox=\"0 0 %g %g\" "
            "width=\"%g\" height=\"%g\"%s>\n%s" % (width, height, width, height, more, words(title, text)))


def words(title, text):
    return "<title id=\"title\">%s</title>\n<desc id=\"desc\">%s</desc>" % (
        xml.sax.saxutils.escape(title), xml.sax.saxutils.escape(text))


def draw(script, title, text):
    """The SVG that gnuplot makes of a script, with this title and text alternative instead of its own."""
    svg = subprocess.run([gnuplot()], input=script.encode(), stdout=subprocess.PIPE, check=True).stdout.decode()
    svg, n = re.subn(r"<title>Gnuplot</title>\s*<desc>.*?</desc>", lambda _: words(title, text), svg, count=1, flags=re.S)
    assert n == 1, "gnuplot writes another title by now"
    # Browsers show these when the pointer rests on a curve: its name, or nothing.
    svg = re.sub(r"<title>[^<]*(?:gnuplot_plot|\$|using )[^<]*</title>", "", svg)
    return re.sub(r"<svg\b", "<svg role=\"img\" aria-labelledby=\"title desc\"", svg, count=1)
