# SPDX-License-Identifier: BSD-3-Clause
"""Intended differences between the answers of mayflyd and of Debian's memcached 1.6.18.

One row per difference: what is sent, what each answers, and why. differ.py checks both sides, so
a row that no longer holds is noticed; None stands for an answer that varies. Versions (mayflyd
says 1.6.45, the level of the protocol that it speaks) and cas numbers are replaced before.
"""

import collections

Difference = collections.namedtuple("Difference", "sent peer ours reason")

BAD_FORMAT = b"CLIENT_ERROR bad command line format\r\n"

HIT = b"VALUE a 0 1\r\nx\r\n"

# One flag more than a meta command may have.
MANY_FLAGS = b"v c f h k l s t u q O1 P L N0 R0 T0 C1 D1"
TOO_MANY = b"CLIENT_ERROR options flags too long\r\n"

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
        b"set a 0 0 60000\r\n" + b"0" * 60000 + b"\r\nincr a 1\r\n",
        b"STORED\r\n1\r\n",
        b"STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        "a large value is no number, whatever zeros it begins with",
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
    Difference(
        b"ms a 1\r\nx\r\nmg a x E5 v\r\n",
        b"HD\r\nCLIENT_ERROR invalid flag\r\n",
        b"HD\r\nVA 1\r\nx\r\n",
        "1.6.45 knows x and E",
    ),
    Difference(
        b"ms a 1 E77\r\nx\r\nms a 1 C77 E78\r\ny\r\nma n N0 E9\r\n",
        b"CLIENT_ERROR invalid flag\r\n" * 2 + b"CLIENT_ERROR invalid or duplicate flag\r\n",
        b"HD\r\nHD\r\nHD\r\n",
        "1.6.45 takes a new cas with E",
    ),
    Difference(
        b"ms a 1 F5\r\nx\r\nmd a x\r\nmg a v f\r\n",
        b"HD\r\nCLIENT_ERROR invalid or duplicate flag\r\nVA 1 f5\r\nx\r\n",
        b"HD\r\nHD\r\nVA 0 f0\r\n\r\n",
        "1.6.45 drops the value and keeps the item with x",
    ),
    Difference(
        b"ms a 1 s\r\nx\r\nms a 2 MA k s\r\nyz\r\n",
        b"HD\r\nHD ka\r\n",
        b"HD s1\r\nHD ka s3\r\n",
        "1.6.45 returns the size of what was stored",
    ),
    Difference(
        b"ms a 1 MA N0\r\nx\r\nmg a v\r\n",
        b"NS\r\nEN\r\n",
        b"HD\r\nVA 1\r\nx\r\n",
        "1.6.45 makes what append and prepend do not find with N",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\nms a 10 " + MANY_FLAGS + b"\r\ndelete a\r\n\r\nmg a v\r\n",
        b"STORED\r\n" + TOO_MANY + b"DELETED\r\nERROR\r\nEN\r\n",
        b"STORED\r\n" + TOO_MANY + b"VA 1\r\nx\r\n",
        "the value of an ms is no command, whatever was wrong in front of it",
    ),
    Difference(
        b"mg a \x80\r\n",
        b"CLIENT_ERROR duplicate flag\r\n",
        b"CLIENT_ERROR invalid flag\r\n",
        "a byte that is no letter is an invalid flag",
    ),
    Difference(
        b"ms a 1\r\nx\r\nmg YQ== b k\r\nms YWI= 1 b\r\nx\r\nmg ab k\r\n",
        b"HD\r\nHD ka\r\nHD\r\nHD kYWI= b\r\n",
        b"HD\r\nHD kYQ== b\r\nHD\r\nHD kab\r\n",
        "k returns the key as this client sent it, not as the one did who stored it",
    ),
    Difference(
        b"mg YQ==YQ== b k\r\nmg Y=Q= b k\r\nmg YQ=Q b k\r\n",
        b"EN kYQ== b\r\nEN kYA== b\r\nEN kYQA= b\r\n",
        b"CLIENT_ERROR error decoding key\r\n" * 3,
        "padding in the middle is no base64",
    ),
    Difference(
        b"ms a 1 F4294967296\r\nx\r\nmg a v\r\n",
        b"HD\r\nVA 1\r\nx\r\n",
        BAD_FORMAT + b"EN\r\n",
        "flags over 32 bits are refused, not cut",
    ),
    Difference(
        b"ms a 1 C-18446744073709551615\r\nx\r\n",
        b"NF\r\n",
        b"CLIENT_ERROR bad token in command line format\r\n",
        "a negative number is none of the unsigned ones, also where it wraps around to one",
    ),
    Difference(
        b"ms a 4294967297\r\nx\r\n",
        b"HD\r\n",
        BAD_FORMAT + b"ERROR\r\n",
        "a length over 32 bits is refused, not cut",
    ),
    Difference(
        b"ms a 1 T2147483648\r\nx\r\nmg a v\r\n",
        b"HD\r\nEN\r\n",
        b"HD\r\nVA 1\r\nx\r\n",
        "times are 64 bits wide: 2038 and later are in the future",
    ),
    Difference(
        b"ms a 1\r\nx\r\nmg a T-1 t\r\nmg zz N-1 t\r\nma n N-1 t\r\n",
        None,
        b"HD\r\nHD t<0>\r\nHD t<0> W\r\nHD t<0>\r\n",
        "of a time that is over nothing is left; memcached shows a negative number as unsigned",
    ),
    Difference(
        b"set a 0 0 1\r\nx\r\nmg a\0b v\r\nmg a v\r\n",
        None,
        b"STORED\r\nEN\r\nVA 1\r\nx\r\n",
        "NUL is a byte of the key; it does not end the line, and no key stands for another",
    ),
]
