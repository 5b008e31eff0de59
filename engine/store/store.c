/*
 * store.c - opening and closing a store: which folders are drives of it, formatting, locks; and
 * what does not fit elsewhere.
 *
 * Runs before the loops and after them, but eng_store_start(), and the opening of a home store: that touches no loop.
 */
#include "engine/object/object.h"
#include "engine/bucket/bucket.h"
#include "engine/bucket/config_digest.h"
#include "engine/bucket/home_copy.h"
#include "engine/epoch/epoch.h"
#include "engine/upkeep/upkeep.h"
#include "engine/upkeep/lost_objects.h"
#include "engine/drive/identity.h"
#include "engine/home/home_life.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DRAIN_ROUNDS 10000u
#define DRAIN_NAPS   2000u /* of a millisecond */
#define AGAIN_MOST   100u  /* looks at a folder while the machine lacks something: five seconds */
#define AGAIN_US     50000

/* ---- what the folders are -------------------------------------------------------------------- */

struct probe {
        enum eng_folder_state state;
        struct eng_identity identity;
        int rv;                        /* what kept it from being looked at, or -ETIMEDOUT */
        struct eng_error error;
        bool there;
        dev_t device;
        ino_t inode;
};

/*
 * A look at one folder, by a thread: that of a device that does not answer may never return. Then
 * all this is left to it. One at a drive of another node ends by itself, and is waited for: the
 * opener lives no longer than the store.
 */
struct looking {
        pthread_t thread;
        bool begun;
        atomic_bool enough;            /* it looks no further */
        const struct eng_drive_opener *opener;
        char path[ENG_PATH_MAX];
        struct probe found;
};

static void *store_look_at(void *arg)
{
        struct looking *l = arg;
        struct stat st;
        unsigned i;

        for (i = 0; i < AGAIN_MOST; i++) { /* what the machine lacks says nothing of the folder */
                l->found.rv = eng_drive_probe(l->opener, l->path, &l->found.state, &l->found.identity, &l->found.error);
                if (!eng_io_again(l->found.rv) || atomic_load(&l->enough))
                        break;
                usleep(AGAIN_US);
        }
        l->found.there = stat(l->path, &st) == 0;
        if (l->found.there) {
                l->found.device = st.st_dev;
                l->found.inode = st.st_ino;
        }
        return NULL;
}

static struct looking *begin_looking(const struct eng_drive_opener *opener, const char *path)
{
        struct looking *l = calloc(1, sizeof(*l));

        if (l == NULL)
                return NULL;
        l->opener = opener;
        snprintf(l->path, sizeof(l->path), "%s", path);
        l->found.state = ENG_FOLDER_ABSENT;
        l->begun = pthread_create(&l->thread, NULL, store_look_at, l) == 0;
        if (!l->begun)
                store_look_at(l);
        return l;
}

static bool looking_ends(const struct looking *l, unsigned seconds)
{
        return !l->begun || eng_thread_ends(l->thread, seconds);
}

/* in_time: its thread has ended. Else it has been told to look no further. */
static void end_looking(struct looking *l, bool in_time, struct probe *out)
{
        if (in_time) {
                *out = l->found;
                free(l);
                return;
        }
        memset(out, 0, sizeof(*out));
        out->state = ENG_FOLDER_ABSENT;
        out->rv = eng_error_set(&out->error, -ETIMEDOUT, "%s does not answer", l->path);
        if (eng_drive_is_remote(l->opener, l->path)) {
                pthread_join(l->thread, NULL);
                free(l);
        } else {
                pthread_detach(l->thread);
        }
}

