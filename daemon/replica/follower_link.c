/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The link of a replica to its primary, and its protocol: see follower_parts.h.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/base/file.h"
#include "daemon/base/log.h"
#include "daemon/options/replica_address.h"
#include "daemon/replica/follower_parts.h"
#include "daemon/worker/crew.h"
#include "lib/base/check.h"
#include "lib/base/num.h"
#include "lib/link/password.h"
#include "lib/replica/sealed_line.h"

/* No stream and no time gets there. */
#define OFFSET_MAX ((uint64_t)1 << 62)
#define TIME_MAX   ((int64_t)1 << 53)

struct engine *follower_engine(const struct follower *f)
{
    return &f->r->crew->engine;
}

void answer_split(struct span line, struct follower_words *w)
{
    w->count = 0;
    while (line.len > 0 && w->count < WORDS_MAX) {
        w->word[w->count++] = span_cut(&line, ' ');
    }
}

bool answer_unseal(struct span line, struct follower_words *w)
{
    if (!line_unseal(&line)) {
        return false;
    }
    answer_split(line, w);
    return true;
}

bool answer_offset(struct span word, uint64_t *offset)
{
    return num_u64(word, offset) == MF_OK && *offset < OFFSET_MAX;
}

bool answer_epoch(struct span word, uint64_t *epoch)
{
    return answer_offset(word, epoch) && *epoch != 0;
}

bool answer_time(struct span word, int64_t *unix_ms)
{
    return num_i64(word, unix_ms) == MF_OK && *unix_ms > -TIME_MAX && *unix_ms < TIME_MAX;
}

/* CONTINUE or FULLSYNC: version, id, epoch, offset, end, time, path. */
bool answer_greeting(struct span line, struct greeting *g)
{
    struct follower_words w;

    if (!answer_unseal(line, &w) || w.count < 8) {
        return false;
    }
    g->continues = span_is(w.word[0], "CONTINUE");
    g->path = w.word[7];
    return (g->continues || span_is(w.word[0], "FULLSYNC")) &&
           num_u32(w.word[1], &g->version) == MF_OK && replid_parse(w.word[2], &g->id) &&
           !replid_is_none(&g->id) && answer_epoch(w.word[3], &g->epoch) &&
           answer_offset(w.word[4], &g->offset) && answer_offset(w.word[5], &g->end) &&
           answer_time(w.word[6], &g->now_ms);
}

void follower_note_history(struct follower *f, const struct replid *id, uint64_t epoch)
{
    f->seen = *id;
    pthread_mutex_lock(&f->r->mutex);
    f->r->seen_epoch = epoch;
    pthread_mutex_unlock(&f->r->mutex);
}

enum session follower_end(struct follower *f, enum session how, const char *what,
                          struct span more)
{
    snprintf(f->why, sizeof(f->why), "%s%s%.*s", what, more.len > 0 ? ": " : "",
             more.len < 100 ? (int)more.len : 100, more.ptr);
    for (char *at = f->why; *at != '\0'; at++) {
        *at = *at >= ' ' && *at <= '~' ? *at : '?'; /* a terminal or a log would act upon it */
    }
    return how;
}

enum session follower_end_cut(struct follower *f, enum session how)
{
    return follower_end(f, replication_is_changed(f->r) ? SESSION_ENDED : how,
                        "the link was cut", span_str(link_why(f->link)));
}

bool follower_send(struct follower *f, const char *line, int n)
{
    must(n > 0);
    return link_send(f->link, span_of(line, (size_t)n)) == LINK_OK;
}

/* Of an option that is a text. */
static const char *text_or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

/* Reading it may not end, and each change of the role and the stop wait for this thread. */
static bool names_special_file(struct follower *f)
{
    const struct target *t = &f->target;
    const char *const names[] = {t->password_file, t->ca, t->cert, t->key};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (file_is_special(names[i])) {
            (void)follower_end(f, SESSION_REFUSED, "not a regular file", span_str(names[i]));
            return true;
        }
    }
    return false;
}

bool follower_connect(struct follower *f, msec_t timeout_ms)
{
    char host[REPLICA_HOST_BYTES];
    char port[REPLICA_PORT_BYTES];
    struct link_target to = {.host = host,
                             .port = port,
                             .uses_tls = f->target.uses_tls,
                             .ca = text_or_null(f->target.ca),
                             .cert = text_or_null(f->target.cert),
                             .key = text_or_null(f->target.key),
                             .tls_name = text_or_null(f->target.tls_name),
                             .ca_option = "replica_tls_ca_cert",
                             .cert_option = "replica_tls_cert",
                             .name_option = "replica_tls_name",
                             .timeout_ms = timeout_ms,
                             .timeout_option = "repl_timeout",
                             .cancel = &f->cancel};
    const char *wrong;

    if (!replica_address_parse(f->target.text, host, port, &wrong)) {
        (void)follower_end(f, SESSION_REFUSED, "replicaof", span_str(wrong));
        return false;
    }
    if (names_special_file(f)) {
        return false;
    }
    f->link = link_open(&to, f->why, sizeof(f->why));
    return f->link != NULL;
}

enum session follower_end_unanswered(struct follower *f)
{
    if (f->target.uses_tls || replication_is_changed(f->r)) {
        return follower_end_cut(f, SESSION_CUT);
    }
    return follower_end(f, SESSION_CUT,
                        "the link was cut before the first answer; does it want TLS? "
                        "(replica_tls)",
                        span_str(link_why(f->link)));
}

enum session follower_log_in(struct follower *f)
{
    char password[LINK_NAME_BYTES];
    char why[REPL_WHY_MAX];
    struct span said;
    bool is_exposed;

    if (f->target.user[0] == '\0') {
        return SESSION_GOES_ON;
    }
    if (!link_user_is_valid(f->target.user)) {
        return follower_end(f, SESSION_REFUSED, "replica_user is no name of a user",
                            span_str(""));
    }
    if (!password_read_file(f->target.password_file, password, &is_exposed, NULL, why,
                            sizeof(why))) {
        return follower_end(f, SESSION_REFUSED, "replica_password_file", span_str(why));
    }
    if (is_exposed) {
        log_warn("replication, %s is readable by other users", f->target.password_file);
    }
    enum link_result result = link_login(f->link, f->target.user, password, &said);
    explicit_bzero(password, sizeof(password));
    if (result == LINK_REFUSED) {
        return follower_end(f, SESSION_REFUSED, "the login was refused", said);
    }
    return result == LINK_OK ? SESSION_GOES_ON : follower_end_unanswered(f);
}
