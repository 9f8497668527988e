/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backlog: see backlog.h.
 *
 * The ring consists of atomic words, like the rings of changes (lib/shard/changes.c). The
 * writer stores the end of what it will write (`begun`), then stores words with release. A
 * reader loads words with acquire, then `begun`: if it got a word of the next round, it sees
 * that the ring has wrapped. Blocks begin at any byte, so the first and the last word of an
 * append are merged with the present content: bytes that a reader may have are stored again
 * unchanged.
 */
#include "lib/replica/backlog.h"

#include <pthread.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/context.h"

#define WORD        sizeof(uint64_t)
#define BATCH       4 /* words that are copied at a time: as the loops are written */
#define PAGE        4096u
#define FIRST_EPOCH 1

struct backlog {
    /* [const] while there are readers or a writer */
    _Atomic uint64_t *words; /* NULL: no ring */
    _Atomic uint64_t bytes;  /* of the ring */
    struct budget *budget;   /* [borrowed] */
    /* [atomic] */
    _Atomic uint64_t first;                 /* nothing before it can be continued */
    _Atomic uint64_t begun MF_LINE_ALIGNED; /* up to there words may have been overwritten */
    _Atomic uint64_t end;                   /* up to there blocks are whole (release) */
    /* under the mutex, a leaf */
    pthread_mutex_t mutex MF_LINE_ALIGNED;
    struct backlog_name name; /* without the offset */
    uint64_t named;           /* where the first block of the id is, or may be */
};

uint64_t backlog_default_bytes(uint64_t limit_bytes)
{
    uint64_t bytes = limit_bytes / 32;

    if (bytes < BACKLOG_BYTES_MIN) {
        return BACKLOG_BYTES_MIN;
    }
    return bytes > BACKLOG_BYTES_MAX ? BACKLOG_BYTES_MAX : bytes;
}

struct backlog *backlog_create(struct budget *budget)
{
    struct backlog *b = mem_alloc_aligned(sizeof(*b), MF_LINE_BYTES);

    if (b == NULL) {
        return NULL;
    }
    memset(b, 0, sizeof(*b));
    b->budget = budget;
    b->name = (struct backlog_name){.id = replid_draw(), .epoch = FIRST_EPOCH};
    pthread_mutex_init(&b->mutex, NULL);
    return b;
}

void backlog_destroy(struct backlog **bp)
{
    struct backlog *b = *bp;

    if (b != NULL) {
        backlog_release(b);
        pthread_mutex_destroy(&b->mutex);
        mem_free(b);
        *bp = NULL;
    }
}

static uint64_t get(const _Atomic uint64_t *n)
{
    return atomic_load_explicit(n, memory_order_acquire);
}

static void set(_Atomic uint64_t *n, uint64_t to)
{
    atomic_store_explicit(n, to, memory_order_release);
}

/* Discard the content of the ring: only its end can be continued from. */
static void empty(struct backlog *b)
{
    set(&b->first, get(&b->end));
}

bool backlog_reserve(struct backlog *b, uint64_t bytes)
{
    uint64_t size = (bytes + PAGE - 1) / PAGE * PAGE;
    void *words = mem_map(size, size >= MEM_HUGE_BYTES ? MEM_PAGES_HUGE : MEM_PAGES_SMALL);

    if (words == NULL) {
        return false;
    }
    mem_touch(words, size); /* the shipper appends within sections, too */
    backlog_release(b);
    b->words = words;
    set(&b->bytes, size);
    budget_add(b->budget, (int64_t)size);
    return true;
}

void backlog_release(struct backlog *b)
{
    empty(b);
    if (b->words != NULL) {
        budget_add(b->budget, -(int64_t)get(&b->bytes));
        mem_unmap((void *)b->words, get(&b->bytes));
        b->words = NULL;
        set(&b->bytes, 0);
    }
}

uint64_t backlog_bytes(const struct backlog *b)
{
    return get(&b->bytes);
}

