/*
 * test_scrub_segment.c - SCRUB on a real drive: every kind of rot is found, and nothing that is
 * well, dead or half written is taken for it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/drive/local.h"
#include "tests/lib/fd_faults.h"
#include "tests/lib/shard_fixture.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

#define SEGMENT (4u << 20)
#define FOUND_MAX 2048u

struct round {
        struct fmt_drive_scrub state;
        unsigned stretches, count;
        uint32_t remembered;
        struct {
                uint64_t id;
                uint32_t stripe;
        } found[FOUND_MAX];
};

static uint64_t id_of(const uint8_t id[FMT_ID])
{
        uint8_t other[FMT_ID];
        uint64_t i;

        for (i = 0; i < 1000; i++) {
                fx_id(other, i);
                if (memcmp(other, id, FMT_ID) == 0)
                        return i;
        }
        return UINT64_MAX;
}

static int stretch(struct fx *fx, struct round *r, uint32_t most, bool *ended)
{
        struct fx_op op = {.op = {.kind = ENG_OP_SCRUB}};
        uint8_t *slot = sh_new_slot();
        int rv;

        op.op.scrub.what = ENG_SCRUB_READ;
        op.op.scrub.state = r->state;
        op.op.scrub.most = most;
        op.op.scrub.slot = slot;
        rv = fx_run(fx, &op);
        free(slot);
        if (rv != 0)
                return rv;
        r->stretches++;
        r->state = op.op.scrub.state;
        r->remembered = op.op.scrub.remembered;
        *ended = op.op.scrub.ended;
        if (op.op.scrub.damaged) {
                assert_true(r->count < FOUND_MAX);
                assert_int_equal(op.op.scrub.shard, SH_SHARD);
                r->found[r->count].stripe = op.op.scrub.stripe;
                r->found[r->count++].id = id_of(op.op.scrub.object_id);
        }
        return 0;
}

static struct round whole_round(struct fx *fx, uint32_t most)
{
        struct round r = {.stretches = 0};
        bool ended = false;

        while (!ended)
                assert_int_equal(stretch(fx, &r, most, &ended), 0);
        return r;
}

static struct fmt_drive_scrub load(struct fx *fx)
{
        struct fx_op op = {.op = {.kind = ENG_OP_SCRUB}};

        op.op.scrub.what = ENG_SCRUB_LOAD;
        assert_int_equal(fx_run(fx, &op), 0);
        return op.op.scrub.state;
}

static bool held(struct fx *fx, uint64_t id, uint32_t stripe)
{
        struct fx_op op = {.op = {.kind = ENG_OP_HELD}};

        fx_id(op.op.held.object_id, id);
        op.op.held.stripe = stripe;
        op.op.held.shard = SH_SHARD;
        op.op.held.count = 1;
        assert_int_equal(fx_run(fx, &op), 0);
        return (op.op.held.bits[0] & 1) != 0;
}

static bool was_found(const struct round *r, uint64_t id, uint32_t stripe)
{
        unsigned i;

        for (i = 0; i < r->count; i++)
                if (r->found[i].id == id && r->found[i].stripe == stripe)
                        return true;
        return false;
}

static void make(struct fx *fx)
{
        fx_make(fx, 1);
        fx->options.segment_bytes = SEGMENT;
        fx->options.reclaim_rate = ENG_RECLAIM_OFF;
        assert_int_equal(fx_open(fx), 0);
}

static void write_one(struct fx *fx, uint64_t id, uint32_t stripe, uint32_t len)
{
        assert_int_equal(sh_write(fx, id, stripe, len), 0);
        assert_int_equal(sh_sync(fx), 0);
}

/* The last frame of this shard among the drive's files; its file is open. -1: none. */
static int find_frame(struct fx *fx, uint64_t id, uint32_t stripe, off_t *at)
{
        struct fmt_frame frame;
        char path[512];
        struct dirent *e;
        uint8_t object_id[FMT_ID];
        off_t position;
        int fd, found = -1;
        DIR *dir;

        fx_id(object_id, id);
        snprintf(path, sizeof(path), "%s/data", fx->path);
        dir = opendir(path);
        assert_non_null(dir);
        while ((e = readdir(dir)) != NULL) {
                if (strstr(e->d_name, ".seg") == NULL)
                        continue;
                snprintf(path, sizeof(path), "%s/data/%s", fx->path, e->d_name);
                fd = open(path, O_RDWR);
                assert_true(fd >= 0);
                for (position = FMT_BLOCK; pread(fd, &frame, sizeof(frame), position) == sizeof(frame); position += FMT_BLOCK) {
                        if (frame.magic != FMT_FRAME_MAGIC || frame.stripe != stripe ||
                            memcmp(frame.object_id, object_id, FMT_ID) != 0)
                                continue;
                        *at = position;
                        if (found >= 0 && found != fd)
                                close(found);
                        found = fd;
                }
                if (found != fd)
                        close(fd);
        }
        closedir(dir);
        return found;
}

