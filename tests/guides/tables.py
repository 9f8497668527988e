#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tables.py [--write] - the tables of docs/migrating-from-memcached.md.

The names that mayflyd knows are read from the tables of its source: options.def, compat.def, counters.def
and the lines of stats_general.c. Those that memcached knows, and the remarks, are in this file. A name that
is in neither place is an error, so no flag and no line of `stats` can be forgotten.

Without --write it compares, and ends with 1 if the page is stale.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGE = os.path.join(TREE, "docs", "migrating-from-memcached.md")


def read(*path):
    with open(os.path.join(TREE, *path)) as f:
        return f.read()


# ---- what memcached has --------------------------------------------------------------------------

# Letter and long name, in the order of its source; - for names that only -o knows.
FLAGS = """p:port U:udp-port s:unix-socket a:unix-mask A:enable-shutdown l:listen d:daemon
    r:enable-coredumps u:user m:memory-limit M:disable-evictions c:conn-limit k:lock-memory v:verbose
    P:pidfile f:slab-growth-factor n:slab-min-size L:enable-largepages D:prefix-delimiter t:threads
    R:max-reqs-per-event C:disable-cas b:listen-backlog B:protocol I:max-item-size S:enable-sasl
    F:disable-flush-all X:disable-dumping W:disable-watch Y:auth-file e:memory-file Z:enable-ssl
    N:napi-ids""".split()

# Without the forms that begin with no_ where the other form is there as well.
EXTENDED = """maxconns_fast hashpower no_hashexpand slab_reassign slab_automove slab_automove_ratio
    slab_automove_window slab_automove_freeratio tail_repair_time hash_algorithm lru_crawler
    lru_crawler_sleep lru_crawler_tocrawl lru_maintainer hot_lru_pct warm_lru_pct hot_max_factor
    warm_max_factor temporary_ttl idle_timeout watcher_logbuf_size worker_logbuf_size slab_sizes
    slab_chunk_max track_sizes no_inline_ascii_resp inline_ascii_resp modern no_modern
    no_chunked_items drop_privileges relaxed_privileges resp_obj_mem_limit
    read_buf_mem_limit ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat ssl_ciphers ssl_ca_cert
    ssl_wbuf_size ssl_session_cache ssl_kernel_tls ssl_min_version sock_cookie_id ext_path
    ext_page_size ext_wbuf_size ext_threads ext_io_depth ext_item_size ext_item_age ext_low_ttl
    ext_recache_rate ext_compact_under ext_drop_under ext_max_sleep ext_max_frag ext_drop_unread
    proxy_config proxy_arg proxy_uring proxy_memprofile""".split()

# Not in Debian's 1.6.18: newer, or of a build with the proxy or for its own tests.
NOT_IN_DEBIAN = "proxy_config proxy_arg proxy_uring proxy_memprofile relaxed_privileges".split()

# The lines of its `stats`, of 1.6.45, and those that only some settings show.
STATS = """pid uptime time version libevent pointer_size rusage_user rusage_system max_connections
    curr_connections total_connections rejected_connections connection_structures response_obj_oom
    response_obj_count response_obj_bytes read_buf_count read_buf_bytes read_buf_bytes_free
    read_buf_oom reserved_fds cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses
    get_expired get_flushed delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits
    cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large store_no_memory auth_cmds
    auth_errors idle_kicks bytes_read bytes_written limit_maxbytes accepting_conns
    listen_disabled_num time_in_listen_disabled_us threads conn_yields hash_power_level hash_bytes
    hash_is_expanding slab_reassign_rescues slab_reassign_chunk_rescues slab_reassign_inline_reclaim
    slab_reassign_busy_items slab_reassign_busy_deletes slab_reassign_busy_nomem
    slab_reassign_last_busy_status slab_reassign_running slabs_moved lru_crawler_running
    lru_crawler_starts lru_maintainer_juggles malloc_fails log_worker_dropped log_worker_written
    log_watcher_skipped log_watcher_sent log_watchers unexpected_napi_ids round_robin_fallback bytes
    curr_items total_items slab_global_page_pool expired_unfetched evicted_unfetched evicted_active
    evictions reclaimed crawler_reclaimed crawler_items_checked lrutail_reflocked moves_to_cold
    moves_to_warm moves_within_lru direct_reclaims lru_bumps_dropped ssl_new_sessions
    ssl_handshake_errors ssl_proto_errors time_since_server_cert_refresh""".split()

