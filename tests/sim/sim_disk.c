/*
 * sim_disk.c - simulated disks: what survives, and the folders of engine/drive/drive.h over them.
 */
#include "tests/sim/sim_alloc.h"
#include "tests/sim/sim_disk.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive/identity.h"
#include "tests/sim/sim.h"

struct sim_disk sim_disks[SIM_DISKS];
unsigned sim_disk_count;
uint32_t sim_pg_count;
bool sim_loose_order;
struct sim_figures sim_figures;

/* ---- life ------------------------------------------------------------------------------------ */

void sim_disks_make(unsigned count)
{
        unsigned i;

        memset(sim_disks, 0, sizeof(sim_disks));
        sim_disk_count = 0;
        for (i = 0; i < count; i++)
                sim_disk_new()->use = SIM_DISK_SERVES;
}

struct sim_disk *sim_disk_new(void)
{
        struct sim_disk *disk = &sim_disks[sim_disk_count];

        if (sim_disk_count == SIM_DISKS)
                return NULL;
        snprintf(disk->path, sizeof(disk->path), "sim:%u", sim_disk_count);
        disk->number = sim_disk_count++;
        disk->use = SIM_DISK_NEW;
        disk->present = true;
        return disk;
}

static bool is_of_store(const struct sim_disk *disk)
{
        return disk->use == SIM_DISK_SERVES || disk->use == SIM_DISK_LOST;
}

unsigned sim_disks_serving(void)
{
        unsigned i, n = 0;

        for (i = 0; i < sim_disk_count; i++)
                n += is_of_store(&sim_disks[i]);
        return n;
}

unsigned sim_disks_away(void)
{
        unsigned i, n = 0;

        for (i = 0; i < sim_disk_count; i++)
                n += is_of_store(&sim_disks[i]) &&
                     (sim_disks[i].use == SIM_DISK_LOST || !sim_disks[i].present || sim_disks[i].unreadable || sim_drive_failed(&sim_disks[i]) || sim_drive_is_cut(&sim_disks[i]));
        return n;
}

void sim_index_clear(struct sim_index *index)
{
        sim_names_clear(&index->names);
        free(index->pgs);
        memset(index, 0, sizeof(*index));
}

static void clear_image(struct sim_image *image)
{
        unsigned i;

        for (i = 0; i < image->frame_count; i++)
                eng_buf_unref(image->frames[i].payload);
        free(image->frames);
        sim_index_clear(&image->index);
        memset(image, 0, sizeof(*image));
}

void sim_disks_free(void)
{
        unsigned i;
        uint64_t r;

        for (i = 0; i < sim_disk_count; i++) {
                struct sim_disk *disk = &sim_disks[i];

                if (disk->open != NULL)
                        sim_drive_crash(disk->open, false);
                sim_drive_free_retired(disk);
                for (r = 0; r < disk->log_count; r++)
                        eng_buf_unref(disk->log[r].body);
                free(disk->log);
                while (disk->frame_count > 0)
                        sim_disk_drop_frame(disk, disk->frame_count - 1);
                free(disk->frames);
                sim_index_clear(&disk->index);
                clear_image(&disk->image);
        }
        sim_disk_count = 0;
}

/* ---- the log --------------------------------------------------------------------------------- */

void sim_disk_append(struct sim_disk *disk, const struct fmt_record *rec, struct eng_buf *body)
{
        if (disk->log_count == disk->log_size) {
                disk->log_size = disk->log_size * 2 + 64;
                disk->log = realloc(disk->log, disk->log_size * sizeof(disk->log[0]));
                assert(disk->log != NULL);
        }
        disk->log[disk->log_count] = (struct sim_record){.rec = *rec, .body = body == NULL ? NULL : eng_buf_ref(body)};
        disk->log[disk->log_count].rec.position = disk->log_count;
        disk->log_count++;
}

/* ---- frames ---------------------------------------------------------------------------------- */

const char *sim_id(const uint8_t id[FMT_ID])
{
        static char text[32];

        snprintf(text, sizeof(text), "%u.%u.%u", (unsigned)id[2] << 8 | id[3], id[5], (unsigned)id[14] << 8 | id[15]);
        return text;
}