/* Flips a bit of a byte of the frame; offset 0: of its header. */
static void flip(struct fx *fx, uint64_t id, uint32_t stripe, off_t offset)
{
        uint8_t byte;
        off_t at = 0;
        int fd = find_frame(fx, id, stripe, &at);

        assert_true(fd >= 0);
        assert_int_equal(pread(fd, &byte, 1, at + offset), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at + offset), 1);
        assert_int_equal(fsync(fd), 0);
        close(fd);
}

static void wipe(struct fx *fx, uint64_t id, uint32_t stripe, size_t len)
{
        void *zeroes = calloc(1, len);
        off_t at = 0;
        int fd = find_frame(fx, id, stripe, &at);

        assert_true(fd >= 0 && zeroes != NULL);
        assert_int_equal(pwrite(fd, zeroes, len, at), len);
        assert_int_equal(fsync(fd), 0);
        close(fd);
        free(zeroes);
}

static const uint32_t lens[] = {4096, 65536, 16384 + 4096, 524288, 1 << 20, (1 << 20) - 4096, 8192, 131072};
#define LENS (sizeof(lens) / sizeof(lens[0]))

static void fill(struct fx *fx)
{
        unsigned i;

        for (i = 0; i < 3 * LENS; i++)
                assert_int_equal(sh_write(fx, i, i % 3, lens[i % LENS]), 0);
        assert_int_equal(sh_sync(fx), 0);
}

static void test_all_is_well(void **state)
{
        struct round r;
        struct fx fx;

        make(&fx);
        r = whole_round(&fx, 1 << 20); /* nothing there */
        assert_int_equal(r.state.frames + r.state.total, 0);
        fill(&fx);
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.state.frames, 3 * LENS);
        assert_int_equal(r.state.damaged, 0);
        assert_true(r.stretches > 3 && r.state.bytes <= r.state.total);
        r = whole_round(&fx, ENG_SCRUB_STRETCH);
        assert_int_equal(r.state.frames, 3 * LENS);
        assert_int_equal(r.remembered, 0);
        r = whole_round(&fx, 1);
        assert_int_equal(r.state.frames, 3 * LENS);
        assert_true(r.stretches > 4);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.state.frames, 3 * LENS);
        fx_destroy(&fx);
}

/* A bit anywhere in the frame, but for what names the shard. */
static void test_every_location(void **state)
{
        static const long locations[] = {FMT_BLOCK, FMT_BLOCK + 1, FMT_BLOCK + 16383, FMT_BLOCK + 16384, FMT_BLOCK + 65535,
                                      offsetof(struct fmt_frame, magic), offsetof(struct fmt_frame, header_crc),
                                      offsetof(struct fmt_frame, drive_id), offsetof(struct fmt_frame, segment),
                                      offsetof(struct fmt_frame, generation), offsetof(struct fmt_frame, position),
                                      offsetof(struct fmt_frame, payload_len), offsetof(struct fmt_frame, payload_len) + 2,
                                      offsetof(struct fmt_frame, block_crc), offsetof(struct fmt_frame, key_hash),
                                      offsetof(struct fmt_frame, flags), 4095};
        const unsigned n = sizeof(locations) / sizeof(locations[0]);
        struct round r;
        struct fx fx;
        unsigned i;

        make(&fx);
        for (i = 0; i < 2 * n; i++)
                write_one(&fx, i, 7, 65536);
        for (i = 0; i < n; i++)
                flip(&fx, 2 * i, 7, locations[i]);
        r = whole_round(&fx, 1 << 20);
        for (i = 0; i < 2 * n; i++) {
                assert_int_equal(was_found(&r, i, 7), i % 2 == 0);
                assert_int_equal(held(&fx, i, 7), i % 2 != 0);
        }
        assert_int_equal(r.count, n);
        assert_int_equal(r.state.damaged, n);
        assert_int_equal(r.state.frames, n);
        assert_int_equal(r.remembered, n);
        for (i = 0; i < n; i++) /* the repair: at another place */
                write_one(&fx, 2 * i, 7, 65536);
        r = whole_round(&fx, 1);
        assert_int_equal(r.count + r.remembered, 0);
        for (i = 0; i < 2 * n; i++)
                assert_true(held(&fx, i, 7));
        fx_destroy(&fx);
}