/* All side by side: those that do not answer are awaited once, not one after the other. */
static int store_look_at_all(struct eng_store *store, struct probe *probes)
{
        const struct eng_options *o = &store->options;
        struct looking *looking[ENG_DRIVES_MAX];
        uint64_t wait_ms = o->drive_wait_ms == 0 ? ENG_DRIVE_WAIT_MS : o->drive_wait_ms;
        unsigned i, j, n, wait_s = (unsigned)((wait_ms + 999) / 1000);
        int rv = 0;

        for (n = 0; n < o->drive_count && rv == 0; n++) {
                looking[n] = begin_looking(o->opener, o->drives[n]);
                if (looking[n] == NULL) {
                        rv = -ENOMEM;
                        break;
                }
        }
        for (i = 0; i < n; i++) {
                store->hangs[i] = !looking_ends(looking[i], wait_s);
                for (j = i; store->hangs[i] && j < n; j++)
                        atomic_store(&looking[j]->enough, true);
                if (store->hangs[i])
                        wait_s = 0;
                end_looking(looking[i], !store->hangs[i], &probes[i]);
        }
        return rv;
}

/*
 * An error of one folder is one of the store only where no other folder holds a drive of it, or it
 * is to be made.
 */
static bool is_fatal(const struct probe *p)
{
        return p->rv == -EPROTONOSUPPORT || p->rv == -ENOMEM;
}

static int probe_all(struct eng_store *store, struct probe *probes, struct eng_error *error)
{
        const struct eng_options *o = &store->options;
        const struct probe *bad = NULL;
        unsigned i, j, drives = 0;
        int rv;

        if (o->drive_count == 0 || o->drive_count > ENG_DRIVES_MAX)
                return eng_error_set(error, -EINVAL, "between 1 and %u drives must be given", ENG_DRIVES_MAX);
        for (i = 0; i < o->drive_count; i++)
                if (strlen(o->drives[i]) >= sizeof(((struct eng_member *)0)->path))
                        return eng_error_set(error, -ENAMETOOLONG, "%s: path too long", o->drives[i]);
        rv = store_look_at_all(store, probes);
        for (i = 0; i < o->drive_count && rv == 0; i++) {
                for (j = 0; j < i; j++)
                        if (strcmp(o->drives[i], o->drives[j]) == 0 ||
                            (probes[i].there && probes[j].there && probes[i].device == probes[j].device &&
                             probes[i].inode == probes[j].inode))
                                return eng_error_set(error, -EINVAL, "%s: given twice", o->drives[i]);
                if (probes[i].rv == 0 && probes[i].state == ENG_FOLDER_FOREIGN)
                        probes[i].rv = eng_error_set(&probes[i].error, -ENOTEMPTY,
                                                     "%s: holds other files and is no drive of a store", o->drives[i]);
                drives += probes[i].rv == 0 && probes[i].state == ENG_FOLDER_DRIVE;
                if (probes[i].rv != 0 && (bad == NULL || is_fatal(&probes[i])))
                        bad = &probes[i];
        }
        if (rv == 0 && bad != NULL && (drives == 0 || is_fatal(bad))) {
                *error = bad->error;
                rv = bad->rv;
        }
        return rv;
}

/* Not drives, nor to become any by what is known of them. */
static bool store_is_bad(const struct probe *p)
{
        return p->rv != 0;
}

static bool all_blank(const struct eng_options *o, const struct probe *probes)
{
        unsigned i;

        for (i = 0; i < o->drive_count; i++)
                if (store_is_bad(&probes[i]) || probes[i].state == ENG_FOLDER_DRIVE)
                        return false;
        return true;
}

/* A new store wants all its folders; an old one may miss some. */
static int none_absent(const struct eng_options *o, const struct probe *probes, struct eng_error *error)
{
        unsigned i;

        for (i = 0; i < o->drive_count; i++)
                if (probes[i].state == ENG_FOLDER_ABSENT)
                        return eng_error_set(error, -ENOENT, "%s: is not a folder", o->drives[i]);
        return 0;
}

/* For health: what is amiss with a folder that was given. */
static void note_folder(struct eng_store *store, const char *path, const struct probe *p)
{
        size_t n = strlen(store->empty_paths);

        snprintf(store->empty_paths + n, sizeof(store->empty_paths) - n, "%s%s%s%s", n == 0 ? "; " : ", ", store_is_bad(p) ? "" : path,
                 store_is_bad(p) ? p->error.text : " is ", store_is_bad(p) ? "" : p->state == ENG_FOLDER_ABSENT ? "not there" : "empty");
}