# Lines of 1.6.18 that 1.6.45 has no more; mayflyd follows 1.6.45.
STATS_GONE = ("slab_reassign_evictions_nomem",)

# ---- remarks -------------------------------------------------------------------------------------

SLABS = "there are no slab classes: any item can take any memory"
LRU = "eviction works differently (`maxmemory_policy`), without hot, warm and cold queues"

# name -> how it differs. A remark that begins with "same" is one beside the same behaviour.
REMARKS = {
    "port": "same; -1 takes any free port and writes it to `$MEMCACHED_PORT_FILENAME`, as in memcached",
    "udp_port": "replies to other machines have at most `udp_reply_max` bytes (256), so that forged requests "
                "cannot be used for amplification; commands of operators are not served over UDP",
    "listen": "without it mayflyd listens on the loopback addresses only, and memcached on all. The prefixes "
              "`notls:`, `proto[x]:` and `tag[y]:` of 1.6.45 are supported",
    "daemon": "the command returns when the server is ready, or with its exit status if it cannot start",
    "enable_coredumps": "without it no core file is written, whatever limit the shell has set, and no debugger can attach",
    "memory_limit": "counts everything that grows with the data, including the index; see [Memory](#memory). "
                    "The minimum is twice `-I`, as in memcached",
    "disable_evictions": "same; also named `-o maxmemory_policy=noeviction`",
    "conn_limit": "same; in addition there are `-o admin_conns` connections over the unix socket if there is TCP too, and "
                  "`-o replica_conns` for replicas, because of which a refusal may come with the first command",
    "lock_memory": "locks memory when it is first used; memcached locks all at once. "
                   "With `-o lock_memory_required` the server does not start if that fails",
    "verbose": "logs what the server does, never what clients send; use `watch` for that",
    "pidfile": "written with and without `-d`",
    "threads": "same, but at most 512; the data has as many shards, unless `-m` is small",
    "max_reqs_per_event": "same; a turn is also limited by its work (`mayfly_conn_deferrals`)",
    "enable_sasl": "same; not together with `-Y`",
    "auth_file": "not experimental: `-o auth_timeout` and five failures close a connection, SIGHUP reads the file "
                 "again, and clients whose user was removed are disconnected",
    "memory_file": "same; every clean stop keeps the items, not only SIGUSR1, and `-m`, `-I` and more `-t` may "
                   "change. memcached's own file is not read",
    "max_item_size": "same; without the errors about chunks and pages",
    "hashpower": "a hint that `-m` limits; the index grows and shrinks in small steps anyway",
    "lru_crawler": "turns the background search for expired keys on and off; it finds keys at their "
                   "deadline without a pass over all items",
    "read_buf_mem_limit": "0 means 24 MB, and no limit in memcached; connections that keep most and make no progress are closed",
    "unix_socket": "same; `-o listen_both` keeps TCP beside it",
    "ssl_keyformat": "1 is PEM, 2 is DER; engines are not loaded",
    "ssl_wbuf_size": "a buffer for each worker; memcached has one for each connection",
    "ssl_session_cache": "same; clients that resume with tickets need no cache",
    "drop_privileges": "a forbidden call ends the process, as in memcached, after a line that names it; access to files is "
                       "limited as well if the kernel has Landlock",
    "enable_ssl": "same; SIGHUP and `refresh_certs` load new certificates on a thread of its own",
    "disable_dumping": "same; as in 1.6.45 `stats cachedump` and `stats detail` are refused as well",
    # Those without effect whose row in options.def only says what memcached does.
    "slab_growth_factor": SLABS, "slab_min_size": SLABS, "slab_reassign": SLABS, "slab_automove": SLABS,
    "slab_automove_ratio": SLABS, "slab_automove_window": SLABS, "slab_automove_freeratio": SLABS,
    "slab_chunk_max": SLABS, "slab_sizes": SLABS, "no_chunked_items": SLABS,
    "lru_maintainer": LRU, "hot_lru_pct": LRU, "warm_lru_pct": LRU, "hot_max_factor": LRU,
    "warm_max_factor": LRU,
    "temporary_ttl": "all expired items are removed at their deadline, so those with a short time to live need no queue "
                     "of their own",
    "lru_crawler_sleep": "`expire_effort` and `expire_cpu_pct` say how hard the search tries",
    "lru_crawler_tocrawl": "`expire_effort` and `expire_cpu_pct` say how hard the search tries",
    "tail_repair_time": "nothing leaks references to items",
    "hash_algorithm": "the hash is keyed, so that clients cannot choose keys that collide",
    "napi_ids": "workers do not depend on NAPI ids",
}