/*
 * The header does not say any more which shard it was of: its place is known to be bad all the
 * same, over a restart too.
 */
static void test_nameless_header(void **state)
{
        struct round r;
        struct fx fx;
        unsigned i;

        make(&fx);
        for (i = 0; i < 6; i++)
                write_one(&fx, i, 0, 65536);
        flip(&fx, 1, 0, offsetof(struct fmt_frame, object_id) + 3);
        flip(&fx, 3, 0, offsetof(struct fmt_frame, shard));
        wipe(&fx, 4, 0, FMT_BLOCK); /* beside the one before */
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.count, 0);
        assert_int_equal(r.state.frames, 3);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 6; i++)
                assert_int_equal(held(&fx, i, 0), i != 1 && i != 3 && i != 4);
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.remembered, 3); /* since somebody asked for them */
        write_one(&fx, 1, 0, 65536);
        assert_true(held(&fx, 1, 0));
        fx_destroy(&fx);
}

/* What nothing names is not damaged, and hides nothing behind it. */
static void test_dead_rot(void **state)
{
        struct round r;
        struct fx fx;
        unsigned i;

        make(&fx);
        for (i = 0; i < 8; i++)
                write_one(&fx, i, 0, 65536);
        for (i = 0; i < 8; i += 2) {
                flip(&fx, i, 0, i < 4 ? FMT_BLOCK + 77 : offsetof(struct fmt_frame, generation));
                if (i % 4 == 0)
                        assert_int_equal(sh_discard(&fx, i), 0);
                else
                        write_one(&fx, i, 0, 65536);
        }
        wipe(&fx, 0, 0, FMT_BLOCK + 65536); /* a hole */
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.count + r.remembered, 0);
        for (i = 0; i < 8; i++)
                assert_int_equal(held(&fx, i, 0), i % 4 != 0);
        fx_destroy(&fx);
}

/*
 * A read that fails is damage of what lies there, and costs the error budget; once it does not fail
 * any more, nothing is damaged.
 */
static void test_unreadable(void **state)
{
        struct eng_drive_info info;
        struct fd_faults faults;
        struct round r;
        struct fx fx;
        unsigned i;

        make(&fx);
        for (i = 0; i < 4; i++)
                write_one(&fx, i, 0, 8192);
        r = whole_round(&fx, 1 << 20); /* the files are open now */
        assert_int_equal(r.state.frames, 4);
        fd_faults_unreadable(&faults, ".seg");
        r = whole_round(&fx, 1 << 20);
        fd_faults_end(&faults);
        eng_drive_info(fx.local, &info);
        assert_int_equal(info.state, ENG_DRIVE_IN);
        assert_int_equal(info.read_errors, 4 * 3);
        assert_int_equal(r.state.frames, 0);
        for (i = 0; i < 4; i++)
                assert_false(held(&fx, i, 0));
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.state.frames, 4);
        assert_int_equal(r.count + r.remembered, 0);
        for (i = 0; i < 4; i++)
                assert_true(held(&fx, i, 0));
        fx_destroy(&fx);
}

/* Places that cannot be read end a stretch as well as others: nobody else would get his turn. */
static void test_unreadable_ends_a_stretch(void **state)
{
        struct round r = {.stretches = 0};
        struct fd_faults faults;
        bool ended = false;
        struct fx fx;
        unsigned i;

        make(&fx);
        for (i = 0; i < 9; i++)
                write_one(&fx, i, 0, (1 << 20) - 4096);
        assert_int_equal(whole_round(&fx, 1 << 20).state.frames, 9);
        fd_faults_unreadable(&faults, ".seg");
        assert_int_equal(stretch(&fx, &r, 1 << 20, &ended), 0);
        fd_faults_end(&faults);
        assert_false(ended);
        assert_true(r.state.bytes <= 2u << 20);
        while (!ended)
                assert_int_equal(stretch(&fx, &r, 1 << 20, &ended), 0);
        assert_true(r.state.frames >= 7);
        fx_destroy(&fx);
}

