/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of two, four and eight bytes at any address, with the lowest byte first (le) or last
 * (be), whatever the machine's order. Context of all functions: any thread.
 */
#ifndef MAYFLY_LIB_BASE_LOAD_H
#define MAYFLY_LIB_BASE_LOAD_H

#include <byteswap.h>
#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t load_le16(const char *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof(v));
    return le16toh(v);
}

static inline uint32_t load_le32(const char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}

static inline uint64_t load_le64(const char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

static inline uint16_t load_be16(const char *p)
{
    return bswap_16(load_le16(p));
}

static inline uint32_t load_be32(const char *p)
{
    return bswap_32(load_le32(p));
}

static inline uint64_t load_be64(const char *p)
{
    return bswap_64(load_le64(p));
}

static inline void store_le16(char *p, uint16_t v)
{
    v = htole16(v);
    memcpy(p, &v, sizeof(v));
}

static inline void store_le32(char *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof(v));
}

static inline void store_le64(char *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof(v));
}

static inline void store_be16(char *p, uint16_t v)
{
    store_le16(p, bswap_16(v));
}

#endif
