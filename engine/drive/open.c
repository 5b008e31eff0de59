/*
 * open.c - opening a local drive.
 *
 * Called on a thread of its own per drive, before any loop knows the drive: lock the folder, see
 * that it is the drive meant, open the index (a new one when it is gone or damaged: I4), take in
 * what segments hold beyond it, replay the log, start the workers. A message to the owner loop
 * starts the rest (the tick) once that loop runs.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/frame.h"
#include "engine/drive/identity.h"

/* ---- the folder ------------------------------------------------------------------------------ */

static int check_identity(struct eng_local *l, struct eng_error *error)
{
        const struct eng_identity *expected = &l->options.identity;
        enum eng_folder_state state;
        struct eng_identity found;
        int rv;

        rv = eng_folder_probe(l->path, &state, &found, error);
        if (rv != 0)
                return rv;
        if (state != ENG_FOLDER_DRIVE)
                return eng_error_set(error, -ENOENT, "%s is not a drive", l->path);
        if (memcmp(found.store_id, expected->store_id, FMT_ID) != 0 ||
            memcmp(found.drive_id, expected->drive_id, FMT_ID) != 0 || found.slot != expected->slot)
                return eng_error_set(error, -EBADMSG, "%s is another drive than the one expected", l->path);
        if (found.features & ~expected->features & FMT_FEATURE_SITES) /* marked since it was looked at: whoever did that held the lock */
                return eng_error_set(error, -EINVAL, "%s: has become a cluster's (millrace admin cluster adopt)", l->path);
        l->terms.guarded = ((found.features | expected->features) & FMT_FEATURE_TERMS) != 0;
        /*
         * The store has taken the decision: it refuses drives of an older layout unless they are to
         * be upgraded, or others were. And it has features that its drives are to have.
         */
        if (found.layout < FMT_LAYOUT_VERSION || (expected->features & ~found.features) != 0) {
                found.features |= expected->features;
                return eng_folder_upgrade(l->dir_fd, l->path, &found, error);
        }
        if (found.features != 0 && fsync(l->dir_fd) != 0) /* the rename that set them may not be durable */
                return eng_error_set(error, -errno, "%s cannot be synced: %s", l->path, strerror(errno));
        return 0;
}