/* What was a larger gap for a while: what of it is bad still is remembered on. */
static void test_rest_of_a_gap(void **state)
{
        struct fd_faults faults;
        struct fx fx;
        unsigned i;

        make(&fx);
        for (i = 0; i < 4; i++)
                write_one(&fx, i, 0, 8192);
        assert_int_equal(whole_round(&fx, 1 << 20).state.frames, 4);
        fd_faults_unreadable(&faults, ".seg");
        assert_int_equal(whole_round(&fx, 1 << 20).state.frames, 0);
        fd_faults_end(&faults);
        wipe(&fx, 0, 0, FMT_BLOCK);
        wipe(&fx, 2, 0, FMT_BLOCK);
        assert_int_equal(whole_round(&fx, 1 << 20).state.frames, 2);
        for (i = 0; i < 4; i++)
                assert_int_equal(held(&fx, i, 0), i % 2 != 0);
        fx_destroy(&fx);
}

/* A byte of the payload of every frame. */
static void flip_all(struct fx *fx)
{
        struct fmt_frame frame;
        char path[512];
        struct dirent *e;
        off_t position;
        uint8_t byte;
        DIR *dir;
        int fd;

        snprintf(path, sizeof(path), "%s/data", fx->path);
        dir = opendir(path);
        assert_non_null(dir);
        while ((e = readdir(dir)) != NULL) {
                if (strstr(e->d_name, ".seg") == NULL)
                        continue;
                snprintf(path, sizeof(path), "%s/data/%s", fx->path, e->d_name);
                fd = open(path, O_RDWR);
                assert_true(fd >= 0);
                for (position = FMT_BLOCK; pread(fd, &frame, sizeof(frame), position) == sizeof(frame); position += FMT_BLOCK) {
                        if (frame.magic != FMT_FRAME_MAGIC)
                                continue;
                        assert_int_equal(pread(fd, &byte, 1, position + FMT_BLOCK + 7), 1);
                        byte ^= 0x10;
                        assert_int_equal(pwrite(fd, &byte, 1, position + FMT_BLOCK + 7), 1);
                }
                assert_int_equal(fsync(fd), 0);
                close(fd);
        }
        closedir(dir);
}

/* More than is remembered: what was found last is, so that who is told of it finds it missing. */
static void test_more_than_remembered(void **state)
{
        const unsigned n = ENG_SCRUB_REMEMBERED + 6;
        struct round *r = calloc(1, sizeof(*r));
        unsigned i, missing = 0;
        struct fx fx;

        assert_non_null(r);
        make(&fx);
        for (i = 0; i < n; i++)
                assert_int_equal(sh_write(&fx, i / 128, i % 128, 4096), 0);
        assert_int_equal(sh_sync(&fx), 0);
        flip_all(&fx);
        *r = whole_round(&fx, 1 << 20);
        assert_int_equal(r->count, n);
        assert_int_equal(r->remembered, ENG_SCRUB_REMEMBERED);
        for (i = 0; i < n; i++)
                missing += !held(&fx, i / 128, i % 128);
        assert_int_equal(missing, ENG_SCRUB_REMEMBERED);
        for (i = n - 6; i < n; i++)
                assert_false(held(&fx, r->found[i].id, r->found[i].stripe));
        fx_destroy(&fx);
        free(r);
}

/* What lay in a file that is not there any more is missing, though no scrub comes to it. */
static void test_lost_file(void **state)
{
        char path[512];
        struct fx fx;
        unsigned i;

        make(&fx);
        for (i = 0; i < 6; i++)
                write_one(&fx, i, 0, 1 << 20);
        fx_close(&fx);
        snprintf(path, sizeof(path), "%s/data/%016x.seg", fx.path, 1);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(whole_round(&fx, 1 << 20).state.frames, 3);
        for (i = 0; i < 6; i++)
                assert_int_equal(held(&fx, i, 0), i >= 3);
        write_one(&fx, 0, 0, 1 << 20);
        assert_true(held(&fx, 0, 0));
        fx_destroy(&fx);
}

static void remove_segments(struct fx *fx)
{
        char command[512];

        snprintf(command, sizeof(command), "rm -f '%s'/data/*.seg", fx->path);
        assert_int_equal(system(command), 0);
}

/*
 * Another segment does not get the number of one that is lost: shards of the lost one that are
 * discarded would be counted for it.
 */