# Features that are refused, and what to do instead.
INSTEAD = {
    "external storage": "values stay in memory; keep those machines on memcached",
    "proxy": "use twemproxy, mcrouter, or a memcached that is only a proxy",
}

STAT_REMARKS = {
    "version": "`1.6.45`, the version of the protocol; mayfly's own is `mayfly_version`",
    "libevent": "the version of libuv",
    "connection_structures": "open connections and listening sockets; closed ones keep no structure",
    "response_obj_bytes": "replies that wait to be sent, of all connections",
    "read_buf_count": "the number of workers: each has one buffer",
    "read_buf_bytes": "these buffers, and the unfinished requests that connections keep",
    "limit_maxbytes": "the limit of everything that grows with the data, not of item pages",
    "bytes": "header, key and value of items, as in memcached; the header is smaller",
    "hash_power_level": "of all shards together",
    "hash_bytes": "of all shards together; counted within `limit_maxbytes`",
    "lru_crawler_starts": "cycles of the search for expired keys, several a second",
    "crawler_reclaimed": "items found by this search",
    "crawler_items_checked": "items examined by this search",
    "reclaimed": "all expired and flushed items whose memory can be used again; memcached counts those "
                 "whose memory a store took",
    "slab_global_page_pool": "free segments of memory",
    "moves_to_warm": "items promoted because they were hit",
    "moves_within_lru": "items kept for another round because they were hit",
    "direct_reclaims": "stores that had to make room beyond their share",
    "conn_yields": "as in memcached; see also `mayfly_conn_deferrals`",
    "get_expired": "as in memcached, to the millisecond",
    "malloc_fails": "stores without room count in `store_no_memory`",
    "log_worker_written": "events for watchers",
}
ZERO_REMARKS = [
    (r"slab", "there are no slab pages to move"),
    (r"lru_crawler_running", "the search for expired keys runs continuously, in small slices"),
    (r"lru_|lrutail_|moves_to_cold", "there are no such queues"),
    (r"napi|round_robin", "workers do not depend on NAPI ids"),
    (r"response_obj_count|read_buf_bytes_free", "there is no such pool"),
]


# ---- what mayflyd has ----------------------------------------------------------------------------

def columns(row):
    """The columns of a row of a table of the source."""
    return [c.strip() for c in re.findall(r'(?:"(?:[^"\\]|\\.)*"|\'.\'|\([^)]*\)|[^,"])+', row)]


def rows_of(text, macro):
    for row in re.findall(r"^%s\((.*?)\)$" % macro, text, re.M | re.S):
        yield columns(re.sub(r"\s*\n\s*", " ", row))


def text_of(column):
    return column.strip('"')


def norm(name):
    return name.replace("-", "_")


def options():
    """name -> (verdict, what the table says) of all that the command line knows."""
    known = {}
    own = {}
    for name, macro in (("daemon/options/options.def", "OPT"), ("lib/base/engine_options.def", "ENGINE_OPT")):
        for c in rows_of(read(*name.split("/")), macro):
            if c[0] == "kind":
                continue
            own[c[1]] = norm(text_of(c[3]))
            known[norm(text_of(c[3]))] = ("no effect" if "OPT_IGNORED" in c[9] else "works", text_of(c[12]))
    compat = read("daemon", "options", "compat.def")
    for c in rows_of(compat, "ALIAS"):
        known[norm(text_of(c[0]))] = ("works", known[own[c[1]]][1])
    for c in rows_of(compat, "TAKEN"):
        known[norm(text_of(c[2]))] = ("no effect", text_of(c[4]))
    for c in rows_of(compat, "REFUSED"):
        known[norm(text_of(c[1]))] = ("refused", text_of(c[3]))
    known.pop("", None)
    return known