struct sim_frame *sim_disk_frame(struct sim_disk *disk)
{
        struct sim_frame *frame = calloc(1, sizeof(*frame));

        if (disk->frame_count == disk->frame_size) {
                disk->frame_size = disk->frame_size * 2 + 64;
                disk->frames = realloc(disk->frames, disk->frame_size * sizeof(disk->frames[0]));
        }
        assert(frame != NULL && disk->frames != NULL);
        disk->frames[disk->frame_count++] = frame;
        return frame;
}

void sim_disk_drop_frame(struct sim_disk *disk, unsigned at)
{
        eng_buf_unref(disk->frames[at]->payload);
        free(disk->frames[at]);
        memmove(&disk->frames[at], &disk->frames[at + 1], (disk->frame_count - at - 1) * sizeof(disk->frames[0]));
        disk->frame_count--;
}

struct sim_frame *sim_disk_find(const struct sim_disk *disk, const uint8_t id[FMT_ID], uint32_t stripe, unsigned shard)
{
        struct sim_frame *best = NULL;
        unsigned i;

        for (i = 0; i < disk->frame_count; i++) {
                struct sim_frame *f = disk->frames[i];

                if (f->written != 0 && f->discarded == 0 && f->stripe == stripe && f->shard == shard &&
                    memcmp(f->object_id, id, FMT_ID) == 0 && (best == NULL || f->written > best->written))
                        best = f;
        }
        return best;
}

void sim_disk_set_index(struct sim_disk *disk, struct sim_index *next)
{
        unsigned i;

        sim_index_clear(&disk->index);
        disk->index = *next;
        memset(next, 0, sizeof(*next));
        for (i = disk->frame_count; i-- > 0;)
                if (disk->frames[i]->discarded != 0 && disk->frames[i]->discarded <= disk->index.generation)
                        sim_disk_drop_frame(disk, i);
}

/* What of a frame is there after the process, or the power, went. False: nothing. */
static bool frame_survives(struct sim_frame *frame, bool power)
{
        if (frame->written == 0)
                return sim_chance(SIM_FAULTS, 4); /* it was on its way */
        if (frame->synced || !power || sim_chance(SIM_FAULTS, 2))
                return true;
        frame->damaged |= sim_chance(SIM_FAULTS, 4); /* its header is there, but not all of its bytes */
        return frame->damaged;
}

void sim_disk_crash(struct sim_disk *disk, bool power)
{
        unsigned i;

        if (disk->open != NULL)
                sim_drive_crash(disk->open, power);
        disk->open = NULL;
        for (i = disk->frame_count; i-- > 0;) {
                struct sim_frame *frame = disk->frames[i];

                frame->discarded = 0; /* by a batch of the index that was lost */
                if (!frame_survives(frame, power)) {
                        sim_figures.lost_frames++;
                        sim_trace("  disk %u: frame %s stripe %u shard %u is lost", disk->number,
                                  sim_id(frame->object_id), frame->stripe, frame->shard);
                        sim_disk_drop_frame(disk, i);
                        continue;
                }
                if (frame->written == 0)
                        frame->written = ++disk->written;
                frame->synced = true; /* the index names none that was not flushed, and an opening flushes the others */
        }
}

/* ---- disks that lose what they acknowledged -------------------------------------------------- */

static void copy_index(struct sim_index *to, const struct sim_index *from)
{
        memset(to, 0, sizeof(*to));
        sim_names_copy(&to->names, &from->names);
        to->pgs = calloc(from->pg_count + 1, sizeof(to->pgs[0]));
        assert(to->pgs != NULL);
        if (from->pg_count > 0)
                memcpy(to->pgs, from->pgs, from->pg_count * sizeof(to->pgs[0]));
        to->pg_count = from->pg_count;
        to->covered = from->covered;
        to->reach = from->reach;
        to->generation = from->generation;
}

void sim_disk_image(struct sim_disk *disk)
{
        struct sim_image *image = &disk->image;
        unsigned i;

        clear_image(image);
        image->taken = true;
        image->log_count = disk->log_count;
        copy_index(&image->index, &disk->index);
        image->frames = calloc(disk->frame_count + 1, sizeof(image->frames[0]));
        assert(image->frames != NULL);
        for (i = 0; i < disk->frame_count; i++) {
                image->frames[i] = *disk->frames[i];
                eng_buf_ref(image->frames[i].payload);
        }
        image->frame_count = disk->frame_count;
}

