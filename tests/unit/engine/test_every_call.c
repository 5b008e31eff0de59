/*
 * test_every_call.c - each call of the engine that can fail does, in turn, with each error that
 * fits it, in a whole store over real files.
 *
 * A short history in four parts, each a process of its own: a store is made and used; it is used
 * on, with dead space taken back, and killed; it is opened after that; it is opened with an index
 * missing. First each part runs once and every call of the engine on a drive's files is counted
 * (tests/lib/call_faults.h). Then a part runs again and again from what stood before it, with one
 * call that fails, once or for a while, and everything is looked at by a process without faults.
 *
 * What must hold: no process dies, and none waits for ever; nothing that was acknowledged is lost,
 * and no byte is wrong (I1, I5); what got an error is there wholly or not at all; what the machine
 * lacks (EMFILE, ENOMEM, EAGAIN), a full disk, and reads that fail never end a drive; a write or
 * flush that fails ends at most the drive it was for (I8), and that one comes back; no descriptor
 * is left open (and, under LeakSanitizer, no memory).
 *
 * MILLRACE_EVERY_CALL_SECONDS says for how long; 0: until all are done (make every-call); not set:
 * only the history without a fault. SEED orders them. MILLRACE_EVERY_CALL="PART DRIVE KIND CLASS
 * OFFSET NTH ERROR MS EVERYWHERE" runs one, as a failure names it.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/call_faults.h"
#include "tests/lib/store_fixture.h"
#include "tests/lib/wait.h"

#define DRIVES  4u
#define KEYS    12u
#define MAYBE   6u
#define PARTS   4u /* of the history */
#define WHILE   400u /* ms */
#define PATIENCE 240u /* s, for one process */
#define JOBS    4u

enum { ABSENT = 1 }; /* a seed: no object */

/* owner: the process that runs; in memory that it shares with the one that made it */
struct shared {
        struct cf_seen seen;
        struct cf_fault fault;
        bool faulty;
        bool opening; /* the fault was met while the store opened */
        unsigned part;
        bool bucket_maybe, bucket_made, text_made;
        uint64_t bucket;
        uint64_t next_seed;
        uint64_t text[MAYBE]; /* the same of a text of the bucket */
        uint64_t value[KEYS][MAYBE]; /* what it may be: the first is what was acknowledged last; 0: none */
        char why[400];
};

static struct shared *sh;
static struct sf sf;
static const char *const part_names[PARTS] = {"make", "use", "replay", "rebuild"};

/* Ends the process; its parent tells what for. */
#define CHECK(condition, ...)                                                                                          \
        do {                                                                                                           \
                if (!(condition))                                                                                      \
                        give_up(__LINE__, __VA_ARGS__);                                                                \
        } while (0)

