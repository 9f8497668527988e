# SPDX-License-Identifier: BSD-3-Clause
"""Intended differences between the answers of mayflyd and of memcached 1.6.45.

One row per difference: what is sent, what each answers, and why. differ.py checks both sides, so
a row that no longer holds is noticed; None stands for an answer that varies. The side of memcached
is checked where the one that runs answers as 1.6.45 does (recorded.py). Versions (mayflyd says
1.6.45, the level of the protocol that it speaks) and cas numbers are replaced before.

One more is taken out of the answers by differ.py: after a key of a get that is too long 1.6.45 sends
an empty line behind the error.
"""

import collections

Difference = collections.namedtuple("Difference", "sent peer ours reason")

BAD_FORMAT = b"CLIENT_ERROR bad command line format\r\n"

HIT = b"VALUE a 0 1\r\nx\r\n"

DIFFERENCES = [
    Difference(
        b"set a 0 0 1\r\nx\r\nGET / HTTP/1.1\r\nget a\r\n",
        b"",
        b"STORED\r\n",
        "executed commands are answered before the connection closes",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\n" + b"x" * 20000,
        b"",
        b"STORED\r\n",
        "executed commands are answered before the connection closes",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\nset b 0 0 2000000\r\nx",
        b"",
        b"STORED\r\nSERVER_ERROR object too large for cache\r\n",
        "executed commands are answered before the connection closes",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\nget a " + b"k" * 251 + b"\r\nget a\r\n",
        BAD_FORMAT + HIT + b"END\r\n",
        b"STORED\r\n" + BAD_FORMAT + HIT + b"END\r\n",
        "a wrong key in a get does not discard answers to earlier commands",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\nget" + b" a" * 70000 + b"\r\n",
        None,
        b"STORED\r\n" + HIT * 70000 + b"END\r\n",
        "a key can be named any number of times; memcached runs out of references to the item",
    ),
    Difference(
        b"set a 0 0 60000\r\n" + b"0" * 60000 + b"\r\nincr a 1\r\n",
        b"STORED\r\n1\r\n",
        b"STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        "a large value is not a number, even if it begins with zeros",
    ),
    Difference(
        b"set a 0 0 2\r\n5\0\r\nincr a 1\r\n",
        b"STORED\r\n6\r\n",
        b"STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        "NUL is neither a digit nor a space, so the value is not a number",
    ),
    Difference(
        b"set a 4294967296 0 1\r\nx\r\nget a\r\n",
        b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
        BAD_FORMAT + b"END\r\n",
        "flags over 32 bits are refused, not truncated",
    ),
    Difference(
        b"set a -18446744073709551615 0 1\r\nx\r\nget a\r\n",
        b"STORED\r\nVALUE a 1 1\r\nx\r\nEND\r\n",
        BAD_FORMAT + b"END\r\n",
        "a negative number is never accepted as an unsigned one, even if it would wrap to one",
    ),
    Difference(
        b"set a 0 2147483648 1\r\nx\r\nget a\r\n",
        b"STORED\r\nEND\r\n",
        b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
        "times are 64 bits wide: 2038 and later are in the future",
    ),
    Difference(
        b"PUT " + b"a " * 30 + b"HTTP/1.1\r\nversion\r\n",
        b"ERROR\r\nVERSION <version>\r\n",
        b"",
        "a line with HTTP closes the connection, whatever its number of words",
    ),
    Difference(
        b"gat 0 a" + b" b" * 10000 + b"\r\nversion\r\n",
        b"",
        b"END\r\nVERSION <version>\r\n",
        "gat accepts as many keys as get",
    ),
    Difference(
        b"ms a 1\r\nx\r\nmg YQ== b k\r\nms YWI= 1 b\r\nx\r\nmg ab k\r\n",
        b"HD\r\nHD ka\r\nHD\r\nHD kYWI= b\r\n",
        b"HD\r\nHD kYQ== b\r\nHD\r\nHD kab\r\n",
        "k returns the key as this client sent it, not as the storing client did",
    ),
    Difference(
        b"mg YQ==YQ== b k\r\nmg Y=Q= b k\r\nmg YQ=Q b k\r\n",
        b"EN kYQ== b\r\nEN kYA== b\r\nEN kYQA= b\r\n",
        b"CLIENT_ERROR error decoding key\r\n" * 3,
        "padding in the middle is not valid base64",
    ),
    Difference(
        b"ms a 1\r\nx\r\nmg a T-1 t\r\nmg zz N-1 t\r\nma n N-1 t\r\n",
        None,
        b"HD\r\nHD t<0>\r\nHD t<0> W\r\nHD t<0>\r\n",
        "the remaining TTL of an expired item is 0; memcached shows a negative number as unsigned",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\n  get  a\r\n mg a v\r\n mn\r\n set  a  0  0  1\r\nx\r\n",
        b"STORED\r\n" + b"ERROR\r\n" * 4 + BAD_FORMAT,
        b"STORED\r\n" + HIT + b"END\r\nVA 1\r\nx\r\nMN\r\nSTORED\r\n",
        "spaces before a command are ignored, as in earlier versions of memcached",
    ),
    Difference(
        b"   \r\n     \r\n",
        b"ERROR\r\n" * 2,
        BAD_FORMAT * 2,
        "a line of spaces is answered like an empty one",
    ),
    Difference(
        b"mn\n",
        BAD_FORMAT,
        b"MN\r\n",
        "mn may end in a bare line feed, like every other command",
    ),
    Difference(
        b"set noreply 0 0 1\r\nx\r\ndelete noreply\r\n",
        b"STORED\r\n",
        b"STORED\r\nDELETED\r\n",
        "a key is not interpreted as an option",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\nset b x 0 2000000\r\nx",
        b"",
        b"STORED\r\n" + BAD_FORMAT,
        "executed commands are answered before the connection closes",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\nms a 8 !\r\nmd a q\r\n\r\nmg a v\r\n",
        None,
        b"STORED\r\n" + BAD_FORMAT + b"VA 1\r\nx\r\n",
        "the value of an ms is never run as a command, whatever is wrong in its line",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\nme YQ== b\r\n",
        b"STORED\r\nEN\r\n",
        b"STORED\r\nME YQ== exp=-1\r\n",
        "me accepts the b flag without a further argument",
    ),
    Difference(
        b"set a 0 0 00000000000000000001\r\nx\r\ntouch a 00000000000000000001\r\n",
        BAD_FORMAT * 2 + b"CLIENT_ERROR invalid exptime argument\r\n",
        b"STORED\r\nTOUCHED\r\n",
        "a number may have any number of leading zeros",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\ntouch a -\r\n",
        b"STORED\r\nTOUCHED\r\n",
        b"STORED\r\nCLIENT_ERROR invalid exptime argument\r\n",
        "a sign alone is not a number",
    ),
]