static void test_lost_number(void **state)
{
        struct fx fx;
        unsigned i;

        make(&fx);
        for (i = 0; i < 3; i++)
                write_one(&fx, i, 0, 65536);
        fx_close(&fx);
        remove_segments(&fx);
        for (i = 0; i < 2; i++) { /* twice without a write */
                assert_int_equal(fx_open(&fx), 0);
                assert_false(held(&fx, 0, 0));
                fx_close(&fx);
        }
        assert_int_equal(fx_open(&fx), 0);
        for (i = 10; i < 13; i++)
                write_one(&fx, i, 0, 65536);
        for (i = 0; i < 3; i++)
                assert_int_equal(sh_discard(&fx, i), 0);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        sh_wait_files(&fx, "data", ".seg", 1); /* the one that was prepared goes */
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 10; i < 13; i++)
                assert_int_equal(sh_read(&fx, i, 0, 65536), 0);
        fx_destroy(&fx);
}

struct discarded {
        struct eng_local *l;
        bool all;
};

static void look_discarded(void *arg)
{
        struct discarded *discarded = arg;

        discarded->all =
                discarded->l->file.free_job.state == ENG_JOB_IDLE && eng_segments_each(discarded->l->segments, NULL) == NULL;
}

/* The drive has no segment any more, knows it, and so will its index. */
static bool wait_discarded(struct fx *fx)
{
        struct discarded discarded = {.l = eng_local_of(fx->local)};

        assert_true(sh_wait_files(fx, "data", ".seg", 0));
        WAIT_UNTIL((fx_call(fx, 0, look_discarded, &discarded), discarded.all));
        return discarded.all;
}

/*
 * A segment that is gone, and one that got its number at a later start: what was wrong with the
 * first says nothing of the other.
 */
static void test_number_given_again(void **state)
{
        char path[256];
        struct fx fx;
        unsigned i;

        make(&fx);
        for (i = 0; i < 4; i++)
                write_one(&fx, i, 0, 65536);
        wipe(&fx, 1, 0, FMT_BLOCK);
        assert_int_equal(whole_round(&fx, 1 << 20).state.frames, 3);
        for (i = 0; i < 4; i++)
                assert_int_equal(sh_discard(&fx, i), 0);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        assert_true(wait_discarded(&fx));
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0); /* only now it is known not to matter, and the index does not say so yet */
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 10; i < 14; i++)
                write_one(&fx, i, 0, 65536);
        fx_first(&fx, "data", path, sizeof(path));
        assert_non_null(strstr(path, "/0000000000000001.seg"));
        for (i = 10; i < 14; i++)
                assert_true(held(&fx, i, 0));
        fx_destroy(&fx);
}

/* A restart goes on where it was and knows what was found; without the index it begins anew. */
static void test_restart(void **state)
{
        struct round r = {.stretches = 0};
        struct fmt_drive_scrub kept;
        bool ended = false;
        struct fx fx;

        make(&fx);
        fill(&fx);
        flip(&fx, 0, 0, FMT_BLOCK);
        while (r.count == 0)
                assert_int_equal(stretch(&fx, &r, 1 << 20, &ended), 0);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        kept = load(&fx);
        assert_memory_equal(&kept, &r.state, sizeof(kept));
        assert_false(held(&fx, 0, 0));
        while (!ended)
                assert_int_equal(stretch(&fx, &r, 1 << 20, &ended), 0);
        assert_int_equal(r.count, 1);
        assert_int_equal(r.state.frames, 3 * LENS - 1);
        assert_int_equal(r.remembered, 1);
        fx_close(&fx);
        sh_remove_index(&fx);
        assert_int_equal(fx_open(&fx), 0);
        kept = load(&fx);
        assert_int_equal(kept.segment, 0);
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.count, 1);
        fx_destroy(&fx);
}

/* Segments that go while the scrub is in them, or are others than it knew. */
static void test_segments_go(void **state)
{
        struct round r = {.stretches = 0}, odd;
        bool ended = false;
        struct fx fx;
        unsigned i;

        make(&fx);
        for (i = 0; i < 12; i++)
                write_one(&fx, i, 0, 1 << 20);
        assert_int_equal(stretch(&fx, &r, 1, &ended), 0);
        for (i = 0; i < 6; i++)
                assert_int_equal(sh_discard(&fx, i), 0);
        assert_true(sh_wait_files(&fx, "data", ".seg", 4));
        odd = r;
        odd.state.generation++;
        while (!ended)
                assert_int_equal(stretch(&fx, &r, 1 << 20, &ended), 0);
        assert_int_equal(r.state.damaged, 0);
        assert_true(r.state.frames >= 1 + 6);
        odd.state.position = UINT64_MAX - 5;
        for (ended = false; !ended;)
                assert_int_equal(stretch(&fx, &odd, 1 << 20, &ended), 0);
        odd.state.position = 4097;
        assert_int_equal(stretch(&fx, &odd, 1 << 20, &ended), 0);
        fx_destroy(&fx);
}