static void give_up(int line, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
static void give_up(int line, const char *format, ...)
{
        va_list args;
        int n;

        n = snprintf(sh->why, sizeof(sh->why), "line %d: ", line);
        va_start(args, format);
        vsnprintf(sh->why + n, sizeof(sh->why) - (size_t)n, format, args);
        va_end(args);
        _exit(9);
}

/* ---- what is expected ------------------------------------------------------------------------ */

static size_t size_of(unsigned key)
{
        static const size_t sizes[] = {10, 3000, 140000, (1 << 20) + 1, 60000, (2 << 20) + 4095};

        return sizes[key % 6];
}

static const char *key_of(unsigned key)
{
        static char names[KEYS][16];

        snprintf(names[key], sizeof(names[key]), "%c/%u", 'a' + (int)(key % 2), key);
        return names[key];
}

static void happened(unsigned key, uint64_t seed)
{
        memset(sh->value[key], 0, sizeof(sh->value[key]));
        sh->value[key][0] = seed;
}

static void may_have_happened(unsigned key, uint64_t seed)
{
        unsigned i;

        for (i = 0; i < MAYBE && sh->value[key][i] != 0 && sh->value[key][i] != seed; i++)
                ;
        CHECK(i < MAYBE, "more changes than a test should make");
        sh->value[key][i] = seed;
}

static void put(unsigned key, bool size_known)
{
        uint64_t seed = sh->next_seed++;
        int rv = sf_put(&sf, key % sf.loop_count, sh->bucket, key_of(key), seed, size_of(key), size_known, NULL);

        if (rv == 0)
                happened(key, seed);
        else
                may_have_happened(key, seed);
}

static void drop(unsigned key)
{
        bool existed;

        if (sf_delete(&sf, key % sf.loop_count, sh->bucket, key_of(key), &existed) == 0)
                happened(key, ABSENT);
        else
                may_have_happened(key, ABSENT);
}

static void multipart(unsigned key)
{
        struct eng_complete_part parts[2];
        uint8_t id[ENG_ID_LEN];
        uint64_t seed = sh->next_seed++;
        size_t half = size_of(key) / 2;

        if (sf_upload(&sf, sh->bucket, key_of(key), id) != 0)
                return;
        parts[0].number = 1;
        parts[1].number = 2;
        if (sf_part(&sf, 0, sh->bucket, key_of(key), id, 1, seed, 0, half, parts[0].id) != 0 ||
            sf_part(&sf, 1, sh->bucket, key_of(key), id, 2, seed, half, size_of(key) - half, parts[1].id) != 0) {
                sf_upload_abort(&sf, sh->bucket, key_of(key), id);
                return;
        }
        if (sf_complete(&sf, sh->bucket, key_of(key), id, parts, 2) == 0)
                happened(key, seed);
        else
                may_have_happened(key, seed);
}

/*
 * What is read is something that it may be. sure: an answer there must be, and what is found now is
 * so from now on.
 */
static void look_at(unsigned key, bool sure)
{
        uint64_t seed = 0;
        int rv = 0;
        unsigned i;

        for (i = 0; i < MAYBE && (seed = sh->value[key][i]) != 0; i++) {
                rv = sf_get(&sf, (key + i) % sf.loop_count, sh->bucket, key_of(key), seed, size_of(key));
                if (seed == ABSENT ? rv == -ENOENT : rv == 0)
                        break;
                if (!sure && rv != -EILSEQ && rv != -ENOENT && rv != -EMSGSIZE)
                        return;
        }
        CHECK(i < MAYBE && seed != 0, "%s reads as nothing that it may be: %d", key_of(key), rv);
        if (sure)
                happened(key, seed);
}

/* ---- a text of the bucket: the first one makes each drive say in FORMAT that there may be some ---- */

#define TEXT_KIND 3u
#define TEXT_LEN  20000u

static void set_text(void)
{
        uint8_t *bytes = malloc(TEXT_LEN);
        uint64_t seed = sh->next_seed++;
        unsigned i;
        int rv;

        CHECK(bytes != NULL, "no memory");
        sf_fill(bytes, seed, 0, TEXT_LEN);
        rv = sf_text_set(&sf, 1, sh->bucket, TEXT_KIND, ENG_TEXT_ANY, bytes, TEXT_LEN);
        free(bytes);
        CHECK(rv == 0 || sh->faulty, "no text: %d", rv);
        sh->text_made |= rv == 0;
        if (rv == 0)
                memset(sh->text, 0, sizeof(sh->text));
        for (i = 0; i < MAYBE && sh->text[i] != 0; i++)
                ;
        CHECK(i < MAYBE, "more texts than a test should set");
        sh->text[i] = seed;
}

static void look_at_text(bool sure)
{
        uint8_t *bytes = malloc(TEXT_LEN);
        struct eng_text *text;
        unsigned i;
        int rv = sf_text(&sf, 0, sh->bucket, TEXT_KIND, &text);

        CHECK(bytes != NULL, "no memory");
        CHECK(!sure || rv == 0 || rv == -ENOENT, "the text cannot be read: %d", rv);
        for (i = 0; i < MAYBE && rv == 0 && sh->text[i] != 0; i++) {
                sf_fill(bytes, sh->text[i], 0, TEXT_LEN);
                if (eng_text_bytes(text).len == TEXT_LEN && memcmp(eng_text_bytes(text).data, bytes, TEXT_LEN) == 0)
                        break;
        }
        CHECK(rv != 0 || (i < MAYBE && sh->text[i] != 0), "the text is none that it may be");
        CHECK(rv != -ENOENT || !sh->text_made, "the text is gone");
        if (rv == 0)
                eng_text_unref(text);
        free(bytes);
}

static void look_at_all(bool sure)
{
        unsigned i;

        look_at_text(sure);
        for (i = 0; i < KEYS; i++)
                look_at(i, sure);
}

static void look_at_listing(bool sure)
{
        unsigned i, may = 0, must = 0, is = 0;
        char *text, *c;
        bool more;
        int rv;

        for (i = 0; i < KEYS; i++) {
                must += sh->value[i][0] != ABSENT && sh->value[i][1] == 0;
                may += sh->value[i][0] != ABSENT || sh->value[i][1] != 0;
        }
        text = sf_list(&sf, 0, sh->bucket, "", "", "", 1000, &rv, &more);
        CHECK(!sure || rv == 0, "no listing: %d", rv);
        for (c = text; c != NULL && *c != '\0'; c++)
                is += *c == '\n';
        free(text);
        CHECK(rv != 0 || (is >= must && is <= may), "%u names listed, not %u to %u", is, must, may);
}

static void verify(bool sure)
{
        struct eng_verify_report *r = malloc(sizeof(*r));

        CHECK(r != NULL && eng_verify_start(sf.store) == 0, "no verification");
        do {
                usleep(2000);
                eng_verify_read(sf.store, r);
        } while (r->running);
        CHECK(!sure || r->damaged_shards + r->missing_shards + r->unreadable_objects == 0,
              "verification: %" PRIu64 " damaged, %" PRIu64 " missing, %" PRIu64 " unreadable", r->damaged_shards, r->missing_shards,
              r->unreadable_objects);
        free(r);
}

/* ---- the history ----------------------------------------------------------------------------- */

/* Those open now of files of drives: how many, and one of them. */
static unsigned descriptors(char one[300])
{
        DIR *dir = opendir("/proc/self/fd");
        struct dirent *entry;
        char link[300], to[300];
        unsigned count = 0;
        ssize_t n;

        while ((entry = readdir(dir)) != NULL) {
                snprintf(link, sizeof(link), "/proc/self/fd/%s", entry->d_name);
                n = readlink(link, to, sizeof(to) - 1);
                to[n > 0 ? n : 0] = '\0';
                if (strncmp(to, sf.root, strlen(sf.root)) != 0)
                        continue;
                count++;
                memcpy(one, to, sizeof(to));
        }
        closedir(dir);
        return count;
}

static bool is_ready(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable;
}

static bool all_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == DRIVES && !h->healing && h->objects_below == 0;
}

