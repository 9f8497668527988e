/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a request to its handler. A handler reads and writes the engine, and composes the reply
 * into the turn's output. It either completes its request and returns TURN_GOES_ON, or returns
 * the reason why not. Its prototype and its place in the dispatch come from the last column of
 * proto/command.def or proto/opcodes.def.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_H
#define MAYFLY_DAEMON_COMMAND_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/command/guard.h"
#include "daemon/command/turn.h"
#include "lib/base/context.h"
#include "lib/base/probes.h"
#include "lib/base/span.h"
#include "lib/store/store.h"
#include "proto/text_compose.h"

struct shipper_reader;

/*
 * Context: worker, in a turn. Those of CLASS_ADMIN and CLASS_BINARY_ADMIN are called outside of
 * its section, all others inside. exec_request() and exec_outside() check that.
 */
typedef enum turn_stop exec_handler(struct turn *t, const struct request *r);

#define COMMAND(id, text, cls, kind, needs, handler) exec_handler exec_##handler;
#include "proto/command.def"
#undef COMMAND
#define OPCODE(number, id, command, cls, quiet, extras, key, value, handler)                   \
    exec_handler exec_##handler;
#include "proto/opcodes.def"
#undef OPCODE

/* The handlers by enum command, and by opcode of the binary protocol. */
extern exec_handler *const exec_by_command[CMD_COUNT];
extern exec_handler *const exec_by_opcode[];

/*
 * Commands that must not run inside a section, or may take long there: the turn leaves its
 * section for them. Context: worker, in a turn.
 */
enum turn_stop exec_outside(struct turn *t, const struct request *r);

/* Execute one request. Context: worker, in a turn. */
static MF_INLINE enum turn_stop exec_request(struct turn *t, const struct request *r)
{
    must_be_in_turn(t);
    MF_PROBE3(request_start, r->command, r->key.ptr, r->key.len);
    if (MF_LIKELY(r->cls < CLASS_BINARY)) {
        return exec_by_command[r->command](t, r);
    }
    if (r->cls == CLASS_BINARY) {
        return exec_by_opcode[r->opcode](t, r);
    }
    return r->cls < CLASS_REFUSED ? exec_outside(t, r) : exec_refused(t, r);
}

/* Protocols. A way that several of them share is compiled for each. */
enum wire {
    WIRE_TEXT, /* without the meta commands */
    WIRE_META,
    WIRE_BIN,
};

static inline enum wire wire_of(const struct request *r)
{
    return request_is_binary(r) ? WIRE_BIN : r->cls == CLASS_META ? WIRE_META : WIRE_TEXT;
}

/* ---- functions that handlers share ------------------------------------------------------- */

/*
 * Answer r, any request except a store or a get, with an outcome in its protocol. TURN_WAITS
 * for OUT_WAIT, else TURN_GOES_ON. Context: worker, read side.
 */
enum turn_stop exec_answer(struct turn *t, const struct request *r, enum outcome outcome);

/*
 * Set the deadline of an item, count that, and report it to observers as a get by this command.
 * TOUCHED: *f has the item. NOT_FOUND NO_MEMORY WAIT. Context: worker, read side.
 */
enum outcome exec_touch_key(struct turn *t, uint64_t hash, struct span key, msec_t deadline,
                            const char *command, struct found *f);

/* After a value larger than this, in bytes, the connection expects more large values. */
#define EXEC_BULK_BYTES (192u * 1024)

/* The same for values that can be placed (body_place()): they are worth a separate read. */
#define EXEC_PLACE_BYTES (24u * 1024)

/*
 * Answer the keys of a get line and its END. When it stops early, t->rest has the keys that are
 * not answered (perhaps none, but ptr is set): call it again with them. r has the command.
 * Context: worker, read side.
 */
enum turn_stop exec_get_keys(struct turn *t, const struct request *r, struct span keys);

/* A storage command of any protocol whose value is in a body. Context: worker, read side. */
enum turn_stop exec_store_body(struct turn *t, const struct request *r, struct body **body);

/*
 * Place a body that has received nothing yet, so that its bytes go directly to the blocks of
 * the item that r makes: see body_place(). False: not possible now. Context: worker, read side.
 */
bool exec_place(struct turn *t, const struct request *r, struct body *b);

/*
 * A store ends without its value: count it (bad data, too large, no memory: by reply), drop
 * the old value where memcached does: not when memory ran out while the value was read.
 * Context: worker, read side.
 */
void exec_store_failed(struct turn *t, const struct request *r, enum reply why);

/* The deadline of T, or of p with a number; none without either. Context: worker, in a turn. */
msec_t exec_meta_deadline(const struct turn *t, const struct meta_flags *flags);

/* exec_store_failed(), and answer it in the protocol of r. Context: as above. */
void exec_store_refused(struct turn *t, const struct request *r, enum reply why);

/*
 * engine_store() for an add of a restoring connection. Between `restore begin [items]` and
 * `restore end`, items that the connection adds by meta commands are taken as older than those
 * in the engine: a key that was deleted, has expired or was evicted since the begin is not
 * stored, and after a flush nothing is (lib/engine/guarding.h). One connection at a time can
 * restore; closing it ends the restore. Context: worker, read side.
 */
enum outcome restore_store(struct turn *t, struct store *s);

/*
 * `save -`: send a snapshot to the client, in the format of a file (lib/format/format.h). The
 * answer consists of portions, each "PART <n>", a line end and n bytes. The last line is END
 * with the number of items; or an error, and then the snapshot is incomplete. sync sends
 * everything to a replica in the same way. Context: worker, outside a section.
 */
