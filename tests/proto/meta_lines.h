/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Meta lines and what text_parse() makes of them. The replies are those of memcached, where its
 * own faults do not count.
 */
#ifndef MAYFLY_TESTS_PROTO_META_LINES_H
#define MAYFLY_TESTS_PROTO_META_LINES_H

#include <stddef.h>

#include "proto/reply.h"
#include "proto/request.h"

struct good_line {
    const char *input;
    enum command command;
    const char *key;
    const char *args;
    const char *letters;
    size_t value_len;
    size_t key_len; /* of a key with NUL in it */
};

static const struct good_line good_lines[] = {
    {"mg a\r\n", CMD_MG, "a", "", "", 0, 0},
    {"mg a\n", CMD_MG, "a", "", "", 0, 0},
    {"mg abcdefgh\r\n", CMD_MG, "abcdefgh", "", "", 0, 0},
    {"mg abcdefgh v\r\n", CMD_MG, "abcdefgh", "v", "v", 0, 0},
    {"mg abcdefgh v\n", CMD_MG, "abcdefgh", "v", "v", 0, 0},
    {"mg a s v f c t h l k q u\r\n", CMD_MG, "a", "s v f c t h l k q u", "svfcthlkqu", 0, 0},
    {"mg a v O123 k\r\n", CMD_MG, "a", "v O123 k", "vOk", 0, 0},
    {"mg a O v\r\n", CMD_MG, "a", "O v", "Ov", 0, 0},
    {"mg a O1234567890123456789012345678901\r\n", CMD_MG, "a",
     "O1234567890123456789012345678901", "O", 0, 0},
    {"mg a O\xff\x01\x02 v\r\n", CMD_MG, "a", "O\xff\x01\x02 v", "Ov", 0, 0},
    {"  mg  a  v   k \r\n", CMD_MG, "a", "v   k", "vk", 0, 0},
    {"mg a\tb v\r\n", CMD_MG, "a\tb", "v", "v", 0, 0},
    {"mg a v\tk\r\n", CMD_MG, "a", "v\tk", "v", 0, 0},
    {"mg a vvv k1\r\n", CMD_MG, "a", "vvv k1", "vk", 0, 0},
    {"mg a N30 R60 T-1 E5\r\n", CMD_MG, "a", "N30 R60 T-1 E5", "NRTE", 0, 0},
    {"mg a P/path L\r\n", CMD_MG, "a", "P/path L", "PL", 0, 0},
    {"mg a x I Mz D1 J1 F1 C1\r\n", CMD_MG, "a", "x I Mz D1 J1 F1 C1", "xIMDJFC", 0, 0},
    {"mg YQ== b v\r\n", CMD_MG, "a", "b v", "bv", 0, 0},
    {"mg YQ== v bx\r\n", CMD_MG, "a", "v bx", "vb", 0, 0},
    {"mg AGE= b\r\n", CMD_MG, "\0a", "b", "b", 0, 2},
    {"mg YSBi b k\r\n", CMD_MG, "a b", "b k", "bk", 0, 0},
    {"mg a v c f h k l s t u q O1 P L N0 R0 T0 C1\r\n", CMD_MG, "a",
     "v c f h k l s t u q O1 P L N0 R0 T0 C1", "vcfhklstuqOPLNRTC", 0, 0},
    {"mg a O\r\r\n", CMD_MG, "a", "O\r", "O", 0, 0},
    {"mg a v T30 k\r\n", CMD_MG, "a", "v T30 k", "vTk", 0, 0},
    {"mg a T000000000000000030 v\r\n", CMD_MG, "a", "T000000000000000030 v", "Tv", 0, 0},
    {"mg a T2147483647\r\n", CMD_MG, "a", "T2147483647", "T", 0, 0},
    {"mg a T-2147483648\r\n", CMD_MG, "a", "T-2147483648", "T", 0, 0},
    {"mg a M\r\n", CMD_MG, "a", "M", "M", 0, 0},
    {"mg a MXX\r\n", CMD_MG, "a", "MXX", "M", 0, 0},
    {"mg a T0000000000000000000000030\r\n", CMD_MG, "a", "T0000000000000000000000030", "T", 0,
     0},
    {"mg a c f h k l q s t u v O1 T5 F1\r\n", CMD_MG, "a", "c f h k l q s t u v O1 T5 F1",
     "cfhklqstuvOTF", 0, 0},
    {"ms a 2\r\nhi\r\n", CMD_MS, "a", "", "", 2, 0},
    {"ms a 2 \r\nhi\r\n", CMD_MS, "a", "", "", 2, 0},
    {"ms  a  2  T5\r\nhi\r\n", CMD_MS, "a", "T5", "T", 2, 0},
    {"ms abcdefgh 12\r\nhi 12 T5 \r\n1\r\n", CMD_MS, "abcdefgh", "", "", 12, 0},
    {"ms abcdefgh 0002 T5 F999999999 c k q s O1\r\nhi\r\n", CMD_MS, "abcdefgh",
     "T5 F999999999 c k q s O1", "TFckqsO", 2, 0},
    {"ms a 2 F4294967295\r\nhi\r\n", CMD_MS, "a", "F4294967295", "F", 2, 0},
    {"ms a 000000000000000000002 T-1\r\nhi\r\n", CMD_MS, "a", "T-1", "T", 2, 0},
    {"ms a 2\nhi\r\n", CMD_MS, "a", "", "", 2, 0},
    {"ms a 0\r\n\r\n", CMD_MS, "a", "", "", 0, 0},
    {"ms a 2 T90 F5 c k O1 MA q\r\nhi\r\n", CMD_MS, "a", "T90 F5 c k O1 MA q", "TFckOMq", 2, 0},
    {"ms YQ== 2 b I C5\r\nhi\r\n", CMD_MS, "a", "b I C5", "bIC", 2, 0},
    {"ms a -0\r\n\r\n", CMD_MS, "a", "", "", 0, 0},
    {"ms a 2 MAA\r\nhi\r\n", CMD_MS, "a", "MAA", "M", 2, 0},
    {"ms a 2 ME\r\nhi\r\n", CMD_MS, "a", "ME", "M", 2, 0},
    {"ms a 2 MP\r\nhi\r\n", CMD_MS, "a", "MP", "M", 2, 0},
    {"ms a 2 MR\r\nhi\r\n", CMD_MS, "a", "MR", "M", 2, 0},
    {"ms a 2 MS\r\nhi\r\n", CMD_MS, "a", "MS", "M", 2, 0},
    {"mg a v c f h k l s t u q O1 P L N0 R0 T0 C1 D1\r\n", CMD_MG, "a",
     "v c f h k l s t u q O1 P L N0 R0 T0 C1 D1", "vcfhklstuqOPLNRTCD", 0, 0},
    {"md a\r\n", CMD_MD, "a", "", "", 0, 0},
    {"md a I T30 C5 x q\r\n", CMD_MD, "a", "I T30 C5 x q", "ITCxq", 0, 0},
    {"ma a\r\n", CMD_MA, "a", "", "", 0, 0},
    {"ma a N0 J50 D18446744073709551615 MD v t c\r\n", CMD_MA, "a",
     "N0 J50 D18446744073709551615 MD v t c", "NJDMvtc", 0, 0},
    {"ma a M+\r\n", CMD_MA, "a", "M+", "M", 0, 0},
    {"ma a M-\r\n", CMD_MA, "a", "M-", "M", 0, 0},
    {"ma a MI\r\n", CMD_MA, "a", "MI", "M", 0, 0},
    {"mn\r\n", CMD_MN, "", "", "", 0, 0},
    {"mn\n", CMD_MN, "", "", "", 0, 0},
    {"mn q x y\r\n", CMD_MN, "", "", "", 0, 0},
    {"me a\r\n", CMD_ME, "a", "", "", 0, 0},
    {"me a\n", CMD_ME, "a", "", "", 0, 0},
    {"me a x Z\r\n", CMD_ME, "a", "", "", 0, 0},
    {"me YQ== b\r\n", CMD_ME, "a", "", "b", 0, 0},
    {"me YQ== b x\r\n", CMD_ME, "a", "", "b", 0, 0},
    {"me YQ== x b\r\n", CMD_ME, "YQ==", "", "", 0, 0},
    {"me YQ== bx\r\n", CMD_ME, "YQ==", "", "", 0, 0},
};