/* All but the drive that may have ended; -1: all. */
static bool all_but(const struct eng_health *h, void *arg)
{
        const int *but = arg;
        unsigned i;

        for (i = 0; i < DRIVES; i++)
                if (h->drives[i].state != ENG_DRIVE_IN && (int)i != *but)
                        return false;
        return h->ready && h->writable;
}

static void describe(char *out, size_t cap)
{
        struct eng_health *h = malloc(sizeof(*h));
        unsigned i;
        int n;

        eng_health_read(sf.store, h);
        n = snprintf(out, cap, "ready %d writable %d %s", h->ready, h->writable, h->reason);
        for (i = 0; i < DRIVES && (size_t)n < cap; i++)
                n += snprintf(out + n, cap - (size_t)n, "; %u: %d %s", i, h->drives[i].state, h->drives[i].reason);
        free(h);
}

static bool wait_for(bool (*fine)(const struct eng_health *h, void *arg), void *arg, unsigned seconds)
{
        return !sf_stays_otherwise(&sf, fine, arg, seconds);
}

/*
 * A write or flush that the medium could not do, or what an opening needs: the only things that may
 * end a drive.
 */
static int may_have_ended(void)
{
        enum cf_kind kind = sh->fault.at.kind;
        bool reads = kind == CF_OPEN || kind == CF_READ || kind == CF_RING_READ; /* of a stat: the folder may be another one now */
        bool flushes = kind == CF_FLUSH || kind == CF_RING_FLUSH;
        bool may = flushes || (sh->fault.error == EIO && (!reads || sh->opening));

        return sh->faulty && may ? (int)sh->fault.at.drive : -1;
}

