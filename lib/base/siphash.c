/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SipHash-2-4-128 of Aumasson and Bernstein: two rounds for each word of input, and four before
 * each half of the digest. All state is the caller's.
 */
#include "lib/base/siphash.h"

#include "lib/base/check.h"
#include "lib/base/load.h"

#define ROUNDS_WORD 2
#define ROUNDS_END  4

static inline uint64_t rotate_left(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static inline void rounds(struct siphash *s, unsigned n)
{
    while (n-- > 0) {
        s->v0 += s->v1;
        s->v2 += s->v3;
        s->v1 = rotate_left(s->v1, 13) ^ s->v0;
        s->v3 = rotate_left(s->v3, 16) ^ s->v2;
        s->v0 = rotate_left(s->v0, 32);
        s->v2 += s->v1;
        s->v0 += s->v3;
        s->v1 = rotate_left(s->v1, 17) ^ s->v2;
        s->v3 = rotate_left(s->v3, 21) ^ s->v0;
        s->v2 = rotate_left(s->v2, 32);
    }
}

static inline void take_word(struct siphash *s, uint64_t word)
{
    s->v3 ^= word;
    rounds(s, ROUNDS_WORD);
    s->v0 ^= word;
}

void siphash_init(struct siphash *s, const struct siphash_key *key)
{
    /* The four constants spell "somepseudorandomlygeneratedbytes"; 0xee asks for 128 bits. */
    s->v0 = key->k0 ^ UINT64_C(0x736f6d6570736575);
    s->v1 = key->k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee;
    s->v2 = key->k0 ^ UINT64_C(0x6c7967656e657261);
    s->v3 = key->k1 ^ UINT64_C(0x7465646279746573);
    s->tail = 0;
    s->len = 0;
    s->tail_len = 0;
}

void siphash_feed(struct siphash *s, const void *bytes, size_t n)
{
    const char *p = bytes;

    s->len += n;
    while (n > 0) {
        if (s->tail_len == 0 && n >= 8) {
            take_word(s, load_le64(p));
            p += 8;
            n -= 8;
            continue;
        }
        s->tail |= (uint64_t)(unsigned char)*p++ << (8 * s->tail_len++);
        n--;
        if (s->tail_len == 8) {
            take_word(s, s->tail);
            s->tail = 0;
            s->tail_len = 0;
        }
    }
}

struct siphash_digest siphash_end(struct siphash *s)
{
    struct siphash_digest d;

    must(s->tail_len < 8);
    /* The highest byte of the last word is the lowest byte of the length. */
    take_word(s, s->tail | s->len << 56);
    s->v2 ^= 0xee;
    rounds(s, ROUNDS_END);
    d.lo = s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
    s->v1 ^= 0xdd;
    rounds(s, ROUNDS_END);
    d.hi = s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
    return d;
}
