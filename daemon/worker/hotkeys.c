/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See insight.h. Rows are searched one after the other by hash: 2 KiB, for one of many
 * accesses.
 */
#include "daemon/worker/insight.h"

#include <stdlib.h>
#include <string.h>

#define STEP_MS 1000

/* The factor by which counts fade in a second: the 30th root of 1/2. */
#define STEP_FACTOR 0.97715996843424591

/* After this many seconds all counts have decayed to 0. */
#define STEPS_MAX 1200

void hotkeys_init(struct hotkeys *h, msec_t now)
{
    memset(h, 0, sizeof(*h));
    h->faded_at = now;
}

void hotkeys_fade(struct hotkeys *h, msec_t now)
{
    double factor = 1;
    int64_t steps = (now - h->faded_at) / STEP_MS;

    if (steps <= 0) {
        return;
    }
    if (steps > STEPS_MAX) {
        hotkeys_init(h, now);
        return;
    }
    for (int64_t i = 0; i < steps; i++) {
        factor *= STEP_FACTOR;
        h->covered_s = h->covered_s * STEP_FACTOR + (double)STEP_MS / 1000;
    }
    h->faded_at += steps * STEP_MS;
    h->total *= factor;
    for (uint32_t i = 0; i < h->used; i++) {
        h->count[i] *= factor;
        h->error[i] *= factor;
    }
}

static uint32_t least_row(const struct hotkeys *h)
{
    uint32_t least = 0;

    for (uint32_t i = 1; i < h->used; i++) {
        if (h->count[i] < h->count[least]) {
            least = i;
        }
    }
    return least;
}

double hotkeys_least(const struct hotkeys *h)
{
    return h->used < HOTKEYS_ROWS ? 0 : h->count[least_row(h)];
}

static bool is_key(const struct hotkeys *h, uint32_t row, uint64_t hash, struct span key)
{
    return h->hash[row] == hash && h->key_len[row] == key.len &&
           memcmp(h->key[row], key.ptr, key.len) == 0;
}

void hotkeys_add(struct hotkeys *h, msec_t now, uint64_t hash, struct span key, uint32_t n)
{
    uint32_t row = 0;

    if (key.len == 0 || key.len > REQUEST_KEY_MAX) {
        return; /* a row has no room for it */
    }
    hotkeys_fade(h, now);
    h->total += n;
    while (row < h->used && !is_key(h, row, hash, key)) {
        row++;
    }
    if (row == h->used) {
        if (h->used < HOTKEYS_ROWS) {
            h->used++;
            h->count[row] = 0;
        } else {
            row = least_row(h);
        }
        h->error[row] = h->count[row];
        h->hash[row] = hash;
        h->key_len[row] = (uint8_t)key.len;
        memcpy(h->key[row], key.ptr, key.len);
    }
    h->count[row] += n;
}

/* ---- of several workers ------------------------------------------------------------------ */

/* The row of a key; NULL: it has none. */
static struct hotkey *find(struct hotkeys_sum *sum, const struct hotkeys *h, uint32_t row)
{
    for (uint32_t i = 0; i < sum->used; i++) {
        if (is_key(h, row, sum->row[i].hash, span_of(sum->row[i].key, sum->row[i].key_len))) {
            return &sum->row[i];
        }
    }
    return NULL;
}

/* A row for a new key with this count; NULL: all rows have higher counts. */
static struct hotkey *make(struct hotkeys_sum *sum, double count)
{
    struct hotkey *least = &sum->row[0];

    if (sum->used < HOTKEYS_SUM_ROWS) {
        return &sum->row[sum->used++];
    }
    for (uint32_t i = 1; i < sum->used; i++) {
        least = sum->row[i].count < least->count ? &sum->row[i] : least;
    }
    return least->count < count ? least : NULL;
}

/*
 * Add the rows of one worker to the sum. On a worker where a key has no row, it may have up to
 * the least count of that worker. So that count is added to the error of all rows, and
 * subtracted again for keys that have a row there.
 */
void hotkeys_sum_add(struct hotkeys_sum *sum, const struct hotkeys *h)
{
    double least = hotkeys_least(h);

    sum->total += h->total;
    sum->covered_s = h->covered_s > sum->covered_s ? h->covered_s : sum->covered_s;
    for (uint32_t i = 0; i < sum->used; i++) {
        sum->row[i].error += least;
    }
    for (uint32_t i = 0; i < h->used; i++) {
        struct hotkey *row = find(sum, h, i);

        if (row != NULL) {
            row->count += h->count[i];
            row->error += h->error[i] - least;
            continue;
        }
        row = make(sum, h->count[i]);
        if (row != NULL) {
            row->hash = h->hash[i];
            row->count = h->count[i];
            row->error = h->error[i] + sum->least;
            row->key_len = h->key_len[i];
            memcpy(row->key, h->key[i], h->key_len[i]);
        }
    }
    sum->least += least;
}

static int by_certain_count(const void *a, const void *b)
{
    const struct hotkey *x = a;
    const struct hotkey *y = b;
    double certain_x = x->count - x->error;
    double certain_y = y->count - y->error;

    return certain_x < certain_y ? 1 : -(certain_x > certain_y);
}

void hotkeys_sum_sort(struct hotkeys_sum *sum)
{
    qsort(sum->row, sum->used, sizeof(sum->row[0]), by_certain_count);
}