static void open_store(bool format)
{
        static const char *roots[DRIVES];
        unsigned i;
        int rv;

        for (i = 0; i < DRIVES; i++)
                roots[i] = sf.path[i];
        cf_spare((void *const *)sf.loops, SF_LOOPS_MAX + 1);
        cf_begin(&sh->seen, sh->faulty ? &sh->fault : NULL, roots, DRIVES);
        rv = sf_open(&sf, format);
        if (rv != 0 && sh->faulty && sh->seen.met) { /* refused, with nothing spoilt */
                cf_end();
                rv = sf_open(&sf, format);
        }
        CHECK(rv == 0, "it does not open: %d %s", rv, sf.error.text);
}

static void come_up(void)
{
        char text[300];

        bool ready = wait_for(is_ready, NULL, sh->faulty ? 20 : WAIT_MOST);

        sh->opening = sh->seen.met;
        if (ready)
                return;
        describe(text, sizeof(text));
        CHECK(false, "not ready: %s", text);
}

/* The fault is over: whatever it was, the store is as it should be soon. */
static void settle(void)
{
        int but = may_have_ended();
        char text[300];

        if (sh->faulty && sh->fault.for_ms > 0)
                usleep(sh->fault.for_ms * 1000);
        cf_end();
        if (wait_for(all_but, &but, 40))
                return;
        describe(text, sizeof(text));
        CHECK(false, "does not recover: %s", text);
}

static void make_bucket(void)
{
        const struct eng_bucket *b;
        int rv;

        if (sh->bucket_made)
                return;
        rv = sf_bucket(&sf, "bucket", &sh->bucket);
        if (rv != 0 && sh->faulty) {
                cf_end();
                settle();
                rv = sf_bucket(&sf, "bucket", &sh->bucket);
                if (rv == -EEXIST)
                        rv = eng_bucket_get(sf.store, (struct eng_str){"bucket", 6}, &b) == 0 ? (sh->bucket = b->id, 0) : -ENOENT;
        }
        CHECK(rv == 0, "no bucket: %d", rv);
        sh->bucket_made = true;
}

static void part_make(void)
{
        unsigned i;

        make_bucket();
        for (i = 0; i < KEYS; i++)
                put(i, i % 3 != 0);
        set_text();
        for (i = 0; i < KEYS; i += 4)
                put(i, true);
        drop(1);
        multipart(11);
        look_at_all(false);
        look_at_listing(false);
        verify(false);
}

static void part_use(void)
{
        unsigned i, turn;

        for (turn = 0; turn < 3; turn++)
                for (i = turn; i < KEYS; i += 2)
                        put(i, true);
        drop(3);
        drop(5);
        set_text();
        multipart(9);
        look_at_all(false);
        usleep(150000); /* what is dead is taken back meanwhile, or not: either is right */
        look_at_listing(false);
        put(2, true);
}

static void part_replay(void)
{
        look_at_all(false);
        look_at_listing(false);
        put(0, true);
        put(5, true);
        drop(7);
        verify(false);
}

static void part_rebuild(void)
{
        look_at_listing(false);
        put(3, true);
        put(4, true);
        look_at_all(false);
        verify(false);
}

static void run_part(void)
{
        static void (*const run[PARTS])(void) = {part_make, part_use, part_replay, part_rebuild};
        char one[300] = "";
        unsigned left;


        open_store(sh->part == 0);
        come_up();
        run[sh->part]();
        if (sh->part == 1) { /* killed, in the middle of what the fault may have left */
                if (sh->seen.count % 2 == 0 || !sh->faulty)
                        settle();
                _exit(0);
        }
        if (sh->part != 2 || !sh->faulty)
                settle();
        sf_close(&sf); /* in the part 'replay' the fault may meet the end, too */
        cf_end();
        left = descriptors(one);
        CHECK(left == 0, "%u descriptors are left open, one of %s", left, one);
}