uint64_t backlog_end(const struct backlog *b)
{
    return get(&b->end);
}

uint64_t backlog_start(const struct backlog *b)
{
    uint64_t end = get(&b->end);
    uint64_t first = get(&b->first);
    uint64_t bytes = get(&b->bytes);
    uint64_t kept = end > bytes ? end - bytes : 0;

    if (first > end) {
        return end; /* the writer has moved both meanwhile */
    }
    return first > kept ? first : kept;
}

/* ---- writing ----------------------------------------------------------------------------- */

static inline _Atomic uint64_t *word_at(const struct backlog *b, uint64_t index)
{
    return &b->words[index / WORD];
}

/* Put n bytes, fewer than a word, into the middle of a word. */
static void put_part(struct backlog *b, uint64_t index, const char *from, size_t n)
{
    _Atomic uint64_t *to = word_at(b, index);
    uint64_t word = atomic_load_explicit(to, memory_order_relaxed);

    memcpy((char *)&word + index % WORD, from, n);
    atomic_store_explicit(to, word, memory_order_release);
}

/* Put bytes that lie together in the ring. */
static void put_run(struct backlog *b, uint64_t index, const char *from, size_t n)
{
    size_t head = index % WORD != 0 ? WORD - index % WORD : 0;
    _Atomic uint64_t *to;

    if (head != 0) {
        head = head < n ? head : n;
        put_part(b, index, from, head);
        index += head;
        from += head;
        n -= head;
    }
    for (to = word_at(b, index); n >= BATCH * WORD; n -= BATCH * WORD, to += BATCH) {
        uint64_t words[BATCH];

        memcpy(words, from, sizeof(words));
        atomic_store_explicit(&to[0], words[0], memory_order_release);
        atomic_store_explicit(&to[1], words[1], memory_order_release);
        atomic_store_explicit(&to[2], words[2], memory_order_release);
        atomic_store_explicit(&to[3], words[3], memory_order_release);
        from += sizeof(words);
        index += sizeof(words);
    }
    for (; n >= WORD; n -= WORD, from += WORD, index += WORD, to++) {
        uint64_t word;

        memcpy(&word, from, WORD);
        atomic_store_explicit(to, word, memory_order_release);
    }
    if (n != 0) {
        put_part(b, index, from, n);
    }
}

/* Put bytes at the end, without waking readers. */
static void put_bytes(struct backlog *b, const char *from, size_t n)
{
    uint64_t end = atomic_load_explicit(&b->end, memory_order_relaxed);

    must(b->words == NULL || n <= get(&b->bytes));
    /* The stores to the words, which release, come after this one. */
    atomic_store_explicit(&b->begun, end + n, memory_order_relaxed);
    if (b->words != NULL) {
        uint64_t index = end % get(&b->bytes);
        size_t run = n < get(&b->bytes) - index ? n : get(&b->bytes) - index;

        put_run(b, index, from, run);
        put_run(b, 0, from + run, n - run);
    }
}

/* Make the n bytes that were put visible to readers. Under the mutex. */
static void publish(struct backlog *b, size_t n)
{
    set(&b->end, atomic_load_explicit(&b->end, memory_order_relaxed) + n);
    if (b->words == NULL) {
        empty(b);
    }
}

void backlog_append(struct backlog *b, const struct snap_block *head, char *block)
{
    /* Only the writer changes the name. */
    size_t n = frame_seal(block, head, &b->name.id, backlog_end(b));

    put_bytes(b, block, n);
    pthread_mutex_lock(&b->mutex);
    publish(b, n);
    pthread_mutex_unlock(&b->mutex);
}

/* Append an ID block; from its end on the stream has this id. */
static void append_id(struct backlog *b, const char *block, const struct replid *next,
                      uint64_t epoch)
{
    uint64_t before = backlog_end(b);

    put_bytes(b, block, FRAME_ID_LENGTH);
    pthread_mutex_lock(&b->mutex);
    b->name.previous = b->name.id;
    b->name.previous_end = before;
    b->name.id = *next;
    b->name.epoch = epoch;
    b->named = before + FRAME_ID_LENGTH;
    publish(b, FRAME_ID_LENGTH);
    pthread_mutex_unlock(&b->mutex);
}

