/*
 * drive_scrub.c - what lies in closed log files and in segments of a closed drive goes bad, its
 * index does not: a round of SCRUB finds all of it, and nothing else.
 *
 * The judge is the file itself: a record is whole if its header and its body are what their
 * checksums say, a shard if READ gives all of it. What is not whole, and is named, must be known to
 * the drive behind the round; what is whole must not.
 */
#include "tests/sim/drive/world.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ec.h"
#include "engine/drive/local.h"
#include "tests/lib/body_fixture.h"
#include "tests/sim/drive/disk.h"

#define PLACES_MAX  6u
#define TRIES       64u
#define AGAIN_MAX   1000u
#define SECTOR      512u

static uint64_t scrub_below(uint64_t n)
{
        return sim_below(SIM_SCRUB, n);
}

/* ---- what goes bad --------------------------------------------------------------------------- */

/* The file has a header: it is not one made ahead. */
static bool is_begun(const char *folder, const char *name)
{
        char path[DISK_PATH_MAX];
        uint32_t magic = 0;
        int fd;

        snprintf(path, sizeof(path), "%.80s/%s/%.60s", world.path, folder, name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || pread(fd, &magic, sizeof(magic), 0) != (ssize_t)sizeof(magic))
                magic = 0;
        if (fd >= 0)
                close(fd);
        return magic != 0;
}

/*
 * Any of a folder's files; of the log only those before the last that was begun: damage at the end
 * of a log cannot be told from a torn write.
 */
static bool rot_file(const char *folder, char path[DISK_PATH_MAX])
{
        char name[64], newest[64] = "";
        struct dirent *entry;
        unsigned seen = 0;
        bool log = strcmp(folder, "log") == 0;
        DIR *dir;

        snprintf(path, DISK_PATH_MAX, "%.80s/%s", world.path, folder);
        dir = opendir(path);
        while (log && dir != NULL && (entry = readdir(dir)) != NULL)
                if (strcmp(entry->d_name, newest) > 0 && entry->d_name[0] != '.' && is_begun(folder, entry->d_name))
                        snprintf(newest, sizeof(newest), "%.60s", entry->d_name);
        if (dir != NULL)
                rewinddir(dir);
        while (dir != NULL && (entry = readdir(dir)) != NULL) {
                snprintf(name, sizeof(name), "%.60s", entry->d_name);
                if (name[0] != '.' && (!log || strcmp(name, newest) < 0) && scrub_below(++seen) == 0)
                        snprintf(path, DISK_PATH_MAX, "%.80s/%s/%.60s", world.path, folder, name);
        }
        if (dir != NULL)
                closedir(dir);
        return seen > 0;
}

/* Behind the file's header. Not zeroes: the end of a log file may be. */
static void rot_sector(const char *path)
{
        int fd = open(path, O_RDWR | O_CLOEXEC);
        uint8_t sector[SECTOR];
        struct stat st;
        unsigned try, i;
        off_t at;

        if (fd < 0 || fstat(fd, &st) != 0)
                sim_fail("%s cannot be spoilt", path);
        for (try = 0; try < TRIES && st.st_size > (off_t)FMT_BLOCK; try++) {
                at = (off_t)(FMT_BLOCK + scrub_below((uint64_t)st.st_size - FMT_BLOCK) / SECTOR * SECTOR);
                if (pread(fd, sector, sizeof(sector), at) != (ssize_t)sizeof(sector))
                        continue;
                for (i = 0; i < sizeof(sector) && sector[i] == 0; i++)
                        ;
                if (i == sizeof(sector))
                        continue;
                if (scrub_below(2) == 0)
                        for (i = 0; i < sizeof(sector); i++)
                                sector[i] = (uint8_t)(1 + scrub_below(255));
                else
                        sector[scrub_below(sizeof(sector))] ^= (uint8_t)(1u << scrub_below(8));
                sim_trace("rot: %s at %llx", path, (unsigned long long)at);
                if (pwrite(fd, sector, sizeof(sector), at) == (ssize_t)sizeof(sector))
                        world_figures.rotten++;
                break;
        }
        close(fd);
}

static void rot(void)
{
        uint64_t places = 1 + scrub_below(PLACES_MAX);
        char path[DISK_PATH_MAX];

        while (places-- > 0)
                if (rot_file(scrub_below(2) == 0 ? "data" : "log", path))
                        rot_sector(path);
}

/* ---- a round --------------------------------------------------------------------------------- */

/* Where the log ends that it has read: number of a file. */
static uint64_t whole_round(void)
{
        struct fmt_drive_scrub state = {.segment = 0};
        unsigned again = 0;
        bool ended = false;

        while (!ended) {
                struct act *act = act_new(0, NULL);

                act->slot = aligned_alloc(4096, LP_SLOT_SIZE);
                assert(act->slot != NULL);
                act->op.scrub.what = ENG_SCRUB_READ;
                act->op.scrub.state = state;
                act->op.scrub.most = 1u << (12 + scrub_below(10));
                act->op.scrub.slot = act->slot;
                if (!act_run(act, ENG_OP_SCRUB))
                        sim_fail("the process of a drive that rots has died");
                if (act->op.result == -EAGAIN && again++ < AGAIN_MAX) {
                        act_end(act);
                        continue;
                }
                if (act->op.result != 0)
                        sim_fail("SCRUB: %s", strerror(-act->op.result));
                state = act->op.scrub.state;
                ended = act->op.scrub.ended;
                if (act->op.scrub.damaged)
                        world_figures.rot_found++;
                eng_buf_unref(act->op.scrub.names);
                act_end(act);
        }
        return (state.last & ENG_UNREADABLE_LOG) != 0 ? state.last & ~ENG_UNREADABLE_LOG : 0;
}