static int open_folder(struct eng_local *l, struct eng_error *error)
{
        int rv;

        l->dir_fd = open(l->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (l->dir_fd < 0)
                return eng_error_set(error, -errno, "%s cannot be opened: %s", l->path, strerror(errno));
        rv = eng_folder_lock(l->dir_fd, l->path, &l->lock_fd, error);
        if (rv == 0)
                rv = check_identity(l, error);
        if (rv != 0)
                return rv;
        if (fstatat(l->dir_fd, "FORMAT", &l->format, 0) != 0)
                return eng_error_set(error, -errno, "%s/FORMAT: %s", l->path, strerror(errno));
        rv = eng_space_get(l->dir_fd, &l->space);
        if (rv != 0)
                return eng_error_set(error, rv, "%s: its file system cannot be looked at: %s", l->path, strerror(-rv));
        l->files.dir_fd = openat(l->dir_fd, "log", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (l->files.dir_fd < 0)
                return eng_error_set(error, -errno, "%s/log cannot be opened: %s", l->path, strerror(errno));
        return 0;
}

/* ---- the index ------------------------------------------------------------------------------- */

static int open_index(struct eng_local *l, struct eng_error *error)
{
        char path[sizeof(l->path) + 8];
        struct eng_index_options options = {.path = path, .map_bytes = l->options.index_map_bytes};
        int rv;

        snprintf(path, sizeof(path), "%s/index", l->path);
        memcpy(options.drive_id, l->files.drive_id, FMT_ID);
        if (mkdirat(l->dir_fd, "index", 0700) != 0 && errno != EEXIST)
                return eng_error_set(error, -errno, "%s cannot be made: %s", path, strerror(errno));
        rv = eng_index_open(&options, &l->index);
        if (rv == -ENOENT || rv == -EBADMSG || rv == -ESTALE || rv == -EIO) { /* EIO: perhaps only its file is bad */
                rv = eng_index_remove(path);
                if (rv == 0)
                        rv = eng_index_create(&options, &l->index);
        }
        if (rv == 0)
                rv = eng_index_reader_new(l->index, &l->reader);
        if (rv == 0)
                rv = eng_index_reader_new(l->index, &l->second_reader);
        if (rv == 0)
                rv = eng_damage_log_lost(l);
        if (rv != 0)
                return eng_error_set(error, rv, "%s cannot be opened: %s", path, strerror(-rv));
        return 0;
}

static int load_log_row(void *arg, const struct fmt_index_log *row)
{
        struct eng_local *l = arg;
        struct eng_log_file *file = eng_log_files_find(&l->files, row->file);

        if (file != NULL) {
                eng_log_file_set_live(&l->files, file, row->live_names, row->live_bytes);
                file->tombstones = row->tombstones;
                file->end_crc = row->end_crc;
        }
        return 0;
}

static int load_pg_row(void *arg, const struct fmt_index_pg *row)
{
        struct eng_local *l = arg;
        struct eng_log_pg *pg = eng_pgs_get(&l->pgs, row->pg);

        if (pg == NULL)
                return -ENOMEM;
        pg->applied = pg->seen = row->seq;
        pg->committed = row->seq;
        pg->marked = row->committed;
        pg->epoch = pg->applied_epoch = row->epoch;
        return 0;
}

/*
 * Builds that don't know the row leave it as it is, so it may be older than what is covered: then
 * that says more.
 */
static int load_reach(struct eng_local *l)
{
        const struct fmt_index_covered *covered = &l->covered, *reach = &l->reach;
        int rv = eng_index_reach(l->reader, &l->reach);

        if (rv == -ENOENT || reach->file < covered->file || (reach->file == covered->file && reach->position <= covered->position))
                memset(&l->reach, 0, sizeof(l->reach));
        return rv == -ENOENT ? 0 : rv;
}

static int load_rows(struct eng_local *l)
{
        uint64_t unknown = 0;
        int rv;

        rv = eng_damage_load(l, l->reader);
        if (rv == 0)
                rv = eng_index_covered(l->reader, &l->covered);
        if (rv == -ENOENT)
                return 0; /* new */
        if (rv == 0 && (l->covered.file == 0 || l->covered.position < FMT_BLOCK))
                rv = -EBADMSG;
        if (rv == 0)
                rv = load_reach(l);
        if (rv == 0)
                rv = eng_index_each_log(l->reader, load_log_row, l);
        if (rv == 0)
                rv = eng_index_each_pg(l->reader, load_pg_row, l);
        if (rv == 0)
                rv = eng_index_owners_complete(l->reader);
        l->owners_complete = rv == 1;
        if (rv >= 0)
                rv = eng_index_unknown_owners(l->reader, &unknown);
        atomic_store_explicit(&l->statistics.unknown_owners, unknown, memory_order_relaxed);
        if (rv >= 0)
                rv = eng_rot_load(l, l->reader);
        if (rv >= 0)
                rv = eng_terms_load(l, l->reader);
        return rv < 0 ? rv : eng_epochs_load(l, l->reader);
}

int eng_open_load(struct eng_local *l, struct eng_error *error)
{
        int rv = eng_index_read_begin(l->reader);

        if (rv == 0) {
                rv = load_rows(l);
                eng_index_read_end(l->reader);
        }
        eng_local_index_error(l, rv); /* the next try rebuilds it */
        if (rv == -EPROTONOSUPPORT)
                return eng_error_set(error, rv, "%s: its newest epoch has what this build does not know: written by a newer version", l->path);
        return rv == 0 ? 0 : eng_error_set(error, rv, "%s/index cannot be read: %s", l->path, strerror(-rv));
}

/* ---- segments -------------------------------------------------------------------------------- */

struct row_list {
        struct fmt_index_segment *rows;
        size_t count, size;
};

static int add_row(void *arg, const struct fmt_index_segment *row)
{
        struct row_list *list = arg;
        size_t size = list->size == 0 ? 64 : 2 * list->size;
        struct fmt_index_segment *rows;

        if (list->count == list->size) {
                rows = realloc(list->rows, size * sizeof(*rows));
                if (rows == NULL)
                        return -ENOMEM;
                list->rows = rows;
                list->size = size;
        }
        list->rows[list->count++] = *row;
        return 0;
}

static int read_rows(struct eng_local *l, struct row_list *list)
{
        int rv = eng_index_read_begin(l->reader);

        list->count = 0;
        if (rv != 0)
                return rv;
        rv = eng_index_each_segment(l->reader, add_row, list);
        eng_index_read_end(l->reader);
        return rv;
}

/* Frames beyond what the index knows, into it. One transaction per segment. */
struct intake {
        struct eng_local *l;
        struct eng_index_txn *txn;
        bool rebuilding; /* the index is new: it does not know what was there */
        bool took;       /* rows have changed */
        bool to_memtable;    /* the file system has no room for the index: places wait in memory */
};

static int known_location(const struct intake *intake, const struct fmt_frame *frame, struct eng_location *out)
{
        if (intake->to_memtable)
                return eng_location_find(intake->l, frame->object_id, frame->stripe, frame->shard, out);
        return eng_index_location_get(intake->txn, frame->object_id, frame->stripe, frame->shard, out);
}

/*
 * Is this the frame that counts? The index decides: a frame that reclaim has moved was made of one
 * that the index knew durably, so what the index says now is right, be it that one or, after a
 * discard, none. A new index takes what it finds. Of two frames of one shard (moved, or written
 * again) the later counts if every byte of it is right, else the earlier: a crash may have kept its
 * header and not its payload. 1: it counts.
 */
static int counts(const struct intake *intake, const struct eng_segment *segment, const struct fmt_frame *frame)
{
        struct eng_location other;
        int rv;

        if ((frame->flags & FMT_FRAME_MOVED) != 0 && !intake->rebuilding)
                return 0;
        rv = known_location(intake, frame, &other);
        if (rv == -ENOENT || rv == -EBADMSG)
                return 1;
        if (rv != 0 || (other.segment == segment->id && other.offset == frame->position))
                return rv;
        rv = eng_segment_verify(segment, frame);
        return rv == 0 ? 1 : rv == -EBADMSG || rv == -EIO ? 0 : rv;
}

static int open_take_location(struct intake *intake, const struct fmt_frame *frame, const struct eng_location *location)
{
        struct eng_local *l = intake->l;
        struct eng_location old;

        if (!intake->to_memtable)
                return eng_index_location_put(intake->txn, frame->object_id, location, NULL);
        if (l->active->bytes > ENG_FULL_TAILS * l->memtable_bytes)
                return -ENOSPC;
        return eng_memtable_location(l->active, frame->object_id, location, &old);
}

static int found_frame(void *arg, struct eng_segment *segment, const struct fmt_frame *frame)
{
        struct eng_location location = {.segment = segment->id,
                                  .offset = frame->position,
                                  .payload_len = frame->payload_len,
                                  .stripe = frame->stripe,
                                  .shard = frame->shard,
                                  .key_hash = eng_frame_key(frame)};
        struct intake *intake = arg;
        int rv = 0;

        if (intake->txn == NULL && !intake->to_memtable)
                rv = eng_index_write_begin(intake->l->index, &intake->txn);
        if (rv == 0)
                rv = counts(intake, segment, frame);
        if (rv == 1)
                rv = open_take_location(intake, frame, &location);
        eng_local_index_error(intake->l, rv);
        return rv < 0 ? rv : 0;
}

static int put_row(struct intake *intake, const struct eng_segment *segment)
{
        struct fmt_index_segment row;
        struct eng_index_txn *txn;
        int rv = 0;

        assert(!intake->to_memtable);
        if (intake->txn == NULL)
                rv = eng_index_write_begin(intake->l->index, &intake->txn);
        if (rv != 0)
                return rv;
        eng_segment_row(segment, &row);
        rv = eng_index_segment_put(intake->txn, &row);
        if (rv != 0)
                return rv;
        txn = intake->txn;
        intake->txn = NULL;
        return eng_index_write_commit(txn);
}

static int segment_done(void *arg, struct eng_segment *segment)
{
        struct intake *intake = arg;
        int rv;

        intake->took = true;
        if (intake->to_memtable)
                return 1; /* the batch that writes the places writes the row */
        rv = put_row(intake, segment);
        eng_local_index_error(intake->l, rv);
        return rv;
}

/*
 * An index that says of no log position that it is covered was made just now, or its making did not
 * finish.
 */
static int is_new_index(struct eng_local *l, bool *out)
{
        struct fmt_index_covered covered;
        int rv = eng_index_read_begin(l->reader);

        if (rv != 0)
                return rv;
        rv = eng_index_covered(l->reader, &covered);
        eng_index_read_end(l->reader);
        eng_local_index_error(l, rv == -ENOENT ? 0 : rv);
        *out = rv == -ENOENT;
        return *out ? 0 : rv;
}

static bool open_try_again(struct intake *intake, int *rv)
{
        if (*rv == -EFBIG) {
                *rv = eng_index_grow(intake->l->index);
                return *rv == 0;
        }
        if (*rv != -ENOSPC || intake->to_memtable)
                return false;
        intake->to_memtable = true;
        return true;
}

/*
 * The whole scan once; a segment that was taken in is not read again when it is repeated. Full is
 * not failed: a full drive opens.
 */
static int scan_segments(struct eng_local *l, bool *took, struct eng_error *error)
{
        struct intake intake = {.l = l};
        int rv = is_new_index(l, &intake.rebuilding);

        if (rv != 0)
                return eng_error_set(error, rv, "%s/index cannot be read: %s", l->path, strerror(-rv));
        do {
                rv = eng_segments_scan(l->segments, found_frame, segment_done, &intake, error);
                eng_index_write_abort(intake.txn);
                intake.txn = NULL;
        } while (rv != 0 && open_try_again(&intake, &rv));
        *took = intake.took;
        if (rv != 0 && error->text[0] == '\0')
                eng_error_set(error, rv, "%s/data cannot be read: %s", l->path, strerror(-rv));
        return rv;
}

/* The rows do not know of them. */
static void count_in_memtable(struct eng_local *l)
{
        struct eng_memtable_location *at, *next;
        struct eng_segment *segment;

        HASH_ITER (hh, l->active->locations, at, next) {
                segment = eng_segment_find(l->segments, at->location.segment);
                assert(segment != NULL); /* its scan met the frame */
                eng_segment_found_living(l->segments, segment, eng_location_bytes(&at->location));
        }
}

/*
 * Rows whose files are lost name nothing that could be read. But the last row stays, since the next
 * number is told from it: there are places yet that name it, and what becomes of them must not be
 * counted for another segment.
 */
static int drop_lost_rows(struct eng_local *l, const struct row_list *list)
{
        struct eng_index_txn *txn;
        size_t i;
        int rv;

        rv = eng_index_write_begin(l->index, &txn);
        if (rv != 0)
                return rv;
        for (i = 0; i + 1 < list->count && rv == 0; i++)
                if (eng_segment_find(l->segments, list->rows[i].segment) == NULL)
                        rv = eng_index_segment_delete(txn, list->rows[i].segment);
        if (rv == 0)
                return eng_index_write_commit(txn);
        eng_index_write_abort(txn);
        return rv;
}

static int open_segments(struct eng_local *l, struct eng_error *error)
{
        char path[sizeof(l->path) + 8];
        struct eng_segments_options options = {.path = path, .segment_bytes = l->options.segment_bytes};
        struct row_list list = {0};
        struct eng_segments_info info;
        unsigned missing;
        bool took = false;
        size_t i;
        int rv;

        snprintf(path, sizeof(path), "%s/data", l->path);
        memcpy(options.drive_id, l->files.drive_id, FMT_ID);
        rv = read_rows(l, &list);
        eng_local_index_error(l, rv);
        if (rv != 0)
                eng_error_set(error, rv, "%s/index cannot be read: %s", l->path, strerror(-rv));
        if (rv == 0)
                rv = eng_segments_open(&options, list.rows, list.count, &l->segments, &missing, error);
        if (rv == 0 && missing > 0) {
                rv = drop_lost_rows(l, &list);
                eng_local_index_error(l, rv);
        }
        if (rv == -ENOSPC)
                rv = 0; /* they do no harm, and go at another start */
        if (rv == 0)
                rv = scan_segments(l, &took, error);
        if (rv == 0 && took) {
                rv = read_rows(l, &list);
                eng_local_index_error(l, rv);
        }
        for (i = 0; i < list.count && rv == 0 && took; i++)
                eng_segments_set_live(l->segments, list.rows[i].segment, list.rows[i].live_frames,
                                      list.rows[i].live_bytes);
        if (rv == 0)
                count_in_memtable(l);
        if (rv == 0) {
                eng_segments_info(l->segments, &info);
                eng_count(&l->statistics.data_bytes, info.bytes);
        }
        free(list.rows);
        return rv;
}

/* ---- the owner loop's part ------------------------------------------------------------------- */

static void open_tick(struct lp_timer *timer)
{
        struct eng_local *l = container_of(timer, struct eng_local, tick);
        struct eng_segments_info info;

        assert(lp_self() == l->drive.owner);
        if (eng_local_failed(l))
                return;
        if (eng_local_check_watches(l))
                return;
        eng_segments_info(l->segments, &info);
        atomic_store_explicit(&l->statistics.data_bytes, info.bytes, memory_order_relaxed);
        atomic_store_explicit(&l->statistics.data_live_bytes, info.live_bytes, memory_order_relaxed);
        eng_pages_tick(l);
        eng_file_tick(l);
        eng_batch_tick(l);
        l->reclaim.look = true;
        eng_file_free_dead(l);
        eng_reclaim_tick(l);
        eng_log_kick(l);
        eng_write_retry(l, 0); /* those for whom no segment could be made */
        lp_timer_start(l->drive.owner, timer, ENG_TICK_NS);
}

static void open_start(struct lp_msg *msg)
{
        struct eng_local *l = container_of(msg, struct eng_local, start_msg);

        assert(l->opened && lp_self() == l->drive.owner);
        if (!eng_local_release(l))
                return;
        if (l->dead.count > 0 && l->options.superseded != NULL)
                l->options.superseded(l->options.arg, &l->drive, l->dead.items, l->dead.count);
        eng_buf_list_clear(&l->dead);
        l->tick.expired = open_tick;
        open_tick(&l->tick);
}

/* ---- life ------------------------------------------------------------------------------------ */

static uint64_t or_default(uint64_t value, uint64_t preset)
{
        return value != 0 ? value : preset;
}

static uint64_t log_file_bytes(const struct eng_local_options *options, uint64_t total)
{
        uint64_t bytes = eng_round_up(eng_log_file_size(options->log_file_bytes, total), FMT_BLOCK);

        return bytes < ENG_LOG_BYTES_MIN && !options->short_logs ? ENG_LOG_BYTES_MIN : bytes;
}

static struct eng_local *new_local(const struct eng_local_options *options)
{
        struct eng_local *l = calloc(1, sizeof(*l));
        unsigned i;

        if (l == NULL)
                return NULL;
        l->drive.ops = &eng_local_ops;
        l->drive.exhausted = &l->exhausted;
        l->drive.unreliable = &l->unreliable;
        l->drive.stalled = &l->stalled;
        l->drive.slot = options->identity.slot;
        memcpy(l->drive.id, options->identity.drive_id, FMT_ID);
        l->drive.owner = options->owner;
        l->options = *options;
        snprintf(l->path, sizeof(l->path), "%s", options->path);
        l->options.path = l->path;
        for (i = 0; i < FMT_ID; i++)
                snprintf(l->id_text + 2 * i, 3, "%02x", options->identity.drive_id[i]);
        l->dir_fd = l->lock_fd = l->files.dir_fd = l->log.fd = l->probe_fd = -1;
        l->holds = 1;
        l->io_limit_ns = ENG_IO_LIMIT_NS;
        l->memtable_bytes = or_default(options->memtable_bytes, ENG_MEMTABLE_BYTES_DEFAULT);
        memcpy(l->files.drive_id, options->identity.drive_id, FMT_ID);
        eng_log_files_init(&l->files);
        eng_fds_init(l, options->open_files);
        l->unit_ghosts = (struct eng_ghosts){.memory_each = ENG_UNIT_MEMORY, .most = ENG_GHOSTS_MAX};
        l->record_ghosts = (struct eng_ghosts){.memory_each = ENG_RECORD_MEMORY, .most = ENG_GHOSTS_MAX};
        TAILQ_INIT(&l->watches);
        TAILQ_INIT(&l->flights);
        TAILQ_INIT(&l->pages.line);
        TAILQ_INIT(&l->reads.waiting);
        TAILQ_INIT(&l->log.queue);
        TAILQ_INIT(&l->log.batch);
        TAILQ_INIT(&l->writes.waiting);
        TAILQ_INIT(&l->writes.flying);
        eng_pgs_init(&l->pgs);
        return l;
}

static void set_sizes(struct eng_local *l)
{
        uint64_t total = atomic_load(&l->space->total);

        l->log_file_bytes = log_file_bytes(&l->options, total);
        assert(l->log_file_bytes > 0 && l->log_file_bytes % FMT_BLOCK == 0);
        l->reserve_bytes = eng_reserve_size(l->options.full_reserve_bytes, total);
        l->options.segment_bytes = eng_segment_size(l->options.segment_bytes, total, l->reserve_bytes);
}

static int open_local(struct eng_local *l, struct eng_error *error)
{
        int rv;

        l->active = eng_memtable_new();
        l->cache = eng_cache_new(or_default(l->options.cache_bytes, ENG_CACHE_BYTES_DEFAULT));
        if (l->active == NULL || l->cache == NULL || eng_log_open(l) != 0)
                return eng_error_set(error, -ENOMEM, "%s: no memory", l->path);
        rv = open_folder(l, error);
        if (rv != 0)
                return rv;
        set_sizes(l);
        rv = open_index(l, error);
        if (rv == 0)
                rv = open_segments(l, error);
        if (rv == 0)
                rv = eng_replay(l, error);
        if (rv != 0)
                return rv;
        rv = eng_file_look(l);
        if (rv == 0)
                rv = eng_worker_start(&l->file_worker, l->drive.owner, "drive-files");
        if (rv == 0)
                rv = eng_worker_start(&l->index_worker, l->drive.owner, "drive-index");
        if (rv == 0)
                rv = eng_fds_start(l);
        if (rv == 0)
                rv = eng_reclaim_open(l);
        if (rv == 0) {
                rv = eng_pages_open(l);
                eng_local_index_error(l, rv);
        }
        if (rv != 0)
                return eng_error_set(error, rv, "%s cannot be opened: %s", l->path, strerror(-rv));
        eng_probe_open(l);
        return 0;
}

/*
 * rebuild: the index turned out to be damaged, or to know more than the log (lost), and was
 * condemned; the next try makes a new one.
 */
static int try_open(const struct eng_local_options *options, struct eng_local **out, bool *rebuild, char lost[ENG_DAMAGE_TEXT],
                    struct eng_error *error)
{
        struct eng_local *l = new_local(options);
        int rv;

        *rebuild = false;
        if (l == NULL)
                return eng_error_set(error, -ENOMEM, "%s: no memory", options->path);
        error->text[0] = '\0';
        l->log_lost = lost[0] != '\0';
        memcpy(l->damage.text, lost, ENG_DAMAGE_TEXT);
        rv = open_local(l, error);
        if (rv != 0) {
                *rebuild = l->index_condemned;
                if (l->log_lost)
                        memcpy(lost, l->damage.text, ENG_DAMAGE_TEXT);
                eng_worker_stop(&l->file_worker);
                eng_worker_stop(&l->index_worker);
                eng_fds_stop(l);
                eng_reclaim_stop(l);
                eng_local_teardown(l);
                return rv;
        }
        *out = l;
        return 0;
}

int eng_local_open(const struct eng_local_options *options, struct eng_drive **out, struct eng_error *error)
{
        struct eng_local *l = NULL;
        char lost[ENG_DAMAGE_TEXT] = "";
        bool rebuild;
        int rv;

        if (strlen(options->path) >= sizeof(l->path))
                return eng_error_set(error, -ENAMETOOLONG, "%s is too long", options->path);
        rv = try_open(options, &l, &rebuild, lost, error);
        if (rv != 0 && rebuild)
                rv = try_open(options, &l, &rebuild, lost, error);
        if (rv != 0)
                return rv;
        assert(l->holds == 1 && TAILQ_EMPTY(&l->watches)); /* opening leaves nothing under way */
        l->opened = true;
        l->start_msg.run = open_start;
        eng_local_hold(l);
        lp_post(l->drive.owner, &l->start_msg);
        *out = &l->drive;
        return 0;
}
