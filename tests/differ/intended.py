# SPDX-License-Identifier: BSD-3-Clause
"""Where mayflyd is meant to answer something else than Debian's memcached 1.6.18.

One row per difference: what is sent, what each answers, and why. differ.py checks both sides, so
a row that no longer holds is noticed; None stands for an answer that varies. Versions (mayflyd
says 1.6.45, the level of the protocol that it speaks) and cas numbers are replaced before.
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
        "what was executed is answered before the connection closes",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\n" + b"x" * 20000,
        b"",
        b"STORED\r\n",
        "what was executed is answered before the connection closes",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\nset b 0 0 2000000\r\nx",
        b"",
        b"STORED\r\nSERVER_ERROR object too large for cache\r\n",
        "what was executed is answered before the connection closes",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\nget a " + b"k" * 251 + b"\r\nget a\r\n",
        BAD_FORMAT + HIT + b"END\r\n",
        b"STORED\r\n" + BAD_FORMAT + HIT + b"END\r\n",
        "a wrong key in a get takes back no answer to an earlier command",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\nget" + b" a" * 70000 + b"\r\n",
        None,
        b"STORED\r\n" + HIT * 70000 + b"END\r\n",
        "a key can be named any number of times; memcached runs out of references to the item",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\nwatch foo\r\n",
        b"STORED\r\nERROR cannot pipeline other commands before watch\r\n",
        b"STORED\r\nERROR\r\n",
        "whether answers are still waiting makes no difference to watch",
    ),
    Difference(
        b"set a 0 0 2\r\n5\0\r\nincr a 1\r\n",
        b"STORED\r\n6\r\n",
        b"STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        "NUL is no digit and no space: the value is no number",
    ),
    Difference(
        b"set a 4294967296 0 1\r\nx\r\nget a\r\n",
        b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
        BAD_FORMAT + b"ERROR\r\nEND\r\n",
        "flags over 32 bits are refused, not cut",
    ),
    Difference(
        b"set a -18446744073709551615 0 1\r\nx\r\nget a\r\n",
        b"STORED\r\nVALUE a 1 1\r\nx\r\nEND\r\n",
        BAD_FORMAT + b"ERROR\r\nEND\r\n",
        "a negative number is none of the unsigned ones, also where it wraps around to one",
    ),
    Difference(
        b"set a 0 0 1\r\n5\r\nincr a -18446744073709551615\r\n",
        b"STORED\r\n6\r\n",
        b"STORED\r\nCLIENT_ERROR invalid numeric delta argument\r\n",
        "a negative number is none of the unsigned ones, also where it wraps around to one",
    ),
    Difference(
        b"set a 0 0 4294967296\r\nversion\r\n",
        b"CLIENT_ERROR bad data chunk\r\nERROR\r\n",
        BAD_FORMAT + b"VERSION <version>\r\n",
        "a length over 32 bits is refused, not cut",
    ),
    Difference(
        b"set a 0 2147483648 1\r\nx\r\nget a\r\n",
        b"STORED\r\nEND\r\n",
        b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
        "times are 64 bits wide: 2038 and later are in the future",
    ),
    Difference(
        b"set a\0b 0 0 1\r\nx\r\nget a\r\nget a\0b\r\n",
        b"ERROR\r\nERROR\r\nEND\r\nEND\r\n",
        b"STORED\r\nEND\r\nVALUE a\0b 0 1\r\nx\r\nEND\r\n",
        "NUL is a byte of the key; it does not end the line, and no key stands for another",
    ),
    Difference(
        b"set b 0 0 1\r\nx\r\ndelete b\0c\r\nget b\r\n",
        b"STORED\r\nDELETED\r\nEND\r\n",
        b"STORED\r\nNOT_FOUND\r\nVALUE b 0 1\r\nx\r\nEND\r\n",
        "NUL is a byte of the key; it does not end the line, and no key stands for another",
    ),
    Difference(
        b"trace / HTTP/1.1\r\nversion\r\n",
        b"ERROR\r\nVERSION <version>\r\n",
        b"",
        "HTTP closes whatever the method's first letter is",
    ),
    Difference(
        b"PUT " + b"a " * 30 + b"HTTP/1.1\r\nversion\r\n",
        b"ERROR\r\nVERSION <version>\r\n",
        b"",
        "HTTP closes however many words the line has",
    ),
    Difference(
        b"gat 0 a" + b" b" * 10000 + b"\r\nversion\r\n",
        b"",
        b"END\r\nVERSION <version>\r\n",
        "gat takes as many keys as get",
    ),
]