static void run_check(void)
{
        char text[300];

        sh->faulty = false;
        cf_end();
        CHECK(sf_open(&sf, false) == 0, "it does not open any more: %s", sf.error.text);
        if (!wait_for(all_in, NULL, 60)) {
                describe(text, sizeof(text));
                CHECK(false, "not whole: %s", text);
        }

        look_at_all(true);
        look_at_all(true);
        look_at_listing(true);
        verify(true);

        sf_close(&sf);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
        char command[1200];
        va_list args;
        int rv;

        va_start(args, format);
        vsnprintf(command, sizeof(command), format, args);
        va_end(args);
        rv = system(command);
        if (rv != 0)
                abort();
}

static void begin_options(const char *root)
{
        unsigned i;

        memset(&sf, 0, sizeof(sf));
        snprintf(sf.root, sizeof(sf.root), "%s", root);
        sf.drives = DRIVES;
        sf.loop_count = 2;
        for (i = 0; i < DRIVES; i++) {
                snprintf(sf.path[i], sizeof(sf.path[i]), "%s/d%u", root, i);
                sf.paths[i] = sf.path[i];
        }
        sf.options.cache_bytes = 1;
        sf.options.log_file_bytes = 1 << 20;
        sf.options.segment_bytes = 4 << 20;
        sf.options.full_reserve_bytes = 1 << 20;
        sf.options.memtable_bytes = 256 << 10;
        sf.options.reclaim_rate = UINT64_MAX;
        sf.options.drive_wait_ms = 2000;
        sf.options.ec_k = sf.options.ec_m = 2;
}

/* In a process of its own. Fills sh->why and returns false where it did not end well. */
static bool in_process(const char *root, void (*what)(void))
{
        unsigned waited = 0;
        pid_t pid;
        int status;

        sh->why[0] = '\0';
        fflush(NULL);
        pid = fork();
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                begin_options(root);
                what();
                exit(0);
        }
        while (waitpid(pid, &status, WNOHANG) == 0) {
                usleep(5000);
                if (++waited > PATIENCE * 200) {
                        kill(pid, getenv("MILLRACE_EVERY_CALL_CORE") != NULL ? SIGSTOP : SIGKILL);
                        waitpid(pid, &status, 0);
                        snprintf(sh->why, sizeof(sh->why), "waits for ever");
                        return false;
                }
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return true;
        if (sh->why[0] == '\0')
                snprintf(sh->why, sizeof(sh->why), "died: status %x", (unsigned)status);
        return false;
}

static void name_fault(const struct shared *s, char *out, size_t cap)
{
        const struct cf_fault *f = &s->fault;

        snprintf(out, cap, "%s %u %s %s %#" PRIx64 " %u %d %u %d", part_names[s->part], f->at.drive, cf_kind_names[f->at.kind],
                 f->at.class_of[0] != '\0' ? f->at.class_of : "-", f->at.offset, f->at.count, f->error, f->for_ms, f->everywhere);
}

/* What stood before the part is in BASE/PART: the folders, and what is known of them. */
struct base {
        char root[128];
        struct shared before[PARTS];
};

static bool run_fault(const struct base *base, unsigned part, const struct cf_fault *fault, unsigned job, bool *met)
{
        char root[200], name[200];
        bool ok;

        snprintf(root, sizeof(root), "%s/job%u", base->root, job);
        shell("rm -rf %s; cp -a --sparse=always %s/%s %s", root, base->root, part_names[part], root);
        *sh = base->before[part];
        sh->part = part;
        sh->fault = *fault;
        sh->faulty = true;
        name_fault(sh, name, sizeof(name));
        ok = in_process(root, run_part);
        *met = sh->seen.met;
        if (!ok)
                print_error("MILLRACE_EVERY_CALL=\"%s\": %s: %s\n", name, strerror(fault->error), sh->why);
        else if (!(ok = in_process(root, run_check)))
                print_error("MILLRACE_EVERY_CALL=\"%s\": %s: afterwards: %s\n", name, strerror(fault->error), sh->why);
        if (!ok)
                shell("addr2line -pfse /proc/%d/exe %#" PRIx64 " >&2 || true", (int)getpid(), fault->at.offset - 1);
        shell("rm -rf %s", root);
        return ok;
}

