/*
 * spoil.c - a disk that spoils what lies on it: bytes of any file of a closed drive go bad, its
 * index perhaps with them.
 *
 * The drive was closed well, so that everything is settled and nothing is in doubt. What may be
 * found then:
 *
 * - It opens, but for a FORMAT that is not whole: nobody can know what that drive is. Its log may
 *   have lost the newest epochs.
 * - Whatever is answered is something that was there once, to the bit (I5), and nothing that was
 *   lost. What was void may be back where the log had damage: the record that said so is among what
 *   is lost.
 * - A log that lost its end is noticed by the index, whichever of its records still wait.
 * - What is not as it was left, is admitted: by an error, by the drive's word that its log had
 *   damage or its end is missing, or since it lacks the epoch that was the last thing it was asked
 *   to keep: damage at the very end of a log can't be told from a write that a crash tore, and the
 *   other members would know by that.
 * - A closed log file whose last batch goes bad is damage even where the file behind it was freed
 *   and the index is lost: it has not ended with a tear.
 * - What other members have is copied to it, as to any stale drive: then every name is right, and
 *   stays so when it is opened once more.
 */
#include "tests/sim/drive/world.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ec.h"
#include "tests/sim/drive/disk.h"

#define SECTOR       512u
#define PLACES_MAX   4u
#define ROUNDS_MAX   3u
#define TRIES        64u
#define LOGS_MOST    4096u /* numbers of log files that are looked at */
#define CALM_EVENTS  3000u
#define REBUILDS_MAX 3u

enum place { IN_LOG, IN_DATA, IN_INDEX, IN_FORMAT, PLACES };