/* ---- what is known then ---------------------------------------------------------------------- */

static int place_of(unsigned at, unsigned flags, uint64_t *file, uint64_t *position)
{
        struct act *act = act_new(0, NULL);
        int rv;

        fill_lookup(&act->op, at);
        act->op.flags = flags;
        if (!act_run(act, ENG_OP_LOOKUP))
                sim_fail("the process of a drive that rots has died");
        rv = act->op.result;
        if (rv == 0) {
                *file = ((const struct fmt_value *)act->op.lookup.value->data)->log_file;
                *position = ((const struct fmt_value *)act->op.lookup.value->data)->log_position;
        }
        eng_buf_unref(act->op.lookup.value);
        eng_buf_unref(act->op.lookup.bytes);
        act_end(act);
        return rv;
}

static bool record_whole(uint64_t number, uint64_t position)
{
        struct eng_local *l = eng_local_of(world.drive);
        struct eng_log_file *file = eng_log_files_find(&l->files, number);
        char name[ENG_LOGFILE_NAME_MAX], path[DISK_PATH_MAX];
        struct eng_log_ident ident = {.file = number};
        struct fmt_record rec;
        uint8_t *body = malloc(FMT_BODY_MAX);
        bool whole = false;
        int fd;

        eng_logfile_name(name, number);
        snprintf(path, sizeof(path), "%.80s/log/%.60s", world.path, name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (file == NULL || fd < 0 || body == NULL)
                sim_fail("a name's value stands in %s, which is not there", path);
        memcpy(ident.drive_id, l->files.drive_id, FMT_ID);
        ident.generation = file->generation;
        if (pread(fd, &rec, sizeof(rec), (off_t)position) == (ssize_t)sizeof(rec) && rec.magic == FMT_RECORD_MAGIC &&
            eng_rec_ok(&rec, &ident, position))
                whole = pread(fd, body, rec.body_len, (off_t)(position + sizeof(rec))) == (ssize_t)rec.body_len &&
                        era_crc32c(0, body, rec.body_len) == rec.body_crc;
        close(fd);
        free(body);
        return whole;
}

static void check_rotten_name(unsigned at, uint64_t last)
{
        uint64_t file = 0, position = 0, file_then = 0, position_then = 0;
        int rv, then;

        rv = place_of(at, 0, &file, &position);
        then = place_of(at, ENG_OP_WANT_RECORD, &file_then, &position_then);
        if (then == 0) {
                if (file_then <= last && !record_whole(file_then, position_then))
                        sim_fail("scrub has not found that the record of name %u is damaged, at %llx of file %llu", at,
                                 (unsigned long long)position_then, (unsigned long long)file_then);
        } else if (then == -EBADMSG && rv == 0) {
                if (place_of(at, 0, &file_then, &position_then) == 0 && file == file_then && position == position_then &&
                    record_whole(file, position))
                        sim_fail("the record of name %u is whole, and said to be damaged, at %llx of file %llu", at,
                                 (unsigned long long)position, (unsigned long long)file);
        }
}

static bool shard_held(unsigned id, uint32_t stripe)
{
        struct act *act = act_new(0, NULL);
        bool held;

        fx_id(act->op.held.object_id, id);
        act->op.held.stripe = stripe;
        act->op.held.count = 1;
        if (!act_run(act, ENG_OP_HELD) || act->op.result != 0)
                sim_fail("HELD: %s", strerror(-act->op.result));
        held = (act->op.held.bits[0] & 1) != 0;
        act_end(act);
        return held;
}

static void check_rotten_shards(unsigned id)
{
        uint32_t stripe;

        for (stripe = 0; stripe < model.values[id].stripes; stripe++) {
                struct act *act = act_new(0, NULL);
                bool held = shard_held(id, stripe);

                fill_read(act, id, stripe);
                if (!act_run(act, ENG_OP_READ))
                        sim_fail("the process of a drive that rots has died");
                if (held && act->op.result == -EBADMSG)
                        sim_fail("scrub has not found that shard %u of value %u is damaged", stripe, id);
                if (!held && act->op.result == 0)
                        sim_fail("shard %u of value %u is whole, and said to be damaged", stripe, id);
                act_end(act);
        }
}

void scrub_drive(void)
{
        struct eng_error error;
        uint64_t last;
        unsigned i;

        world_close();
        rot();
        disk_begin();
        if (world_open(&error) != 0)
                sim_fail("a drive whose closed files rot cannot be opened: %s", error.text);
        if (!world_lead() || !settle_again())
                sim_fail("the process of a drive that rots has died");
        last = whole_round();
        for (i = 0; i < NAMES; i++)
                check_rotten_name(i, last);
        for (i = 1; i < model.value_count; i++)
                if (model.values[i].kind == VALUE_SHARDS && model.values[i].shards == SHARDS_SYNCED && value_lives(i))
                        check_rotten_shards(i);
        world_figures.rounds++;
}
