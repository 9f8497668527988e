/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to the files of role.h. Context of all functions: the thread of the replication.
 */
#ifndef MAYFLY_DAEMON_REPLICA_FOLLOWER_PARTS_H
#define MAYFLY_DAEMON_REPLICA_FOLLOWER_PARTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/options/settings.h"
#include "daemon/replica/role.h"
#include "lib/base/clock.h"
#include "lib/base/span.h"
#include "lib/link/link.h"
#include "lib/replica/applier.h"

/* Words of an answer. */
#define WORDS_MAX 10u

/* The options, as the thread read them last. */
struct target {
    char text[LIVE_TEXT_BYTES]; /* "": none */
    char announce[LIVE_TEXT_BYTES];
    char user[LIVE_TEXT_BYTES];
    char password_file[LIVE_TEXT_BYTES];
    char ca[LIVE_TEXT_BYTES], cert[LIVE_TEXT_BYTES], key[LIVE_TEXT_BYTES]; /* files */
    char tls_name[LIVE_TEXT_BYTES];
    bool uses_tls;
};

/* Whether and how a session has ended. */
enum session {
    SESSION_GOES_ON,     /* it has not ended */
    SESSION_ENDED,       /* another target was set, or the server stops */
    SESSION_RENAMED,     /* continues, from the greeting: the primary has another path */
    SESSION_CUT,         /* the link broke, or there was none */
    SESSION_REFUSED,     /* by either side */
    SESSION_SYNC_FAILED, /* the primary could not send a full sync */
};

/*
 * The offset between the engine's clock and the scale of the stream. The message with the
 * shortest transit time shows the greatest offset.
 */
struct scale {
    bool is_set;
    int64_t now, before; /* the greatest in this window, and in the one before */
    msec_t began;        /* this window */
    int64_t late;        /* how much later than the best the last message came */
};

struct follower {
    /* [const] */
    struct replication *r; /* [borrowed] */
    int cancel;            /* an eventfd */
    /* the thread's */
    struct applier *applier; /* NULL: no primary is followed */
    struct link *link;
    char *portion; /* REPL_PORTION_MAX bytes, while there is an applier */
    struct target target;
    struct scale scale;
    bool is_skewed;               /* by more than a second, and that was logged */
    bool is_forced;               /* the target is new: any epoch will do */
    bool needs_all;               /* the stream cannot be applied: a full sync is needed */
    uint64_t bad_offset;          /* where a block was damaged; 0: none was */
    bool is_renamed;              /* there was a promotion above since the greeting */
    struct replid seen;           /* the history that is followed */
    _Atomic uint64_t lost_before; /* count_lost() when it was made, or was sent everything */
    _Atomic bool has_lost;        /* a process before has lost items */
    uint64_t serve_from;          /* the items are consistent once this offset is applied */
    msec_t next_try_ms;           /* by the monotonic clock, as the rest */
    int64_t pause_ms;             /* the last one */
    int64_t handover_ms;          /* time limit of the handover to request; 0: none */
    msec_t handover_until_ms;     /* 0: none was requested */
    msec_t heard_ms;              /* when the primary last sent something; 0: never */
    char why[REPL_WHY_MAX];       /* why the session ended */
    /* under the mutex: what is shown */
    pthread_mutex_t mutex;
    struct target shown;
    char path[REPL_PATH_REST];
    uint64_t end;
    msec_t shown_heard_ms;
    uint64_t not_stored; /* items of the primary, until the last promotion */
    int64_t skew_ms;     /* how far the primary's wall clock is ahead */
    msec_t level_ms;     /* when it last had applied all announced changes; 0: never */
};

/* The words of an answer. */
struct follower_words {
    unsigned count;
    struct span word[WORDS_MAX];
};

void answer_split(struct span line, struct follower_words *w);

/* The same for a line with a sum at its end. False: it is missing or wrong; w is unset. */
bool answer_unseal(struct span line, struct follower_words *w);

/*
 * Parse a number of an answer. Returns false if the word is no number, or is too large for any
 * server. Sums and differences of accepted numbers do not overflow.
 */
bool answer_offset(struct span word, uint64_t *offset);
bool answer_epoch(struct span word, uint64_t *epoch);
bool answer_time(struct span word, int64_t *unix_ms);

/* The answer to psync. */
struct greeting {
    bool continues;
    uint32_t version;
    struct replid id;
    uint64_t epoch, offset, end;
    int64_t now_ms;
    struct span path;
};

/* Returns false if it is something else, or has impossible values. */
bool answer_greeting(struct span line, struct greeting *g);

struct engine *follower_engine(const struct follower *f);

/* This history is followed from here on, in this epoch. */
void follower_note_history(struct follower *f, const struct replid *id, uint64_t epoch);

/* Note why the session ends, for log and statistics, and return how. */
enum session follower_end(struct follower *f, enum session how, const char *what,
                          struct span more);

/* The same after the link has failed; or the follower is to return. */
enum session follower_end_cut(struct follower *f, enum session how);

/* The same before the first answer: a server that accepts only TLS may not answer at all. */
enum session follower_end_unanswered(struct follower *f);

/* Open the link. The files of TLS are read again each time. False: f->why. */
bool follower_connect(struct follower *f, msec_t timeout_ms);

/* Log in as the options say. SESSION_GOES_ON: done, or not required. */
enum session follower_log_in(struct follower *f);

/* Returns false if the link has failed. */
bool follower_send(struct follower *f, const char *line, int n);

/* The primary's clock, on the scale of the stream, when it sent the last message. */
void follower_note_time(struct follower *f, int64_t now_ms);

/* Its wall clock at that time. Call it after follower_note_time(). */
void follower_note_wall(struct follower *f, int64_t unix_ms);

/* At this offset the primary had removed all items due at this time of the stream. */
void follower_note_level(struct follower *f, uint64_t offset, int64_t due_ms);

/* Everything that the primary has announced may be applied: note the time. */
void follower_note_told(struct follower *f);

/*
 * Receive a full sync; `first` is the line before it. The old items are dropped when it begins.
 * SESSION_GOES_ON: it is complete, and the stream follows.
 */
enum session follower_take_everything(struct follower *f, struct span first);

#endif
