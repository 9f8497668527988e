/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main() of every unit test: gives the tests that registered themselves to libcheck.
 */
#include "tests/common/unit.h"

#include "tests/common/rng.h"
#include "tests/common/threads.h"

/* Seconds for one test with CK_FORK=yes; without, only the limit of the program holds. */
#define TIMEOUT_S 300

#define ENDS_MAX 16

static struct unit_entry *entries; /* by line */
static void (*ends[ENDS_MAX])(void);
static unsigned end_count;
static bool has_passed;
static SRunner *runner;

void unit_add(struct unit_entry *e)
{
    struct unit_entry **at = &entries;

    while (*at != NULL && (*at)->test.line < e->test.line) {
        at = &(*at)->next;
    }
    e->next = *at;
    *at = e;
}

void unit_nap(unsigned looks, const char *condition)
{
    if (looks == WAIT_LOOKS) {
        fprintf(stderr, "check failed: never happened: %s\n", condition);
        abort();
    }
    (void)usleep(100);
}

/* The name of the suite: "span" of ".../test_span.c". */
static void suite_name(char *name, size_t size, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;

    base += strncmp(base, "test_", 5) == 0 ? 5 : 0;
    (void)snprintf(name, size, "%.*s", (int)strcspn(base, "."), base);
}

static void say_seed(void)
{
    fprintf(stderr, "again with MAYFLY_SEED=%" PRIu64 "\n", rng_seed());
}

/*
 * Runs before each test. A test that fails leaves behind the threads and static variables that
 * it had in use. In the same process the next test would hang, or report a data race, instead
 * of the failed check.
 */
static void end_after_failure(void)
{
    if (srunner_fork_status(runner) == CK_NOFORK && srunner_ntests_failed(runner) > 0) {
        say_seed();
        (void)fflush(NULL);
        _exit(1);
    }
}

void unit_at_end(void (*fn)(void))
{
    for (unsigned i = 0; i < end_count; i++) {
        if (ends[i] == fn) {
            return;
        }
    }
    must(end_count < ENDS_MAX);
    ends[end_count++] = fn;
}

static void end_since(unsigned before)
{
    while (end_count > before) {
        ends[--end_count]();
    }
}

void unit_run(TFun test, int i)
{
    const unsigned before = end_count;

    has_passed = false;
    test(i);
    end_since(before);
    has_passed = true;
}

void unit_run_alone(TFun test, int i)
{
    const unsigned threads = atomic_load(&threads_started);

    unit_run(test, i);
    ck_assert_msg(atomic_load(&threads_started) == threads, "it is not alone: see unit.h");
}

/* Runs after the teardown of each test, also of one that failed. */
static void end_fixture(void)
{
    if (has_passed) {
        end_since(0);
    }
}

static TCase *new_case(Suite *suite, const char *name)
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, TIMEOUT_S);
    tcase_add_checked_fixture(tc, end_after_failure, end_fixture);
    suite_add_tcase(suite, tc);
    return tc;
}

static Suite *suite_of(const char *path)
{
    static char name[64]; /* libcheck keeps the pointer */
    Suite *suite;
    TCase *tc = NULL;

    suite_name(name, sizeof(name), path);
    suite = suite_create(name);
    for (struct unit_entry *e = entries; e != NULL; e = e->next) {
        if (tc == NULL || e->test.fn == NULL) {
            tc = new_case(suite, name);
        }
        if (e->test.fn == NULL) {
            tcase_add_checked_fixture(tc, e->setup, e->teardown);
        } else {
            tcase_add_loop_test(tc, &e->test, 0, e->count);
        }
    }
    return suite;
}

/*
 * The thread sanitizer does not run programs that tests/Makefile.inc does not name among those
 * that start threads. Returns false if this is one of them and has started a thread.
 */
static bool is_in_right_list(void)
{
    const char *threaded = getenv("MAYFLY_THREADED_TESTS"); /* set by make */
    const char *name = program_invocation_short_name;

    if (atomic_load(&threads_started) == 0 || threaded == NULL) {
        return true;
    }
    for (const char *at = threaded; (at = strstr(at, name)) != NULL; at++) {
        char after = at[strlen(name)];

        if (at > threaded && at[-1] == '/' && (after == ' ' || after == '\0')) {
            return true;
        }
    }
    fprintf(stderr, "%s starts threads: name it in THREADED_TESTS of tests/Makefile.inc\n",
            name);
    return false;
}

int main(void)
{
    runner = srunner_create(suite_of(entries->test.file));
    /* A child of a test must not inherit lines that are still to be written. */
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (failed > 0) {
        say_seed();
    }
    return failed == 0 && is_in_right_list() ? 0 : 1;
}
