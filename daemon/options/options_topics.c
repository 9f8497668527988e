/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See options_topics.h.
 */
#include "daemon/options/options_topics.h"

#include "daemon/options/options_rows.h"

enum topic {
    TOPIC_NONE, /* of ignored options */
#define TOPIC(topic, title) TOPIC_##topic,
#include "daemon/options/topics.def"
    TOPIC_COUNT
};

/* [const] */
static const char *const titles[TOPIC_COUNT] = {
#define TOPIC(topic, title) [TOPIC_##topic] = (title),
#include "daemon/options/topics.def"
};

/* [const] */
static const unsigned char topic_of[OPTION_COUNT] = {
#define IN(topic, field) [OPTION_##field] = TOPIC_##topic,
#include "daemon/options/topics.def"
};

/* Each option that has an effect has a topic; the compiler sees to it that none has two. */
enum {
    HAVE_TOPIC = 0
#define IN(topic, field) +1
#include "daemon/options/topics.def"
    ,
    HAVE_EFFECT = 0
#define OPT(kind, field, letter, name, def, min, max, unit, life, traits, status, line, help)  \
    +(((traits)&OPT_IGNORED) == 0)
#include "daemon/options/options.def"
};
_Static_assert((int)HAVE_TOPIC == (int)HAVE_EFFECT,
               "an option without a row in daemon/options/topics.def");

void options_each_by_topic(FILE *out, void (*begin)(FILE *out, const char *title),
                           void (*put)(FILE *out, enum option_id id), void (*end)(FILE *out))
{
    for (unsigned topic = TOPIC_NONE + 1; topic < TOPIC_COUNT; topic++) {
        begin(out, titles[topic]);
        for (unsigned id = 0; id < OPTION_COUNT; id++) {
            if (topic_of[id] == topic) {
                put(out, id);
            }
        }
        end(out);
    }
}