/* ---- formatting ------------------------------------------------------------------------------ */

static int format_all(struct eng_store *store, struct eng_error *error)
{
        const struct eng_options *o = &store->options;
        struct eng_identity identity = {.layout = FMT_LAYOUT_VERSION, .created_ms = lp_wall_ms()};
        _Alignas(8) uint8_t epoch[ENG_EPOCH_BODY_MAX];
        uint8_t ids[ENG_DRIVES_MAX][FMT_ID];
        struct eng_site sites[ENG_DRIVES_MAX];
        struct eng_epoch_info info;
        struct eng_new_pool pool = {.k = o->ec_k, .m = o->ec_m, .count = o->drive_count, .drive_ids = ids, .sites = sites};
        size_t epoch_len;
        unsigned i;
        int rv;

        lp_random(identity.store_id, FMT_ID);
        lp_random(ids, o->drive_count * FMT_ID);
        for (i = 0; i < o->drive_count; i++)
                sites[i] = o->sites != NULL ? o->sites[i] : o->site;
        rv = eng_pool_make(&pool, epoch, &epoch_len, error);
        if (rv == 0)
                rv = eng_epoch_read(epoch, epoch_len, &info);
        identity.features = rv == 0 ? info.features : 0;
        for (i = 0; i < o->drive_count && rv == 0; i++) {
                identity.slot = i;
                memcpy(identity.drive_id, ids[i], FMT_ID);
                rv = eng_folder_prepare(o->drives[i], &identity, epoch, epoch_len, error);
        }
        for (i = 0; i < o->drive_count && rv == 0; i++)
                rv = eng_folder_finish(o->drives[i], error);
        store->formatted = rv == 0;
        return rv;
}

/*
 * A crash came between the last steps of format_all(): one folder is a drive, so the others of its
 * store are prepared.
 */
static int finish_format(const struct eng_options *o, struct probe *probes, struct eng_error *error)
{
        unsigned i, first = 0;
        int rv = 0;

        while (first < o->drive_count && (store_is_bad(&probes[first]) || probes[first].state != ENG_FOLDER_DRIVE))
                first++;
        for (i = 0; i < o->drive_count && first < o->drive_count && rv == 0; i++) {
                if (store_is_bad(&probes[i]) || probes[i].state != ENG_FOLDER_PARTIAL ||
                    memcmp(probes[i].identity.store_id, probes[first].identity.store_id, FMT_ID) != 0)
                        continue;
                rv = eng_folder_finish(o->drives[i], error);
                if (rv == 0)
                        rv = eng_folder_probe(o->drives[i], &probes[i].state, &probes[i].identity, error);
        }
        return rv;
}

/* ---- recognising ----------------------------------------------------------------------------- */

static int try_lock(const char *path, struct eng_error *error)
{
        int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), lock, rv;

        if (dir < 0)
                return eng_error_set(error, -errno, "%s: %s", path, strerror(errno));
        rv = eng_folder_lock(dir, path, &lock, error);
        if (rv == 0)
                close(lock); /* taken for good when the drive is opened */
        close(dir);
        return rv;
}

