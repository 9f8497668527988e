/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A disk that may lose its power: see disk.h.
 */
#include "tests/lib/snapshot/disk.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX  256
#define NAMES_MAX  128
#define NAME_BYTES 64

enum call_kind {
    CALL_CREATE, /* name, file */
    CALL_WRITE,  /* file, offset, bytes */
    CALL_TRUNCATE,
    CALL_SYNC,   /* file: of the calls before `from` */
    CALL_RENAME, /* from, name, file */
    CALL_UNLINK,
    CALL_SYNC_FOLDER,
};

struct call {
    enum call_kind kind;
    unsigned file;
    size_t from;
    size_t offset, n;
    char *bytes;
    char name[NAME_BYTES], old[NAME_BYTES];
};

struct names {
    unsigned n;
    char name[NAMES_MAX][NAME_BYTES];
    unsigned file[NAMES_MAX];
};

/* A file as it is found. */
struct image {
    char *bytes;
    size_t n, room;
};

static struct {
    pthread_mutex_t mutex;
    struct call *calls;
    size_t n, room;
    unsigned files;
    ino_t inode[FILES_MAX];
    struct image first[FILES_MAX]; /* what it was when all began */
    struct names names;            /* likewise */
    size_t end;                    /* dead from this call on */
} disk = {.mutex = PTHREAD_MUTEX_INITIALIZER, .end = SIZE_MAX};

/* ---- files ------------------------------------------------------------------------------- */

static void image_resize(struct image *m, size_t n)
{
    if (n > m->room) {
        m->room = n + n / 2 + 4096;
        m->bytes = realloc(m->bytes, m->room);
        ck_assert_ptr_nonnull(m->bytes);
    }
    if (n > m->n) {
        memset(m->bytes + m->n, 0, n - m->n);
    }
    m->n = n;
}

static void image_write(struct image *m, size_t offset, const char *bytes, size_t n)
{
    if (m->n < offset + n) {
        image_resize(m, offset + n);
    }
    memcpy(m->bytes + offset, bytes, n);
}

static void image_copy(struct image *to, const struct image *from)
{
    *to = (struct image){.bytes = NULL};
    if (from->n != 0) {
        image_write(to, 0, from->bytes, from->n);
    }
}

static void image_do(struct image *m, const struct call *c)
{
    if (c->kind == CALL_WRITE) {
        image_write(m, c->offset, c->bytes, c->n);
    } else if (c->kind == CALL_TRUNCATE) {
        image_resize(m, c->n);
    }
}

static void image_put(const struct image *m, const char *dir, const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert(m->n == 0 || fwrite(m->bytes, 1, m->n, f) == m->n);
    ck_assert_int_eq(fclose(f), 0);
}

static void image_get(struct image *m, const char *path)
{
    struct stat st;
    FILE *f = fopen(path, "rb");

    ck_assert(f != NULL && fstat(fileno(f), &st) == 0);
    *m = (struct image){.bytes = NULL};
    image_resize(m, (size_t)st.st_size);
    ck_assert(m->n == 0 || fread(m->bytes, 1, m->n, f) == m->n);
    fclose(f);
}

static unsigned add_file(ino_t inode)
{
    ck_assert_uint_lt(disk.files, FILES_MAX);
    disk.inode[disk.files] = inode;
    return disk.files++;
}

/* The file that was opened; -1: a folder. The newest one: numbers are used again. */
static int file_of(int fd)
{
    struct stat st;

    ck_assert_int_eq(fstat(fd, &st), 0);
    if (S_ISDIR(st.st_mode)) {
        return -1;
    }
    for (unsigned i = disk.files; i != 0; i--) {
        if (disk.inode[i - 1] == st.st_ino) {
            return (int)i - 1;
        }
    }
    ck_abort_msg("a file that nobody has made");
    return -1;
}

/* ---- names ------------------------------------------------------------------------------- */

static unsigned find_name(const struct names *names, const char *name)
{
    unsigned i = 0;

    while (i < names->n && strcmp(names->name[i], name) != 0) {
        i++;
    }
    return i;
}

static void remove_name(struct names *names, const char *name)
{
    unsigned i = find_name(names, name);

    if (i < names->n) {
        names->n--;
        names->file[i] = names->file[names->n];
        memmove(names->name[i], names->name[names->n], NAME_BYTES);
    }
}