def verdict(name, known):
    """(verdict, remark) of a flag of memcached."""
    if name not in known and known.get(name.removeprefix("no_"), ("",))[0] == "works":
        return "same", ""
    if name not in known:
        raise SystemExit("tables.py: mayflyd does not know memcached's " + name)
    what, text = known[name]
    remark = REMARKS.get(name, "")
    if what == "works":
        if remark.startswith("same"):
            return "same", remark[4:].lstrip(";, ")
        return ("differs", remark) if remark else ("same", "")
    if what == "no effect":
        return what, remark or text
    return what, "%s: %s" % (text, INSTEAD.get(text, "not in this build"))


def markdown(head, rows):
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return out + ["| " + " | ".join(r) + " |" for r in rows]


def merged(rows):
    """Names with the same verdict and remark in one row, at the place of the first."""
    found = {}
    for name, what, remark in rows:
        found.setdefault((what, remark), []).append(name)
    return [(", ".join(names), what, remark) for (what, remark), names in found.items()]


def flags_table():
    known = options()
    rows = [("`-h`, `-i`, `-V`", "same", "`--print-config` and `--check-config` are new")]
    for flag in FLAGS:
        letter, name = flag.split(":")
        rows.append(("`-%s` `--%s`" % (letter, name), *verdict(norm(name), known)))
    return markdown(("flag", "here", "what to know"), merged(rows))


def extended_table():
    known = options()
    return markdown(("`-o`", "here", "what to know"),
                    merged([("`%s`" % name, *verdict(name, known)) for name in EXTENDED]))


def stat_lines():
    """name -> counter, computed or zero: the lines of `stats`."""
    found = {}
    for c in rows_of(read("lib", "base", "counters.def"), "CTR"):
        if c[0] != "kind" and "IN_STATS" in c[4]:
            found[text_of(c[3])] = "counter"
    for c in rows_of(read("daemon", "stats", "stats_lines.def"), "GENERAL"):
        if c[0] != "before":
            found[text_of(c[1])] = "zero" if c[4] == "0" else "computed"
    return found


def zero_remark(name):
    if name in STAT_REMARKS:
        return STAT_REMARKS[name]
    for pattern, remark in ZERO_REMARKS:
        if re.search(pattern, name):
            return remark
    raise SystemExit("tables.py: why is %s always 0?" % name)


def stats_table():
    known = stat_lines()
    missing = [n for n in STATS if n not in known]
    own = [n for n in known if n not in STATS and not n.startswith("mayfly_")]
    if missing or own:
        raise SystemExit("tables.py: lines of stats that are missing: %s, not memcached's: %s" % (missing, own))
    rows = []
    for name in STATS:
        if known[name] == "zero":
            rows.append(("`%s`" % name, "always 0", zero_remark(name)))
        elif name in STAT_REMARKS:
            rows.append(("`%s`" % name, "other meaning", STAT_REMARKS[name]))
        else:
            rows.append(("`%s`" % name, "same", ""))
    return markdown(("line", "here", "what to know"), merged(rows))


def intended_table():
    """What differs from memcached 1.6.45 in answers: from the list that the comparison checks."""
    sys.path.insert(0, os.path.join(TREE, "tests", "differ"))
    import intended                     # pylint: disable=import-outside-toplevel
    seen = dict.fromkeys(d.reason for d in intended.DIFFERENCES)
    return ["* " + reason[0].upper() + reason[1:] + "." for reason in seen]


TABLES = {"flags": flags_table, "extended": extended_table, "stats": stats_table, "answers": intended_table}


# ---- the page ------------------------------------------------------------------------------------

def filled(page):
    for name, make in TABLES.items():
        mark = r"(<!-- %s: made by tests/guides/tables.py -->\n).*?(<!-- end of %s -->)" % (name, name)
        page, count = re.subn(mark, lambda m, f=make: m[1] + "\n".join(f()) + "\n" + m[2], page, flags=re.S)
        if count != 1:
            raise SystemExit("tables.py: the page has no place for " + name)
    return page


def main():
    old = read("docs", "migrating-from-memcached.md")
    new = filled(old)
    if "--write" in sys.argv[1:]:
        if new != old:
            with open(PAGE + ".tmp", "w") as f:
                f.write(new)
            os.replace(PAGE + ".tmp", PAGE)
    elif new != old:
        raise SystemExit("docs/migrating-from-memcached.md is stale: run make docs")


if __name__ == "__main__":
    main()