static int take_drive(struct eng_store *store, const char *path, const struct probe *p, struct eng_error *error)
{
        struct eng_member *m = &store->unplaced[store->unplaced_count];
        unsigned i;
        int rv;

        assert(store->unplaced_count < ENG_DRIVES_MAX);
        if (store->unplaced_count == 0) {
                memcpy(store->store_id, p->identity.store_id, FMT_ID);
                snprintf(store->first_path, sizeof(store->first_path), "%s", path);
        } else if (memcmp(store->store_id, p->identity.store_id, FMT_ID) != 0) {
                return eng_error_set(error, -EXDEV, "%s: belongs to another store than %s", path, store->first_path);
        }
        for (i = 0; i < store->unplaced_count; i++)
                if (memcmp(store->unplaced[i].identity.drive_id, p->identity.drive_id, FMT_ID) == 0)
                        return eng_error_set(error, -EEXIST, "%s: is a copy of drive %s", path, store->unplaced[i].path);
        snprintf(m->path, sizeof(m->path), "%s", path);
        m->identity = p->identity;
        rv = eng_drive_is_remote(store->options.opener, path) ? 0 : try_lock(path, error); /* its node has locked it */
        if (eng_io_again(rv) || eng_io_full(rv))
                rv = 0; /* it has not said that it is no drive; its opening locks it for good, and is tried until it can */
        if (rv != 0 && rv != -EBUSY) { /* what cannot be locked is no drive: another one tells which store this is */
                snprintf(store->empty_paths + strlen(store->empty_paths), sizeof(store->empty_paths) - strlen(store->empty_paths), "%s%s",
                         store->empty_paths[0] == 0 ? "; " : ", ", error->text);
                return 0;
        }
        store->unplaced_count++;
        return rv;
}

const char *eng_store_unused(const struct eng_store *store)
{
        return store->empty_paths[0] == 0 ? "" : store->empty_paths + 2;
}

/*
 * An older layout is changed by the operator's word alone, since older builds refuse the store
 * afterwards. Where one drive has this build's already, the word was given: the start that had it
 * was cut short, or the others were away.
 */
static int check_layouts(const struct eng_store *store, struct eng_error *error)
{
        const struct eng_member *old = NULL;
        bool decided = store->options.upgrade;
        unsigned i;

        for (i = 0; i < store->unplaced_count; i++) {
                if (store->unplaced[i].identity.layout < FMT_LAYOUT_VERSION)
                        old = &store->unplaced[i];
                else
                        decided = true;
        }
        if (old == NULL || decided)
                return 0;
        return eng_error_set(error, -EPROTO,
                             "%s is of layout %u, and this build writes layout %u: start once with --upgrade (one way: "
                             "builds that know only the older layout refuse the store afterwards)",
                             old->path, old->identity.layout, FMT_LAYOUT_VERSION);
}

/* What one drive of the store has, all are to have: each gets it when it is opened (bucket/features.c). */
static void share_features(struct eng_store *store)
{
        uint64_t features = 0;
        unsigned i;

        for (i = 0; i < store->unplaced_count; i++)
                features |= store->unplaced[i].identity.features;
        for (i = 0; i < store->unplaced_count; i++)
                store->unplaced[i].identity.features = features;
        store->coord->features = features;
        atomic_store(&store->features, features); /* no change begins before they are open */
}