static void cut_log(struct sim_disk *disk, uint64_t count)
{
        while (disk->log_count > count)
                eng_buf_unref(disk->log[--disk->log_count].body);
}

void sim_disk_restore(struct sim_disk *disk)
{
        struct sim_image *image = &disk->image;
        unsigned i;

        sim_trace("disk %u: put back to an image, with %llu of %llu records", disk->number,
                  (unsigned long long)image->log_count, (unsigned long long)disk->log_count);
        sim_figures.images_restored++;
        cut_log(disk, image->log_count);
        sim_index_clear(&disk->index);
        copy_index(&disk->index, &image->index);
        while (disk->frame_count > 0)
                sim_disk_drop_frame(disk, disk->frame_count - 1);
        for (i = 0; i < image->frame_count; i++) {
                struct sim_frame *frame = sim_disk_frame(disk);

                *frame = image->frames[i];
                eng_buf_ref(frame->payload);
        }
        disk->rolled_back = disk->lied = true;
}

void sim_disk_cut(struct sim_disk *disk, uint64_t records)
{
        uint64_t keep = disk->log_count > records + 1 ? disk->log_count - records : 1;

        sim_trace("disk %u: its cache lied: %llu of %llu records are left", disk->number, (unsigned long long)keep,
                  (unsigned long long)disk->log_count);
        sim_figures.cuts++;
        cut_log(disk, keep);
        disk->rolled_back = disk->lied = true;
}

/* ---- folders (engine/drive/drive.h) ---------------------------------------------------------- */

static struct sim_disk *disk_of(const char *path)
{
        unsigned i;

        for (i = 0; i < sim_disk_count; i++)
                if (strcmp(sim_disks[i].path, path) == 0)
                        return &sim_disks[i];
        return NULL;
}

int eng_folder_probe(const char *path, enum eng_folder_state *state, struct eng_identity *identity,
                     struct eng_error *error)
{
        const struct sim_disk *disk = disk_of(path);

        if (disk == NULL || !disk->present) {
                *state = ENG_FOLDER_ABSENT;
        } else if (!disk->formatted) {
                *state = ENG_FOLDER_EMPTY;
        } else {
                *state = ENG_FOLDER_DRIVE;
                *identity = disk->identity;
        }
        return 0;
}

/* The store gets as many groups as the history wants: few make many keys share one. */
int eng_folder_prepare(const char *path, const struct eng_identity *identity, const void *epoch_body, size_t epoch_len,
                       struct eng_error *error)
{
        struct sim_disk *disk = disk_of(path);
        struct eng_buf *body = sim_buf_new(epoch_len);
        struct fmt_epoch *epoch = (struct fmt_epoch *)body->data;
        struct fmt_record rec = {.type = FMT_RECORD_EPOCH, .body_len = (uint32_t)epoch_len};

        memcpy(body->data, epoch_body, epoch_len);
        epoch->pg_count = sim_pg_count;
        rec.epoch = epoch->number;
        sim_disk_append(disk, &rec, body);
        eng_buf_unref(body);
        disk->identity = *identity;
        return 0;
}

int eng_folder_finish(const char *path, struct eng_error *error)
{
        disk_of(path)->formatted = true;
        return 0;
}

int eng_folder_format(const char *path, const struct eng_identity *identity, const void *epoch_body, size_t epoch_len,
                      struct eng_error *error)
{
        eng_folder_prepare(path, identity, epoch_body, epoch_len, error);
        return eng_folder_finish(path, error);
}

int eng_folder_lock(int dir_fd, const char *path, int *lock_fd, struct eng_error *error)
{
        *lock_fd = dir_fd;
        return 0;
}

int eng_error_set(struct eng_error *error, int rv, const char *format, ...)
{
        va_list args;

        if (error == NULL)
                return rv;
        va_start(args, format);
        vsnprintf(error->text, sizeof(error->text), format, args);
        va_end(args);
        return rv;
}