/* ---- which ----------------------------------------------------------------------------------- */

struct point {
        unsigned part;
        struct cf_fault fault;
};

struct points {
        struct point *all;
        size_t count, room;
};

static uint64_t seed;

static uint32_t some(uint32_t below)
{
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)((seed >> 33) % below);
}

static void add(struct points *points, unsigned part, const struct cf_site *site, uint32_t nth, int error, uint32_t ms, bool everywhere)
{
        struct point *p;

        if (points->count == points->room) {
                points->room = points->room * 2 + 1000;
                points->all = realloc(points->all, points->room * sizeof(*points->all));
        }
        p = &points->all[points->count++];
        memset(p, 0, sizeof(*p));
        p->part = part;
        p->fault.at = *site;
        p->fault.at.count = nth;
        p->fault.error = error;
        p->fault.for_ms = ms;
        p->fault.everywhere = everywhere;
        p->fault.seed = some(1000);
}

/* Slot 0 and another are victims. Each of its calls, and from one of them on for a while. */
static void add_site(struct points *points, unsigned part, const struct cf_site *site, bool all)
{
        const int *e;
        uint32_t nth;

        if (site->drive != 0 && site->drive != 2)
                return;
        for (e = cf_errors(site->kind); *e != 0; e++) {
                if (all)
                        for (nth = 1; nth <= site->count; nth++)
                                add(points, part, site, nth, *e, 0, false);
                else
                        add(points, part, site, 1 + some(site->count), *e, 0, false);
                add(points, part, site, 1 + some(site->count), *e, WHILE, false);
                if (*e != EIO && site->kind != CF_FLUSH && site->kind != CF_RING_FLUSH)
                        add(points, part, site, 1 + some(site->count), *e, WHILE, true);
        }
}

static void shuffle(struct points *points)
{
        size_t i;

        for (i = points->count; i > 1; i--) {
                size_t j = some((uint32_t)i);
                struct point p = points->all[i - 1];

                points->all[i - 1] = points->all[j];
                points->all[j] = p;
        }
}

/* ---- the test -------------------------------------------------------------------------------- */

static struct shared *shared_memory(void)
{
        void *at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (at == MAP_FAILED)
                abort();
        return at;
}

static void make_base(struct base *base, struct points *points, bool all)
{
        const char *folder = getenv("TMPDIR");
        char root[200];
        unsigned part, i;

        snprintf(base->root, sizeof(base->root), "%s/mr-every-XXXXXX", folder != NULL ? folder : "/tmp");
        assert_non_null(mkdtemp(base->root));
        snprintf(root, sizeof(root), "%s/now", base->root);
        shell("mkdir -p %s/d0 %s/d1 %s/d2 %s/d3", root, root, root, root);
        memset(sh, 0, sizeof(*sh));
        sh->next_seed = 100;
        for (i = 0; i < KEYS; i++)
                happened(i, ABSENT);
        for (part = 0; part < PARTS; part++) {
                if (part == 3)
                        shell("rm -rf %s/d0/index", root);
                shell("cp -a --sparse=always %s %s/%s", root, base->root, part_names[part]);
                base->before[part] = *sh;
                sh->part = part;
                if (!in_process(root, run_part))
                        fail_msg("without a fault: %s: %s", part_names[part], sh->why);
                for (i = 0; i < sh->seen.count; i++)
                        add_site(points, part, &sh->seen.sites[i], all);
                if (getenv("MILLRACE_EVERY_CALL_LIST") != NULL)
                        for (i = 0; i < sh->seen.count; i++)
                                fprintf(stderr, "%s %u %s %s %#" PRIx64 " %u\n", part_names[part], sh->seen.sites[i].drive,
                                        cf_kind_names[sh->seen.sites[i].kind], sh->seen.sites[i].class_of, sh->seen.sites[i].offset,
                                        sh->seen.sites[i].count);
        }
        if (!in_process(root, run_check))
                fail_msg("without a fault: %s", sh->why);
        shell("rm -rf %s", root);
}