void backlog_promote(struct backlog *b, const struct replid *next, int64_t unix_ms)
{
    uint64_t epoch = b->name.epoch + 1;
    char block[FRAME_ID_LENGTH];

    must(!replid_is_none(next));
    frame_put_id(block, next, epoch, unix_ms, &b->name.id, backlog_end(b));
    append_id(b, block, next, epoch);
}

bool backlog_append_copy(struct backlog *b, const char *block, size_t n)
{
    struct replid next;
    uint64_t epoch;

    if (!frame_is_good(block, n, &b->name.id, backlog_end(b)) ||
        frame_length(block, backlog_end(b)) != n) {
        return false;
    }
    if (frame_kind(block) == FRAME_ID) {
        if (!frame_id_of(span_of(block + SNAP_BLOCK_BYTES, n - SNAP_BLOCK_BYTES), &next,
                         &epoch)) {
            return false;
        }
        append_id(b, block, &next, epoch);
        return true;
    }
    put_bytes(b, block, n);
    pthread_mutex_lock(&b->mutex);
    publish(b, n);
    pthread_mutex_unlock(&b->mutex);
    return true;
}

/* ---- names ------------------------------------------------------------------------------- */

void backlog_get_name(struct backlog *b, struct backlog_name *name)
{
    pthread_mutex_lock(&b->mutex);
    *name = b->name;
    name->offset = backlog_end(b);
    pthread_mutex_unlock(&b->mutex);
}

/* Continue at another offset, with an empty ring. Under the mutex. */
static void jump(struct backlog *b, uint64_t to)
{
    /*
     * This order ensures that a reader which compares the two finds no valid range meanwhile.
     */
    set(&b->first, UINT64_MAX);
    set(&b->begun, to);
    set(&b->end, to);
    set(&b->first, to);
}

void backlog_take_over(struct backlog *b, const struct backlog_name *name)
{
    pthread_mutex_lock(&b->mutex);
    b->name = *name;
    b->named = name->offset;
    jump(b, name->offset);
    pthread_mutex_unlock(&b->mutex);
}

void backlog_gap(struct backlog *b)
{
    pthread_mutex_lock(&b->mutex);
    jump(b, backlog_end(b) + 1);
    pthread_mutex_unlock(&b->mutex);
}

/* ---- reading ----------------------------------------------------------------------------- */

/* Get n bytes, fewer than a word, from the middle of a word. */
static void get_part(const struct backlog *b, uint64_t index, char *to, size_t n)
{
    uint64_t word = atomic_load_explicit(word_at(b, index), memory_order_acquire);

    memcpy(to, (const char *)&word + index % WORD, n);
}

/* Copy out bytes that lie together in the ring. */
static void get_run(const struct backlog *b, uint64_t index, char *to, size_t n)
{
    size_t head = index % WORD != 0 ? WORD - index % WORD : 0;
    const _Atomic uint64_t *from;

    if (head != 0) {
        head = head < n ? head : n;
        get_part(b, index, to, head);
        index += head;
        to += head;
        n -= head;
    }
    for (from = word_at(b, index); n >= BATCH * WORD; n -= BATCH * WORD, from += BATCH) {
        uint64_t words[BATCH];

        words[0] = atomic_load_explicit(&from[0], memory_order_acquire);
        words[1] = atomic_load_explicit(&from[1], memory_order_acquire);
        words[2] = atomic_load_explicit(&from[2], memory_order_acquire);
        words[3] = atomic_load_explicit(&from[3], memory_order_acquire);
        memcpy(to, words, sizeof(words));
        to += sizeof(words);
        index += sizeof(words);
    }
    for (; n >= WORD; n -= WORD, to += WORD, index += WORD, from++) {
        uint64_t word = atomic_load_explicit(from, memory_order_acquire);

        memcpy(to, &word, WORD);
    }
    if (n != 0) {
        get_part(b, index, to, n);
    }
}