static void set_name(struct names *names, const char *name, unsigned file)
{
    unsigned i = find_name(names, name);

    ck_assert_uint_lt(i, NAMES_MAX);
    names->n += i == names->n;
    names->file[i] = file;
    snprintf(names->name[i], NAME_BYTES, "%s", name);
}

static void names_do(struct names *names, const struct call *c)
{
    if (c->kind == CALL_RENAME) {
        remove_name(names, c->old);
    }
    if (c->kind == CALL_UNLINK) {
        remove_name(names, c->name);
    } else {
        set_name(names, c->name, c->file);
    }
}

static bool is_of_names(const struct call *c)
{
    return c->kind == CALL_CREATE || c->kind == CALL_RENAME || c->kind == CALL_UNLINK;
}

/* ---- recording --------------------------------------------------------------------------- */

static bool is_dead(void)
{
    return disk.n >= disk.end;
}

static struct call *add_call(enum call_kind kind, unsigned file)
{
    if (disk.n == disk.room) {
        disk.room = disk.room * 2 + 1024;
        disk.calls = realloc(disk.calls, disk.room * sizeof(*disk.calls));
        ck_assert_ptr_nonnull(disk.calls);
    }
    disk.calls[disk.n] = (struct call){.kind = kind, .file = file};
    return &disk.calls[disk.n++];
}

static void add_named(enum call_kind kind, unsigned file, const char *name, const char *old)
{
    struct call *c = add_call(kind, file);

    snprintf(c->name, NAME_BYTES, "%s", name);
    snprintf(c->old, NAME_BYTES, "%s", old);
}

static int open_at(int dir, const char *name, int flags, unsigned mode)
{
    struct stat st;
    int fd;

    pthread_mutex_lock(&disk.mutex);
    if (is_dead() && (flags & O_CREAT) != 0) {
        fd = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
        if (fd < 0) {
            fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        }
    } else {
        fd = io_system.open_at(dir, name, flags, mode);
    }
    if (!is_dead() && fd >= 0 && (flags & O_CREAT) != 0) {
        ck_assert_int_eq(fstat(fd, &st), 0);
        add_named(CALL_CREATE, add_file(st.st_ino), name, "");
    }
    pthread_mutex_unlock(&disk.mutex);
    return fd;
}

static ssize_t write_to(int fd, const void *bytes, size_t n)
{
    struct call *c;

    pthread_mutex_lock(&disk.mutex);
    if (!is_dead()) {
        off_t at = lseek(fd, 0, SEEK_CUR);

        ck_assert_int_eq(io_system.write(fd, bytes, n), (ssize_t)n);
        c = add_call(CALL_WRITE, (unsigned)file_of(fd));
        c->offset = (size_t)at;
        c->n = n;
        c->bytes = malloc(n);
        ck_assert_ptr_nonnull(c->bytes);
        memcpy(c->bytes, bytes, n);
    }
    pthread_mutex_unlock(&disk.mutex);
    return (ssize_t)n;
}

static int set_direct(int fd, bool is_direct)
{
    (void)fd;
    (void)is_direct;
    return 0; /* it makes nothing durable */
}

static int sync_range(int fd, int64_t offset, int64_t n, unsigned flags)
{
    (void)fd;
    (void)offset;
    (void)n;
    (void)flags;
    return 0;
}

/*
 * Data written while it runs may be durable afterwards or not. Some take long enough that there
 * is something.
 */
static int sync_file(int fd)
{
    size_t from = disk_calls();

    usleep(from % 4 == 0 ? 8000 : 500);
    pthread_mutex_lock(&disk.mutex);
    if (!is_dead()) {
        int file = file_of(fd);
        struct call *c = add_call(file < 0 ? CALL_SYNC_FOLDER : CALL_SYNC, (unsigned)file);

        c->from = from;
    }
    pthread_mutex_unlock(&disk.mutex);
    return 0;
}

static int truncate_to(int fd, int64_t bytes)
{
    pthread_mutex_lock(&disk.mutex);
    if (!is_dead()) {
        ck_assert_int_eq(io_system.truncate(fd, bytes), 0);
        add_call(CALL_TRUNCATE, (unsigned)file_of(fd))->n = (size_t)bytes;
    }
    pthread_mutex_unlock(&disk.mutex);
    return 0;
}