struct bad_line {
    const char *input; /* without the value */
    enum reply reply;
    size_t swallow;
};

/* One flag more than a line may have, all of them different. */
#define TOO_MANY_MS "v c f h k l s t u q O1 P L N0 R0 T0 C1 D1"
#define TOO_MANY    TOO_MANY_MS " I"

static const struct bad_line bad_lines[] = {
    /* missing words */
    {"mg\r\n", REPLY_BAD_FORMAT, 0},
    {"mg \r\n", REPLY_BAD_FORMAT, 0},
    {"md\r\n", REPLY_BAD_FORMAT, 0},
    {"ma\r\n", REPLY_BAD_FORMAT, 0},
    {"ms\r\n", REPLY_BAD_FORMAT, 0},
    {"ms a\r\n", REPLY_BAD_FORMAT, 0},
    {"me\r\n", REPLY_BAD_FORMAT, 0},
    {"mx a\r\n", REPLY_ERROR, 0},
    {"mgx a\r\n", REPLY_ERROR, 0},
    {"MG a\r\n", REPLY_ERROR, 0},
    {"mg\ta\r\n", REPLY_ERROR, 0},
    /* lengths: nothing can be swallowed */
    {"ms a x\r\n", REPLY_BAD_FORMAT, 0},
    {"ms a +2\r\n", REPLY_BAD_FORMAT, 0},
    {"ms a 5x k\r\n", REPLY_BAD_FORMAT, 0},
    {"ms a -1\r\n", REPLY_BAD_FORMAT, 0},
    {"ms a k 5\r\n", REPLY_BAD_FORMAT, 0},
    {"ms a 2147483646\r\n", REPLY_BAD_FORMAT, 0},
    {"ms a 4294967298\r\n", REPLY_BAD_FORMAT, 0},
    {"ms a 18446744073709551618\r\n", REPLY_BAD_FORMAT, 0},
    /* letters */
    {"mg a Z\r\n", REPLY_META_INVALID, 0},
    {"mg a a\r\n", REPLY_META_INVALID, 0},
    {"mg a S5\r\n", REPLY_META_INVALID, 0},
    {"mg a [\r\n", REPLY_META_INVALID, 0},
    {"mg a 5\r\n", REPLY_META_INVALID, 0},
    {"mg a \x80\r\n", REPLY_BAD_FORMAT, 0},
    {"mg a \x01\r\n", REPLY_BAD_FORMAT, 0},
    {"mg a v \r\r\n", REPLY_BAD_FORMAT, 0},
    {"mg a W\r\n", REPLY_META_INVALID, 0},
    {"mg a b Z\r\n", REPLY_META_INVALID, 0},
    {"mg a Z Tx\r\n", REPLY_META_INVALID, 0},
    {"ms a 2 Z\r\n", REPLY_META_INVALID, 4},
    {"ms a 2 2\r\n", REPLY_META_INVALID, 4},
    {"ms a 0 Z\r\n", REPLY_META_INVALID, 2},
    {"ms a 2000000 Z q\r\n", REPLY_META_INVALID, 2000002},
    {"md a Z\r\n", REPLY_META_INVALID, 0},
    {"ma a Z\r\n", REPLY_META_BAD_FLAGS, 0},
    /* twice */
    {"mg a v v\r\n", REPLY_META_DUPLICATE, 0},
    {"mg abcdef v v\r\n", REPLY_META_DUPLICATE, 0},
    {"mg a O1 O2\r\n", REPLY_META_DUPLICATE, 0},
    {"mg a P P\r\n", REPLY_META_DUPLICATE, 0},
    {"mg a k k Z\r\n", REPLY_META_DUPLICATE, 0},
    {"mg a T5 v T5\r\n", REPLY_META_DUPLICATE, 0},
    {"ms a 2 k k\r\n", REPLY_META_DUPLICATE, 4},
    {"ms a 2 F1 F1\r\n", REPLY_META_DUPLICATE, 4},
    {"ms a 2 O O1\r\n", REPLY_META_DUPLICATE, 4},
    {"md a k k\r\n", REPLY_META_DUPLICATE, 0},
    {"ma a D1 D1\r\n", REPLY_META_BAD_FLAGS, 0},
    /* tokens: missing, not a number, out of range */
    {"mg a N\r\n", REPLY_META_BAD_TOKEN, 0},
    {"mg a R\r\n", REPLY_META_BAD_TOKEN, 0},
    {"mg a T\r\n", REPLY_META_BAD_TOKEN, 0},
    {"mg a Tx Z\r\n", REPLY_META_INVALID, 0},
    {"mg a Tx v v\r\n", REPLY_META_DUPLICATE, 0},
    {"mg a Tx D\r\n", REPLY_META_BAD_DELTA, 0},
    {"mg a D Tx\r\n", REPLY_META_BAD_TOKEN, 0},
    {"mg a T1.5\r\n", REPLY_META_BAD_TOKEN, 0},
    {"mg a T2147483648\r\n", REPLY_META_BAD_TOKEN, 0},
    {"mg a R-2147483649\r\n", REPLY_META_BAD_TOKEN, 0},
    {"mg a N9223372036854775808\r\n", REPLY_META_BAD_TOKEN, 0},
    {"mg a T+5\r\n", REPLY_META_BAD_TOKEN, 0},
    {"mg a T\t5\r\n", REPLY_META_BAD_TOKEN, 0},
    {"mg a C\r\n", REPLY_META_BAD_TOKEN, 0},
    {"mg a E\r\n", REPLY_META_BAD_TOKEN, 0},
    {"mg a EX\r\n", REPLY_META_BAD_TOKEN, 0},
    {"mg a D\r\n", REPLY_META_BAD_DELTA, 0},
    {"mg a J-1\r\n", REPLY_META_BAD_INITIAL, 0},
    {"mg a F\r\n", REPLY_BAD_FORMAT, 0},
    {"ms a 2 T\r\n", REPLY_META_BAD_TOKEN, 4},
    {"ms a 2 T5x\r\n", REPLY_META_BAD_TOKEN, 4},
    {"ms a 2 F\r\n", REPLY_BAD_FORMAT, 4},
    {"ms a 2 F-1\r\n", REPLY_BAD_FORMAT, 4},
    {"ms a 2 F4294967296\r\n", REPLY_BAD_FORMAT, 4},
    {"ms a 2 C-1\r\n", REPLY_META_BAD_TOKEN, 4},
    {"ms a 2 C18446744073709551616\r\n", REPLY_META_BAD_TOKEN, 4},
    {"md a C\r\n", REPLY_META_BAD_TOKEN, 0},
    {"md a I Tx\r\n", REPLY_META_BAD_TOKEN, 0},
    {"ma a D18446744073709551616\r\n", REPLY_META_BAD_FLAGS, 0},
    /* modes */
    {"ms a 2 MX\r\n", REPLY_META_MS_MODE, 4},
    {"ms a 2 Ms\r\n", REPLY_META_MS_MODE, 4},
    {"ms a 2 M\r\n", REPLY_META_MS_MODE, 4},
    {"ms a 2 F+5\r\n", REPLY_BAD_FORMAT, 4},
    {"ma a MX\r\n", REPLY_META_MA_MODE, 0},
    {"ma a MA\r\n", REPLY_META_MA_MODE, 0},
    {"ma a M\r\n", REPLY_META_MA_MODE, 0},
    {"ma a MX O12345678901234567890123456789012\r\n", REPLY_META_MA_MODE, 0},
    /* opaque */
    {"mg a O12345678901234567890123456789012\r\n", REPLY_META_OPAQUE, 0},
    {"mg a O12345678901234567890123456789012 Z\r\n", REPLY_META_INVALID, 0},
    {"md a O12345678901234567890123456789012\r\n", REPLY_META_OPAQUE, 0},
    {"ms a 2 O12345678901234567890123456789012\r\n", REPLY_META_OPAQUE, 4},
    /* keys in base64 */
    {"mg a b v\r\n", REPLY_META_BAD_KEY, 0},
    {"mg !!!! b\r\n", REPLY_META_BAD_KEY, 0},
    {"mg ==== b\r\n", REPLY_META_BAD_KEY, 0},
    {"mg YQ=a b\r\n", REPLY_META_BAD_KEY, 0},
    {"mg a b Tx\r\n", REPLY_META_BAD_TOKEN, 0},
    {"mg a b O12345678901234567890123456789012\r\n", REPLY_META_BAD_KEY, 0},
    {"ms a 2 badflag\r\n", REPLY_META_BAD_KEY, 4},
    {"ms a 2 b MX\r\n", REPLY_META_BAD_KEY, 4},
    {"md a b\r\n", REPLY_META_BAD_KEY, 0},
    {"me a b\r\n", REPLY_BAD_FORMAT, 0},
    /* too many flags */
    {"mg a " TOO_MANY "\r\n", REPLY_META_MANY, 0},
    {"mg a Z Z Z Z Z Z Z Z Z Z Z Z Z Z Z Z Z Z Z Z Z\r\n", REPLY_META_MANY, 0},
    {"ms a 2 " TOO_MANY_MS "\r\n", REPLY_META_MANY, 4},
    {"md a " TOO_MANY "\r\n", REPLY_META_MANY, 0},
    {"ma a " TOO_MANY "\r\n", REPLY_META_BAD_FLAGS, 0},
    /* what begins no flag */
    {"ms a 2 !\r\n", REPLY_BAD_FORMAT, 4},
    {"ma a !\r\n", REPLY_BAD_FORMAT, 0},
};

#endif