/*
 * One of JOBS processes: each JOBS-th point, until the time is over. What it has come to goes down
 * the pipe.
 */
static void run_job(const struct base *base, const struct points *points, unsigned job, time_t end, int out)
{
        unsigned counts[3] = {0, 0, 0}; /* run, met, failed */
        bool met = false;
        size_t i;

        sh = shared_memory();
        for (i = job; i < points->count && (end == 0 || time(NULL) < end); i += JOBS) {
                if (!run_fault(base, points->all[i].part, &points->all[i].fault, job, &met))
                        counts[2]++;
                counts[0]++;
                counts[1] += met;
        }
        if (write(out, counts, sizeof(counts)) != (ssize_t)sizeof(counts))
                abort();
        _exit(0);
}

static void run_jobs(const struct base *base, const struct points *points, unsigned seconds, unsigned sum[3])
{
        unsigned job, i, counts[3];
        time_t end = seconds > 0 ? time(NULL) + (time_t)seconds : 0;
        int ends[2];

        assert_int_equal(pipe(ends), 0);
        fflush(NULL);
        for (job = 0; job < JOBS; job++)
                if (fork() == 0)
                        run_job(base, points, job, end, ends[1]);
        for (job = 0; job < JOBS; job++) {
                int status;

                assert_true(wait(&status) > 0);
                assert_int_equal(status, 0);
                assert_int_equal(read(ends[0], counts, sizeof(counts)), sizeof(counts));
                for (i = 0; i < 3; i++)
                        sum[i] += counts[i];
        }
        close(ends[0]);
        close(ends[1]);
}

static bool parse(const char *text, struct point *p)
{
        char part[16], kind[16], class_of[8];
        int everywhere;

        memset(p, 0, sizeof(*p));
        if (sscanf(text, "%15s %u %15s %7s %" SCNx64 " %u %d %u %d", part, &p->fault.at.drive, kind, class_of, &p->fault.at.offset, &p->fault.at.count,
                   &p->fault.error, &p->fault.for_ms, &everywhere) != 9)
                return false;
        p->fault.everywhere = everywhere != 0;
        if (strcmp(class_of, "-") != 0)
                strcpy(p->fault.at.class_of, class_of);
        while (p->part < PARTS && strcmp(part, part_names[p->part]) != 0)
                p->part++;
        while (p->fault.at.kind < CF_KINDS && strcmp(kind, cf_kind_names[p->fault.at.kind]) != 0)
                p->fault.at.kind++;
        return p->part < PARTS && p->fault.at.kind < CF_KINDS;
}

static void test_every_call(void **state)
{
        const char *one = getenv("MILLRACE_EVERY_CALL"), *seconds = getenv("MILLRACE_EVERY_CALL_SECONDS"), *given = getenv("SEED");
        unsigned limit = seconds != NULL ? (unsigned)atoi(seconds) : 1, sum[3] = {0, 0, 0};
        static struct base base;
        struct points points = {0};
        struct point point;
        bool met, ok = true;

        seed = given != NULL ? strtoull(given, NULL, 0) : 1; /* the same ones each time, unless asked for others */
        print_message("SEED=%" PRIu64 "\n", seed);
        sh = shared_memory();
        make_base(&base, &points, limit == 0);
        if (one != NULL) {
                assert_true(parse(one, &point));
                ok = run_fault(&base, point.part, &point.fault, 0, &met);
                print_message("%s\n", met ? "met" : "not met");
        } else if (seconds != NULL) {
                shuffle(&points);
                run_jobs(&base, &points, limit, sum);
                print_message("%zu points, %u run, %u met, %u failed\n", points.count, sum[0], sum[1], sum[2]);
                ok = sum[2] == 0 && sum[1] > 0;
        }
        free(points.all);
        shell("rm -rf %s", base.root);
        assert_true(ok);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_call),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