static int close_it(int fd)
{
    return io_system.close(fd);
}

static int rename_at(int dir, const char *from, const char *to)
{
    int result = 0;

    pthread_mutex_lock(&disk.mutex);
    if (!is_dead()) {
        int fd = openat(dir, from, O_RDONLY | O_CLOEXEC);

        ck_assert_int_ge(fd, 0);
        result = io_system.rename_at(dir, from, to);
        add_named(CALL_RENAME, (unsigned)file_of(fd), to, from);
        close(fd);
    }
    pthread_mutex_unlock(&disk.mutex);
    return result;
}

static int unlink_at(int dir, const char *name)
{
    int result = 0;

    pthread_mutex_lock(&disk.mutex);
    if (!is_dead()) {
        result = io_system.unlink_at(dir, name);
        if (result == 0) {
            add_named(CALL_UNLINK, 0, name, "");
        }
    }
    pthread_mutex_unlock(&disk.mutex);
    return result;
}

/* What is written once the power is lost has no name, and the process does not notice. */
static int check_name(int fd, const char *dir, const char *name)
{
    return disk_is_dead() ? 0 : io_system.check_name(fd, dir, name);
}

const struct io_calls disk_io = {
    .open_at = open_at,
    .write = write_to,
    .set_direct = set_direct,
    .sync_range = sync_range,
    .fsync = sync_file,
    .truncate = truncate_to,
    .close = close_it,
    .rename_at = rename_at,
    .unlink_at = unlink_at,
    .check_name = check_name,
};

static void set_end(size_t end)
{
    pthread_mutex_lock(&disk.mutex);
    disk.end = end;
    pthread_mutex_unlock(&disk.mutex);
}

void disk_kill(void)
{
    set_end(0);
}

void disk_kill_after(size_t calls)
{
    set_end(disk_calls() + calls);
}

bool disk_is_dead(void)
{
    pthread_mutex_lock(&disk.mutex);
    bool is = is_dead();
    pthread_mutex_unlock(&disk.mutex);
    return is;
}

void disk_revive(void)
{
    set_end(SIZE_MAX);
}

size_t disk_calls(void)
{
    size_t n;

    pthread_mutex_lock(&disk.mutex);
    n = disk.n;
    pthread_mutex_unlock(&disk.mutex);
    return n;
}

void disk_end(void)
{
    for (size_t i = 0; i < disk.n; i++) {
        free(disk.calls[i].bytes);
    }
    for (unsigned i = 0; i < disk.files; i++) {
        free(disk.first[i].bytes);
        disk.first[i] = (struct image){.bytes = NULL};
    }
    free(disk.calls);
    disk.calls = NULL;
    disk.n = disk.room = 0;
    disk.files = 0;
    disk.names.n = 0;
    disk.end = SIZE_MAX;
}

void disk_begin(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *entry;

    disk_end();
    ck_assert_ptr_nonnull(d);
    while ((entry = readdir(d)) != NULL) {
        char path[512];
        struct stat st;

        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (entry->d_name[0] != '.' || strlen(entry->d_name) > 2) {
            ck_assert_int_eq(stat(path, &st), 0);
            set_name(&disk.names, entry->d_name, add_file(st.st_ino));
            image_get(&disk.first[disk.files - 1], path);
        }
    }
    closedir(d);
}

/* ---- a loss of power --------------------------------------------------------------------- */

/* Among `calls` calls, those before this one are durable. */
static size_t synced_before(size_t calls, enum call_kind kind, unsigned file)
{
    size_t from = 0;

    for (size_t i = 0; i < calls; i++) {
        const struct call *c = &disk.calls[i];

        if (c->kind == kind && c->file == file && c->from > from) {
            from = c->from;
        }
    }
    return from;
}

static void lose_names(struct names *names, size_t calls, struct rng *r)
{
    size_t synced = synced_before(calls, CALL_SYNC_FOLDER, (unsigned)-1);
    unsigned way = (unsigned)rng_below(r, 4);
    size_t end = synced;

    if (way == 1) {
        end = calls;
    } else if (way == 2) {
        end += rng_below(r, calls - synced + 1);
    }
    *names = disk.names;
    for (size_t i = 0; i < calls; i++) {
        if (is_of_names(&disk.calls[i]) && (i < end || (way == 3 && rng_below(r, 2) == 0))) {
            names_do(names, &disk.calls[i]);
        }
    }
}