enum turn_stop exec_export(struct turn *t, const struct request *r);

/* ---- dump.c ------------------------------------------------------------------------------ */

/*
 * `lru_crawler metadump`, `mgdump` and `stats cachedump`: a line for every item. A dump is a
 * position in a walk over all shards, followed by passes over the slots that moved meanwhile.
 * No thread waits for it, so any number of dumps may run at a time. Each slice of the client's
 * task composes some lines, but only when the client has read the previous ones.
 */

/*
 * Begin this dump, unless the server is a replica that is out of sync. Context: worker, outside
 * a section.
 */
enum turn_stop dump_begin(struct turn *t, const struct request *r, const struct dump *d);

/*
 * Compose the next lines: for one slice of a task (worker.h), until there are about 16 KiB, or
 * until the socket is full. An item that exists from the first slice to the last is listed at
 * least once, and exactly once if no index is resized and no slot moves. TURN_QUEUES: the dump
 * continues; TURN_GOES_ON: it is complete, with its last line. Context: worker, read side.
 */
enum turn_stop dump_go_on(struct turn *t, struct dump *d);

/* ---- config_words.c ---------------------------------------------------------------------- */

/*
 * The words of a `config` command. Blanks separate them; a word in double quotes may have
 * blanks, and is written as in a configuration file: within the quotes \" \\ and \xHH stand for
 * a character.
 */

#define CONFIG_WORDS_MAX 260u
#define CONFIG_TEXT_MAX  2048u

struct config_words {
    unsigned count;
    const char *word[CONFIG_WORDS_MAX]; /* [borrowed] of text, each ended by NUL */
    char text[CONFIG_TEXT_MAX];
};

/* Join the word at this index and the next one, with a blank between. Context: any thread. */
void config_words_join(struct config_words *w, unsigned at);

/* Split a line into words. Returns NULL, or an error message. Context: any thread. */
const char *config_words_split(struct config_words *w, struct span line);

/* ---- exec_config.c ----------------------------------------------------------------------- */

/*
 * `config`: the options of the running server.
 */

/*
 * Execute `config set` or `config reset`, completely or not at all, and log it. args: the words
 * of the command after `config`, with noreply if that was one. Writes the answer to out, whose
 * length is returned; 0 if noreply. Context: worker or main, as live_is_for_main() says of the
 * options, outside a read-side section.
 */
size_t exec_config_change(struct crew *crew, struct span args, bool noreply,
                          char out[TEXT_REPLY_MAX]);

/* ---- exec_replication.c ------------------------------------------------------------------ */

/*
 * Commands of replication: those of a replica to its primary (psync, sync, replconf), of an
 * operator (replicaof, promote, failover, role), and of clients (wait). See
 * daemon/replica/replication.h.
 *
 *     psync VERSIONS EPOCH ID OFFSET RUN WHERE
 *         CONTINUE VERSION ID EPOCH OFFSET END TIME PATH SUM
 *         FULLSYNC VERSION ID EPOCH OFFSET END TIME PATH REASON SUM
 *         SERVER_ERROR REASON
 *     sync                after FULLSYNC: everything, see exec_export.h
 *         PART BYTES, the bytes, ..., END ITEMS ID EPOCH OFFSET SERVE_FROM LOST SUM
 *     replconf ack OFFSET  it has applied the stream up to there; the next bytes are the
 *                          answer, as soon as there are some, or none after a while
 *         PART BYTES TIME END DUE_OFFSET DUE WALL SUM, the bytes
 *         HANDOVER         the replica has everything, and is the primary now
 *     replconf failover OFFSET MS  the same, and request a handover within that time
 *
 * VERSIONS is the range LEAST-MOST of versions that the replica speaks, and VERSION the one
 * that is used (daemon/replica/replication.h). RUN names the process of the replica. WHERE is
 * the address at which it serves: HOST:PORT, or PORT alone for the host that the link comes
 * from; 0: it does not serve over TCP. ID is - for a replica that has nothing. LOST is 1 if
 * items are missing at the sender. TIME is the primary's clock. DUE is a time: items due by
 * then have been removed at the primary at DUE_OFFSET. Both are on the scale of the stream.
 * WALL is the wall clock of the primary. PATH names the process of the primary and those it
 * follows. SUM is the XXH32 of the preceding part of the line (lib/replica/sealed_line.h).
 * Context of all functions: worker, outside a section.
 */

/* The state of a replica that may start a full sync now; NULL: it has to send psync first. */
struct following *following_may_sync(const struct client *c);

/* Its full sync begins. */
void following_begin_sync(struct following *f);

/*
 * Its full sync has ended. The replica continues with the reader, of which this takes
 * ownership; NULL: the sync failed. c: its client. If that is NULL, or has sent psync again,
 * the reader is released.
 */
void following_end_sync(struct client *c, struct following *f, struct shipper_reader *reader);

/* ---- candidate.c ------------------------------------------------------------------------- */

/*
 * A connection that was accepted when -c was reached, because it may be a replica, for which
 * there are places beyond -c. It may log in and send psync. If it sends any other command, or
 * nothing in time, it gets memcached's answer to a connection beyond the limit.
 */

/* Begin a connection whose origin is_beyond. False: no memory. Context: worker. */
bool candidate_begin(struct client *c, struct worker *w);

#endif