ptrdiff_t backlog_copy(const struct backlog *b, uint64_t offset, void *out, size_t n)
{
    uint64_t end = get(&b->end);

    if (offset > end || offset < get(&b->first)) {
        return -1;
    }
    n = n < end - offset ? n : end - offset;
    n = n < PTRDIFF_MAX ? n : PTRDIFF_MAX;
    if (n == 0) {
        return 0;
    }
    if (end - offset > get(&b->bytes)) {
        return -1;
    }
    uint64_t index = offset % get(&b->bytes);
    size_t run = n < get(&b->bytes) - index ? n : get(&b->bytes) - index;
    get_run(b, index, out, run);
    get_run(b, 0, (char *)out + run, n - run);
    if (atomic_load_explicit(&b->begun, memory_order_relaxed) > offset + get(&b->bytes) ||
        offset < get(&b->first)) {
        return -1;
    }
    return (ptrdiff_t)n;
}

/* Is there a block of this id at the offset? */
static enum backlog_answer look_at_block(const struct backlog *b, const struct replid *id,
                                         uint64_t offset)
{
    enum backlog_answer answer = BACKLOG_NO_BLOCK;
    char header[SNAP_BLOCK_BYTES];
    ptrdiff_t n = backlog_copy(b, offset, header, sizeof(header));

    if (n < 0) {
        return BACKLOG_TOO_OLD;
    }
    size_t length = n == sizeof(header) ? frame_length(header, offset) : 0;
    if (length == 0) {
        return BACKLOG_NO_BLOCK;
    }
    char *block = mem_alloc(length);
    if (block == NULL) {
        return BACKLOG_NO_MEMORY;
    }
    n = backlog_copy(b, offset, block, length);
    if (n < 0) {
        answer = BACKLOG_TOO_OLD;
    } else if (frame_is_good(block, (size_t)n, id, offset)) {
        answer = BACKLOG_CONTINUES;
    }
    mem_free(block);
    return answer;
}

enum backlog_answer backlog_may_continue(struct backlog *b, const struct replid *id,
                                         uint64_t offset)
{
    enum backlog_answer answer = BACKLOG_CONTINUES;

    pthread_mutex_lock(&b->mutex);
    uint64_t end = backlog_end(b);
    if (replid_is_none(id)) {
        answer = BACKLOG_OTHER_ID;
    } else if (replid_equal(id, &b->name.id)) {
        if (offset > end) {
            answer = BACKLOG_TOO_NEW;
        } else if (offset < backlog_start(b)) {
            answer = BACKLOG_TOO_OLD;
        } else if (offset < b->named) {
            answer = BACKLOG_NO_BLOCK;
        }
    } else if (replid_equal(id, &b->name.previous)) {
        if (offset > b->name.previous_end) {
            answer = BACKLOG_TOO_NEW;
        } else if (offset < backlog_start(b) || offset == end) {
            answer = BACKLOG_TOO_OLD;
        }
    } else {
        answer = BACKLOG_OTHER_ID;
    }
    pthread_mutex_unlock(&b->mutex);
    if (answer != BACKLOG_CONTINUES || offset == end) {
        return answer;
    }
    return look_at_block(b, id, offset);
}

const char *backlog_answer_text(enum backlog_answer answer)
{
    static const char *const texts[] = {
        [BACKLOG_CONTINUES] = "continues",
        [BACKLOG_OTHER_ID] = "another replication id",
        [BACKLOG_TOO_OLD] = "offset no longer in the backlog",
        [BACKLOG_TOO_NEW] = "offset not reached yet",
        [BACKLOG_NO_BLOCK] = "no block begins at the offset",
        [BACKLOG_NO_MEMORY] = "out of memory",
        [BACKLOG_BUSY] = "too many replicas",
    };

    return texts[answer];
}