enum { WAYS_NONE, WAYS_ALL, WAYS_LAST, WAYS_NOT_FIRST, WAYS_ANY, WAYS_ANY_TIME, WAYS };

/* After how many of the calls that are not durable was this page written? */
static size_t choose(unsigned way, size_t page, size_t pages, size_t lost, struct rng *r)
{
    switch (way) {
    case WAYS_NONE:
        return 0;
    case WAYS_ALL:
        return lost;
    case WAYS_LAST:
        return page + 1 == pages ? lost : 0;
    case WAYS_NOT_FIRST:
        return page != 0 ? lost : 0;
    case WAYS_ANY:
        return rng_below(r, 2) == 0 ? lost : 0;
    default:
        return rng_below(r, lost + 1);
    }
}

/* What may be where nothing was written: of another file, if one is drawn. */
static void fill_junk(struct image *m, unsigned file, size_t from, struct rng *r)
{
    const struct call *c = disk.n != 0 ? &disk.calls[rng_below(r, disk.n)] : NULL;

    if (c == NULL || c->kind != CALL_WRITE || c->n == 0 || c->file == file) {
        return;
    }
    for (size_t at = from; at < m->n; at++) {
        m->bytes[at] = c->bytes[at % c->n];
    }
}

/*
 * The file as it is when it is durable up to one call, and all up to another one were made.
 * Pages begin where the part begins that was changed since.
 */
static void lose_pages(struct image *out, unsigned file, size_t calls, struct rng *r)
{
    size_t synced = synced_before(calls, CALL_SYNC, file);
    size_t size = rng_below(r, 2) == 0 ? 512 : 4096;
    unsigned way = (unsigned)rng_below(r, WAYS);
    struct image now;
    size_t lost = 0;
    size_t nth = 0;
    size_t *when;

    image_copy(&now, &disk.first[file]);
    for (size_t i = 0; i < calls; i++) {
        if (i < synced && disk.calls[i].file == file) {
            image_do(&now, &disk.calls[i]);
        }
    }
    image_copy(out, &now);
    size_t most = now.n;
    size_t first = now.n;
    for (size_t i = synced; i < calls; i++) {
        const struct call *c = &disk.calls[i];

        if (c->file == file && (c->kind == CALL_WRITE || c->kind == CALL_TRUNCATE)) {
            lost++;
            most = c->kind == CALL_WRITE && c->offset + c->n > most ? c->offset + c->n : most;
            first = c->kind == CALL_TRUNCATE && c->n < first ? c->n : first;
        }
    }
    image_resize(out, most);
    if (rng_below(r, 4) == 0) {
        fill_junk(out, file, now.n, r);
    }
    first -= first % size;
    size_t pages = (most - first + size - 1) / size;
    when = calloc(pages + 1, sizeof(*when));
    ck_assert_ptr_nonnull(when);
    for (size_t i = 0; i < pages; i++) {
        when[i] = choose(way, i, pages, lost, r);
    }
    /* As long as it was at any time. */
    size_t long_after = rng_below(r, 2) == 0 ? lost : rng_below(r, lost + 1);
    size_t end = long_after == 0 ? now.n : 0;

    for (size_t i = synced; i < calls; i++) {
        const struct call *c = &disk.calls[i];

        if (c->file != file || (c->kind != CALL_WRITE && c->kind != CALL_TRUNCATE)) {
            continue;
        }
        image_do(&now, c);
        nth++;
        end = nth == long_after ? now.n : end;
        for (size_t k = 0; k < pages; k++) {
            size_t at = first + k * size;
            size_t n = now.n > at ? now.n - at : 0;

            if (when[k] == nth && n != 0) {
                image_write(out, at, now.bytes + at, n < size ? n : size);
            }
        }
    }
    image_resize(out, end);
    free(when);
    free(now.bytes);
}

void disk_make(const char *dir, size_t calls, struct rng *r)
{
    static struct names names;

    lose_names(&names, calls, r);
    for (unsigned i = 0; i < names.n; i++) {
        struct image m;

        lose_pages(&m, names.file[i], calls, r);
        image_put(&m, dir, names.name[i]);
        free(m.bytes);
    }
}