static int recognise(struct eng_store *store, struct eng_error *error)
{
        const struct eng_options *o = &store->options;
        struct probe probes[ENG_DRIVES_MAX] = {0};
        unsigned i;
        int rv = probe_all(store, probes, error);

        if (rv == 0 && o->format && all_blank(o, probes)) {
                rv = none_absent(o, probes, error);
                if (rv == 0)
                        rv = format_all(store, error);
                if (rv == 0)
                        rv = probe_all(store, probes, error);
        } else if (rv == 0) {
                rv = finish_format(o, probes, error);
        }
        for (i = 0; rv == 0 && i < o->drive_count; i++)
                if (store_is_bad(&probes[i])) /* first: the most that is to be said of it is said */
                        note_folder(store, o->drives[i], &probes[i]);
        for (i = 0; rv == 0 && i < o->drive_count; i++) {
                if (store_is_bad(&probes[i]))
                        continue;
                if (o->one_machine && probes[i].state == ENG_FOLDER_DRIVE && (probes[i].identity.features & FMT_FEATURE_SITES))
                        return eng_error_set(error, -EINVAL, "%s: belongs to a cluster's pool (--cluster, --node), or is about to (millrace admin cluster adopt)", o->drives[i]);
                if (probes[i].state == ENG_FOLDER_DRIVE)
                        rv = take_drive(store, o->drives[i], &probes[i], error);
                else
                        note_folder(store, o->drives[i], &probes[i]);
        }
        if (rv == 0 && store->unplaced_count == 0)
                rv = eng_error_set(error, -ENOENT,
                                   "no drive of a store among the folders given%s (a new store is made by --format)",
                                   store->empty_paths);
        share_features(store);
        return rv != 0 ? rv : check_layouts(store, error);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* What changes and readers that the loops were stopped around have left. */
static void free_loop(struct eng_loop *el)
{
        struct eng_key_lock *lock, *next_lock;
        struct eng_pin *pin, *next_pin;

        HASH_ITER (hh, el->leader.locks, lock, next_lock) {
                HASH_DEL(el->leader.locks, lock);
                free(lock);
        }
        HASH_ITER (hh, el->leader.pins, pin, next_pin) {
                HASH_DEL(el->leader.pins, pin);
                free(pin);
        }
        eng_config_free(el);
        eng_deferred_free(el);
        eng_lost_objects_free(el);
        eng_get_free_spares(el);
        free(el->home.cover_pgs);
}

static void free_maps(struct eng_coord *c)
{
        struct eng_placement *map;

        while ((map = c->maps) != NULL) {
                c->maps = map->next;
                eng_placement_free(map);
        }
        eng_placement_free(c->next_map);
}

static void free_store(struct eng_store *store)
{
        unsigned i;

        for (i = 0; store->loops != NULL && i < store->loop_count; i++)
                free_loop(&store->loops[i]);
        eng_entries_free(store);
        if (store->coord != NULL) {
                eng_drop_free(store);
                eng_lock_free(store);
                eng_epoch_append_free(store);
                eng_down_free(store);
                eng_heal_free_late(store);
                free(store->coord->config);
                eng_feed_free(store);
                eng_digests_free(store);
                eng_home_rows_free(store);
                eng_home_free(store);
                eng_buf_unref(store->coord->body);
                eng_buf_unref(store->coord->next_body);
                eng_decided_free(store->coord);
                free_maps(store->coord);
        }
        free(store->coord);
        era_code_free(store->code);
        free(store->pg_loop);
        free(store->pgs);
        free(store->pg_names);
        free(store->loops);
        free(store->hashers);
        free(store->members);
        free(store->drive_times);
        pthread_mutex_destroy(&store->health_lock);
        pthread_mutex_destroy(&store->lock_clock.lock);
        free(store);
}

static int make_loops(struct eng_store *store)
{
        unsigned i;

        store->loops = calloc(store->loop_count, sizeof(store->loops[0]));
        store->hashers = calloc(store->options.hash_loop_count + 1, sizeof(store->hashers[0]));
        if (store->loops == NULL || store->hashers == NULL)
                return -ENOMEM;
        assert(store->options.coord_loop < store->loop_count);
        store->coord_loop = &store->loops[store->options.coord_loop];
        for (i = 0; i < store->options.hash_loop_count; i++)
                eng_hasher_init(&store->hashers[store->hasher_count++], store->options.hash_loops[i]);
        for (i = 0; i < store->loop_count; i++) {
                struct eng_loop *el = &store->loops[i];

                el->store = store;
                el->loop = store->options.loops[i];
                el->index = i;
                el->leader.deferred_timer.expired = eng_deferred_tick;
                TAILQ_INIT(&el->leader.appended);
                TAILQ_INIT(&el->leader.lookups);
                TAILQ_INIT(&el->home.retrying);
                TAILQ_INIT(&el->home.stale_writes);
                TAILQ_INIT(&el->home.puts);
                TAILQ_INIT(&el->leader.rebuilds);
                eng_hasher_init(&el->home.hasher, el->loop);
                el->home.bulk_hasher = store->hasher_count == 0 ? &el->home.hasher : &store->hashers[i % store->hasher_count];
                TAILQ_INIT(&el->home.gets);
                LIST_INIT(&el->home.left_stripes);
                TAILQ_INIT(&el->home.spare_gets);
                STAILQ_INIT(&el->leader.deferred);
                STAILQ_INIT(&el->leader.early_deferred);
        }
        return 0;
}

static void view_changed(struct eng_loop *el)
{
        assert(eng_on_loop(el));
        eng_txn_view_changed(el);
        eng_puts_view_changed(el);
        if (el->view.ready)
                eng_deferred_ready(el);
}

static void serving(struct eng_store *store)
{
        assert(store->coord->phase == ENG_PHASE_OPEN);
        eng_scrub_begin(store);
        eng_scrub_drives_begin(store);
}

static const struct eng_events events = {
        .drive_failed = eng_coord_drive_failed,
        .drive_unreachable = eng_coord_drive_unreachable,
        .slot_silent = eng_recover_slot_silent,
        .view_changed = view_changed,
        .value_gone = eng_lost_object_gone,
        .look_at_group = eng_heal_look_at_group,
        .look_at_version = eng_heads_look_at,
        .work_changed = eng_heal_consider,
        .serving = serving,
};

int eng_store_open(const struct eng_options *options, struct eng_store **out, struct eng_error *error)
{
        struct eng_store *store = calloc(1, sizeof(*store));
        int rv = -ENOMEM;

        error->text[0] = 0;
        if (store == NULL)
                return eng_error_set(error, -ENOMEM, "no memory");
        pthread_mutex_init(&store->health_lock, NULL);
        pthread_mutex_init(&store->lock_clock.lock, NULL);
        store->events = options->leader != NULL ? &eng_home_events : &events;
        store->options = *options;
        store->pacer.rate = options->heal_rate == 0 ? ENG_HEAL_RATE : options->heal_rate;
        store->loop_count = options->loop_count;
        assert(store->loop_count > 0);
        assert(options->boot <= ENG_BOOT_MAX && (options->site.node != 0 || options->boot == 0));
        store->pg_count = ENG_PG_COUNT;
        store->inline_max = options->inline_max == 0                 ? ENG_INLINE_MAX
                            : options->inline_max == ENG_INLINE_NONE ? 0
                                                                     : options->inline_max;
        assert(store->inline_max <= ENG_INLINE_MAX);
        store->members = calloc(ENG_DRIVES_MAX, sizeof(store->members[0]));
        store->drive_times = calloc((size_t)ENG_DRIVES_MAX * store->loop_count, sizeof(store->drive_times[0]));
        store->coord = calloc(1, sizeof(*store->coord));
        if (store->members == NULL || store->drive_times == NULL || store->coord == NULL || make_loops(store) != 0)
                goto err;
        store->coord->store = store;
        if (!eng_drop_make(store) || !eng_digests_make(store) || !eng_entries_make(store) || !eng_feed_make(store) || !eng_heal_make(store))
                goto err;
        if (options->leader != NULL)
                rv = eng_home_make(store);
        else
                rv = options->cluster != NULL ? eng_decided_recognise(store, error) : recognise(store, error);
        if (rv != 0)
                goto err;
        memset(store->members, 0, ENG_DRIVES_MAX * sizeof(store->members[0]));
        store->drive_count = 0; /* known when a log has been read */
        *out = store;
        return 0;
err:
        if (error->text[0] == 0)
                eng_error_set(error, rv, "%s", strerror(-rv));
        free_store(store);
        return rv;
}

bool eng_store_formatted(const struct eng_store *store)
{
        return store->formatted;
}

static void store_start(struct lp_msg *msg)
{
        struct eng_coord *c = container_of(msg, struct eng_coord, start_msg);

        assert(c->phase == ENG_PHASE_NEW);
        if (c->store->stopping)
                return; /* it is closed before its loop came to this */
        if (eng_is_home(c->store)) {
                eng_home_begin(c->store);
                return;
        }
        eng_health_start(c->store);
        eng_recover(c->store);
        eng_health_refresh(c->store);
}

void eng_store_start(struct eng_store *store)
{
        store->coord->start_msg.run = store_start;
        lp_post(store->coord_loop->loop, &store->coord->start_msg);
}

static uint64_t drain_once(struct eng_store *store)
{
        uint64_t done = 0;
        unsigned i;

        for (i = 0; i < store->loop_count; i++)
                done += lp_loop_drain(store->loops[i].loop);
        for (i = 0; i < store->hasher_count; i++)
                done += lp_loop_drain(store->hashers[i].loop);
        return done;
}

/* All that are open, and are to be closed: in a slot or not, those that were given up, too. */
static bool awaits_file(struct eng_store *store)
{
        unsigned i;

        for (i = 0; i < store->unplaced_count; i++)
                if (store->unplaced[i].local != NULL && eng_drive_awaits_file(store->unplaced[i].local))
                        return true;
        return eng_is_home(store) && store->options.leader->awaits(store->options.leader->arg);
}

/*
 * What is under way when the loops stop comes to its end here: it points into the store. A worker
 * that opens or makes a file is waited for, and so is a page of an index, since who wants them
 * holds memory until he is told. False: one takes longer, and nothing may be freed that it will
 * come back to.
 */
static bool drain_loops(struct eng_store *store)
{
        const struct timespec nap = {.tv_nsec = 1000000};
        unsigned rounds, naps = 0;

        for (rounds = 0; rounds < DRAIN_ROUNDS; rounds++) {
                if (drain_once(store) > 0)
                        continue;
                if (!awaits_file(store))
                        return true;
                if (naps++ == DRAIN_NAPS)
                        return false;
                nanosleep(&nap, NULL);
        }
        return false;
}

static void stop_hashers(struct eng_store *store)
{
        unsigned i;

        for (i = 0; i < store->loop_count; i++)
                eng_hasher_stop(&store->loops[i].home.hasher);
        for (i = 0; i < store->hasher_count; i++)
                eng_hasher_stop(&store->hashers[i]);
}

static void store_stop(struct eng_store *store)
{
        unsigned i;

        assert(!store->stopping);
        if (eng_is_home(store))
                eng_home_end(store);
        eng_recover_stop(store);
        eng_hot_add_stop(store);
        store->stopping = true;
        for (i = 0; i < store->loop_count; i++)
                eng_config_stop(&store->loops[i]);
        for (i = 0; i < store->loop_count; i++)
                eng_merges_stop(&store->loops[i]);
        eng_deletions_stop(store);
        eng_feed_stop(store);
        stop_hashers(store);
}

/* All stores on its loops have stopped. */
static bool take_apart(struct eng_store *store)
{
        if (!drain_loops(store))
                return false;
        eng_catch_up_free(store);
        eng_hot_add_free(store);
        eng_grow_free(store);
        eng_heal_free(store);
        eng_orphans_free(store);
        eng_verify_free(store);
        eng_heads_free(store);
        eng_scrub_free(store);
        eng_scrub_drives_stop(store);
        if (!drain_loops(store))
                return false;
        eng_recover_free(store);
        eng_rebuild_free_late(store);
        eng_migrated_drop_free(store); /* drives had operations of it, and of the next, until they were closed */
        eng_drop_free(store);
        eng_scrub_drives_free(store);
        if (store->left_behind)
                return false;
        free_store(store);
        return true;
}

bool eng_stores_close(struct eng_store *const *stores, unsigned count)
{
        bool all = true;
        unsigned i;

        for (i = 0; i < count; i++)
                if (stores[i] != NULL)
                        store_stop(stores[i]);
        for (i = 0; i < count; i++)
                if (stores[i] != NULL)
                        all = take_apart(stores[i]) && all;
        return all;
}

bool eng_store_close(struct eng_store *store)
{
        return eng_stores_close(&store, 1);
}