static uint64_t below(uint64_t n)
{
        return sim_below(SIM_TROUBLE, n);
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool choose_file(const char *folder, char path[DISK_PATH_MAX])
{
        struct dirent *entry;
        unsigned seen = 0;
        DIR *dir;

        snprintf(path, DISK_PATH_MAX, "%s/%s", world.path, folder);
        dir = opendir(path);
        while (dir != NULL && (entry = readdir(dir)) != NULL)
                if (entry->d_name[0] != '.' && strcmp(entry->d_name, "lock.mdb") != 0 && below(++seen) == 0)
                        snprintf(path, DISK_PATH_MAX, "%.80s/%s/%.60s", world.path, folder, entry->d_name);
        if (dir != NULL)
                closedir(dir);
        return seen > 0;
}

static bool is_empty(const uint8_t *sector, size_t len)
{
        size_t i = 0;

        while (i < len && sector[i] == 0)
                i++;
        return i == len;
}

/* One bit of a sector, or all of it. */
static void spoil_sector(uint8_t *sector, size_t len)
{
        size_t i;

        switch (below(4)) {
        case 0:
                memset(sector, 0, len);
                break;
        case 1:
                for (i = 0; i < len; i++)
                        sector[i] = (uint8_t)sim_random(SIM_TROUBLE);
                break;
        default:
                i = below(len);
                sector[i] = (uint8_t)(sector[i] ^ 1u << below(8));
        }
}

/* A sector that something was written to. */
static void spoil_file(const char *path)
{
        int fd = open(path, O_RDWR | O_CLOEXEC);
        uint8_t sector[SECTOR];
        unsigned try = 0;
        struct stat st;
        ssize_t n = 0;
        off_t at = 0;

        if (fd < 0 || fstat(fd, &st) != 0)
                sim_fail("%s cannot be spoilt", path);
        while (try++ < TRIES && st.st_size > 0 && n == 0) {
                at = (off_t)(below((uint64_t)st.st_size) / SECTOR * SECTOR);
                n = pread(fd, sector, sizeof(sector), at);
                if (n > 0 && is_empty(sector, (size_t)n))
                        n = 0;
        }
        if (n > 0) {
                sim_trace("spoilt: %s at %llx", path, (unsigned long long)at);
                spoil_sector(sector, (size_t)n);
                if (pwrite(fd, sector, (size_t)n, at) == n)
                        world_figures.spoilt++;
        }
        close(fd);
}

static bool is_there(uint64_t number)
{
        char path[DISK_PATH_MAX];

        snprintf(path, sizeof(path), "%.80s/log/%016llx.log", world.path, (unsigned long long)number);
        return access(path, F_OK) == 0;
}

/* A log file behind which one was freed; any, if there is none. */
static bool choose_end(char path[DISK_PATH_MAX])
{
        uint64_t number = 1, gaps = 0, newest = 0;

        for (number = 1; number < LOGS_MOST; number++)
                if (is_there(number))
                        newest = number;
        for (number = 1; number < newest; number++)
                if (is_there(number) && !is_there(number + 1) && below(++gaps) == 0)
                        snprintf(path, DISK_PATH_MAX, "%.80s/log/%016llx.log", world.path, (unsigned long long)number);
        return gaps > 0 || choose_file("log", path);
}

/*
 * The last batch of a log file: where others followed, something stands in it that was
 * acknowledged.
 */
static void spoil_end(void)
{
        uint8_t sector[SECTOR];
        char path[DISK_PATH_MAX];
        struct fmt_record rec;
        uint64_t at, batch = 0;
        int fd = choose_end(path) ? open(path, O_RDWR | O_CLOEXEC) : -1;

        if (fd < 0)
                return;
        for (at = FMT_BLOCK; pread(fd, &rec, sizeof(rec), (off_t)at) == (ssize_t)sizeof(rec); at += FMT_RECORD_ALIGN)
                if (rec.magic == FMT_RECORD_MAGIC && rec.position == at)
                        batch = rec.batch;
        if (batch != 0 && pread(fd, sector, sizeof(sector), (off_t)batch) == (ssize_t)sizeof(sector)) {
                sim_trace("spoilt: %s: its last batch, at %llx", path, (unsigned long long)batch);
                spoil_sector(sector, sizeof(sector));
                if (pwrite(fd, sector, sizeof(sector), (off_t)batch) == (ssize_t)sizeof(sector))
                        world_figures.spoilt++;
        }
        close(fd);
}

/*
 * A device's cache that lied: the log ends at the beginning of a batch of the newest file that has
 * records, behind the last of clients' changes and voids: what was void then stays so. An older
 * file is never cut while a newer one has records: that would be damage, not the loss of an end.
 */
static bool lose_end(void)
{
        uint64_t number = 1, at, batch = 0, cut = 0, batches = 0;
        char path[DISK_PATH_MAX];
        struct fmt_record rec;
        struct stat st;
        bool done;
        int fd;

        for (at = 1; at < LOGS_MOST; at++)
                if (is_there(at))
                        number = at;
        do { /* the newest may have been made ahead */
                snprintf(path, sizeof(path), "%.80s/log/%016llx.log", world.path, (unsigned long long)number);
                fd = open(path, O_RDWR | O_CLOEXEC);
                for (at = FMT_BLOCK; fd >= 0 && pread(fd, &rec, sizeof(rec), (off_t)at) == (ssize_t)sizeof(rec); at += FMT_RECORD_ALIGN) {
                        if (rec.magic != FMT_RECORD_MAGIC || rec.position != at)
                                continue;
                        if (rec.type == FMT_RECORD_PG || rec.type == FMT_RECORD_VOID)
                                batches = cut = 0;
                        else if (rec.batch != batch && below(++batches) == 0)
                                cut = rec.batch;
                        batch = rec.batch;
                }
                if (fd >= 0 && cut == 0)
                        close(fd);
        } while (batch == 0 && --number > 0);
        if (cut == 0)
                return false;
        if (fstat(fd, &st) != 0)
                sim_fail("%s cannot be cut", path);
        done = ftruncate(fd, (off_t)cut) == 0 && ftruncate(fd, st.st_size) == 0;
        close(fd);
        sim_trace("spoilt: %s: lost from %llx on", path, (unsigned long long)cut);
        world_figures.spoilt++;
        return done;
}

/* True: FORMAT is among it. */
static bool spoil(void)
{
        static const char *const folders[] = {"log", "data", "index"};
        unsigned places = 1 + (unsigned)below(PLACES_MAX), in;
        char path[DISK_PATH_MAX];
        bool format = false;

        while (places-- > 0) {
                in = (unsigned)below(12);
                in = in == 0 ? IN_FORMAT : in < 6 ? IN_LOG : in < 9 ? IN_DATA : IN_INDEX;
                if (in == IN_FORMAT) {
                        snprintf(path, sizeof(path), "%s/FORMAT", world.path);
                        format = true;
                } else if (!choose_file(folders[in], path)) {
                        continue;
                }
                spoil_file(path);
        }
        return format;
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static bool lacks_epoch;

/* The last thing in the log is an epoch: a log that lost its end has lost it. */
static void end_with_epoch(void)
{
        struct fmt_epoch *epoch = &model.epochs[model.epoch_count];
        struct act *act = act_new(0, NULL);

        *epoch = epoch[-1];
        epoch->number++;
        memcpy(epoch->parent, epoch->id, FMT_ID);
        epoch->id[0]++;
        model.epoch_count++;
        act->op.flags = ENG_OP_RESERVE;
        act->op.epoch = epoch->number;
        act->op.append.type = FMT_RECORD_EPOCH;
        act->op.append.body = eng_buf_new(sizeof(*epoch));
        if (act->op.append.body == NULL)
                abort();
        memcpy(act->op.append.body->data, epoch, sizeof(*epoch));
        act->op.append.body_crc = era_crc32c(0, epoch, sizeof(*epoch));
        if (!act_run(act, ENG_OP_APPEND) || act->op.result != 0)
                sim_fail("APPEND of an epoch: %s", strerror(-act->op.result));
        eng_buf_unref(act->op.append.body);
        act_end(act);
}

static void look_at_epoch(void)
{
        struct eng_epoch_history history;
        struct fmt_epoch newest;
        size_t len;
        int rv = eng_drive_epoch(world.drive, &newest, sizeof(newest), &len, &history);

        if (rv == 0 && (len != sizeof(newest) || newest.number > model_epoch()))
                sim_fail("spoilt: epoch %llu, which never was", (unsigned long long)newest.number);
        lacks_epoch = rv != 0 || newest.number < model_epoch();
}

/* ---- what is found --------------------------------------------------------------------------- */

/* The drive says of itself that something is missing. */
bool spoil_admits(void)
{
        return lacks_epoch || eng_drive_damage(world.drive) != NULL || eng_drive_log_lost(world.drive) ||
               eng_drive_index_damaged(world.drive) || world.failed;
}

static bool was_there(unsigned value)
{
        const struct value *v = &model.values[value];

        return !v->gone || (v->voided && eng_drive_damage(world.drive) != NULL);
}

static void look_at_name(unsigned at)
{
        const struct name *name = &model.names[at];
        struct act *act = act_new(0, NULL);
        unsigned value = 0;
        int rv;

        fill_lookup(&act->op, at);
        if (!act_run(act, ENG_OP_LOOKUP))
                sim_fail("the process of a spoilt drive has died");
        rv = act->op.result;
        if (rv == 0) {
                value = value_of(act->op.lookup.value);
                if (value == 0 || value >= model.value_count || model.values[value].name != at || !was_there(value) ||
                    !value_matches(value, rv, act->op.lookup.value, act->op.lookup.bytes))
                        sim_fail("spoilt: name %u is value %u, which it never was", at, value);
        } else if (rv != -ENOENT && rv != -EBADMSG && rv != -EIO) {
                sim_fail("spoilt: LOOKUP of name %u: %s", at, strerror(-rv));
        }
        if ((rv == 0 || rv == -ENOENT) && value != name->now && !spoil_admits())
                sim_fail("spoilt: name %u is value %u and not %u, and nobody says that anything is wrong", at, value, name->now);
        eng_buf_unref(act->op.lookup.value);
        eng_buf_unref(act->op.lookup.bytes);
        act_end(act);
}

static void look_at_shards(unsigned id)
{
        uint32_t stripe;

        for (stripe = 0; stripe < model.values[id].stripes; stripe++) {
                struct act *act = act_new(0, NULL);

                fill_read(act, id, stripe);
                if (!act_run(act, ENG_OP_READ))
                        sim_fail("the process of a spoilt drive has died");
                if (act->op.result == 0 && !read_right(act))
                        sim_fail("spoilt: shard %u of value %u has wrong bytes (I5)", stripe, id);
                act_end(act);
        }
}

static void look(void)
{
        unsigned i;

        for (i = 0; i < NAMES; i++)
                look_at_name(i);
        for (i = 1; i < model.value_count; i++)
                if (model.values[i].kind == VALUE_SHARDS && value_lives(i))
                        look_at_shards(i);
}

/* Index batches, reclaim: what goes on by itself. */
static void wait_a_while(void)
{
        uint64_t until = sim.events + CALM_EVENTS;

        while (sim.events < until && !world.failed)
                if (!world_step())
                        sim_fail("the process of a spoilt drive has died");
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool open_spoilt(bool format)
{
        struct eng_error error;
        int rv = world_open(&error);

        sim_trace("spoilt: opened: %d %s", rv, rv != 0 ? error.text : eng_drive_damage(world.drive) != NULL ? eng_drive_damage(world.drive) : "");
        if (rv != 0 && !format)
                sim_fail("a spoilt drive cannot be opened: %s", error.text);
        if (rv != 0)
                return false;
        look_at_epoch();
        if (!world_lead() || !settle_again())
                sim_fail("the process of a spoilt drive has died");
        return true;
}

/* A damaged index is served from until the drive is opened again, which builds it anew. */
static bool make_good(void)
{
        unsigned i;

        for (i = 0; i < REBUILDS_MAX; i++) {
                bool copied = copy_all();

                wait_a_while();
                if (copied && !eng_drive_index_damaged(world.drive) && !world.failed)
                        return true;
                if (!copied && !eng_drive_index_damaged(world.drive))
                        sim_fail("a spoilt drive takes no copies");
                sim_trace("spoilt: its index is damaged: once more");
                world_close();
                if (!open_spoilt(false))
                        return false;
        }
        sim_fail("a spoilt drive's index stays damaged");
}

static bool one_round(void)
{
        bool format = false, lost = below(4) == 0;

        if (model.epoch_count == EPOCHS_MAX)
                return false;
        if (lost && below(4) != 0) {
                leave_pending((unsigned)below(NAMES));
                copy_all();
        }
        end_with_epoch();
        world_close();
        if (lost) {
                lost = lose_end();
        } else if (below(4) == 0) {
                spoil_end();
                world_remove_index();
        } else {
                format = spoil();
                if (below(3) == 0)
                        world_remove_index();
        }
        disk_begin();
        if (!open_spoilt(format))
                return false;
        if (lost && !eng_drive_log_lost(world.drive))
                sim_fail("the log lost what the index had taken from it, and the drive does not know");
        look();
        wait_a_while();
        look();
        if (!make_good())
                return false;
        check_all_names();
        world_close();
        if (!open_spoilt(false))
                return false;
        check_all_names();
        return true;
}

void spoil_drive(void)
{
        uint64_t rounds = 1 + below(ROUNDS_MAX);
        struct eng_error error;

        disk_begin();
        world.crash_at = world.moments_left = 0;
        if (world_open(&error) != 0)
                sim_fail("it cannot be opened: %s", error.text);
        if (!world_lead() || !recover())
                sim_fail("the process has died");
        world.spoilt = true;
        scrub_drive();
        while (rounds-- > 0 && one_round())
                ;
        if (world.drive != NULL)
                world_close();
        world.spoilt = false;
}