static void test_refusals(void **state)
{
        struct fx_op op = {.op = {.kind = ENG_OP_SCRUB}};
        struct fx fx;

        make(&fx);
        op.op.scrub.what = ENG_SCRUB_READ;
        assert_int_equal(fx_run(&fx, &op), -EINVAL);
        op.op.scrub.most = ENG_SCRUB_STRETCH + 1;
        op.op.scrub.slot = &op;
        assert_int_equal(fx_run(&fx, &op), -EINVAL);
        fx_destroy(&fx);
}

static void test_random(void **state)
{
        const char *given = getenv("SEED");
        unsigned seed = given != NULL ? (unsigned)atoi(given) : (unsigned)time(NULL), i, n, rotten[64] = {0}, dead[64] = {0};
        struct round r;
        struct fx fx;

        print_message("SEED=%u\n", seed);
        make(&fx);
        for (i = 0; i < 64; i++)
                assert_int_equal(sh_write(&fx, i, i % 5, FMT_BLOCK * (1 + (uint32_t)rand_r(&seed) % (i % 7 == 0 ? 256 : 30))), 0);
        assert_int_equal(sh_sync(&fx), 0);
        for (n = 0; n < 20; n++) {
                i = (unsigned)rand_r(&seed) % 64;
                if (rotten[i])
                        continue;
                flip(&fx, i, i % 5, rand_r(&seed) % (2 * FMT_BLOCK)); /* header or payload */
                rotten[i] = 1;
        }
        for (n = 0; n < 10; n++) {
                i = (unsigned)rand_r(&seed) % 64;
                assert_int_equal(sh_discard(&fx, i), 0);
                dead[i] = 1;
        }
        r = whole_round(&fx, 1 + (uint32_t)rand_r(&seed) % ENG_SCRUB_STRETCH);
        for (i = 0; i < 64; i++) {
                assert_int_equal(held(&fx, i, i % 5), !rotten[i] && !dead[i]);
                assert_false(was_found(&r, i, i % 5) && !(rotten[i] && !dead[i]));
        }
        fx_destroy(&fx);
}

struct gone_segment {
        struct fx *fx;
        uint64_t id;
};

static void remember_gone(void *arg)
{
        struct gone_segment *gone = arg;
        struct eng_local *l = (struct eng_local *)gone->fx->local;
        struct eng_segment *segment = NULL;

        while ((segment = eng_segments_each(l->segments, segment)) != NULL)
                gone->id = segment->id + 2;
        eng_rot_add_gap(l, gone->id, FMT_BLOCK, SEGMENT, false);
}

static void check_numbers(void *arg)
{
        struct gone_segment *gone = arg;
        struct eng_local *l = (struct eng_local *)gone->fx->local;

        assert_null(eng_segment_find(l->segments, gone->id));
        assert_non_null(eng_segment_from(l->segments, gone->id));
}

/*
 * A row speaks of a segment that is gone, and the highest it was: its number is not given again, so
 * that a new one is not taken for it.
 */
static void test_number_of_a_row(void **state)
{
        struct fx fx;
        struct gone_segment gone = {.fx = &fx};
        uint64_t id;

        fx_make(&fx, 1);
        fx.options.segment_bytes = SEGMENT;
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(sh_write(&fx, 0, 0, 65536), 0);
        assert_int_equal(sh_sync(&fx), 0);
        fx_call(&fx, 0, remember_gone, &gone);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        for (id = 1; id < 400; id++)
                assert_int_equal(sh_write(&fx, id, 0, 65536), 0);
        assert_int_equal(sh_sync(&fx), 0);
        for (id = 1; id < 400; id++)
                assert_true(held(&fx, id, 0));
        fx_call(&fx, 0, check_numbers, &gone);
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_is_well), cmocka_unit_test(test_every_location),
                cmocka_unit_test(test_nameless_header), cmocka_unit_test(test_dead_rot),
                cmocka_unit_test(test_unreadable), cmocka_unit_test(test_restart),
                cmocka_unit_test(test_segments_go), cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_unreadable_ends_a_stretch), cmocka_unit_test(test_rest_of_a_gap),
                cmocka_unit_test(test_more_than_remembered), cmocka_unit_test(test_number_given_again), cmocka_unit_test(test_lost_file),
                cmocka_unit_test(test_lost_number), cmocka_unit_test(test_number_of_a_row),
                cmocka_unit_test(test_random),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
