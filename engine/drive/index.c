/*
 * index.c - life of a drive's index: opening, making, removing, growing; snapshots and write
 * transactions.
 *
 * Called by the local drive: opening and removing on the thread that opens the drive, readers on
 * its owner loop, write transactions on its background thread. Keeps I4 (what does not look like
 * this drive's whole index is refused, so that it is rebuilt) and never opens LMDB with MDB_NOSYNC:
 * a commit that returned 0 is on stable storage. LMDB is ours (third_party/lmdb): its pages carry
 * checksums, looked at whenever a page is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ec.h"
#include "engine/drive/drive.h"
#include "engine/drive/index_priv.h"
#include "engine/drive/resident.h"

#define INDEX_LOCK_FILE      "lock.mdb"
#define INDEX_CONDEMNED_FILE "CONDEMNED"
#define INDEX_READERS        126u

static const char *const index_db_names[INDEX_DB_COUNT] = {
#define INDEX_DB_NAME(id, name) name,
        INDEX_DBS(INDEX_DB_NAME)
#undef INDEX_DB_NAME
};

int index_error(int mdb_rv)
{
        if (mdb_rv == 0)
                return 0;
        if (mdb_rv == EFBIG || mdb_rv == EDQUOT)
                return -ENOSPC; /* a limit of the file system or the user; -EFBIG means the map */
        if (mdb_rv > 0)
                return -mdb_rv;
        switch (mdb_rv) {
        case MDB_NOTFOUND:
                return -ENOENT;
        case MDB_KEYEXIST:
                return -EEXIST;
        case MDB_MAP_FULL:
                return -EFBIG;
        case MDB_TXN_FULL:
                return -E2BIG;
        case MDB_PANIC:
                return -EIO;
        case MDB_READERS_FULL:
                return -EMFILE;
        case MDB_ABSENT:
                return ENG_INDEX_ABSENT;
        default:
                /*
                 * PAGE_NOTFOUND, CORRUPTED, INVALID, VERSION_MISMATCH, CURSOR_FULL, INCOMPATIBLE,
                 * BAD_...: none comes from healthy bytes.
                 */
                return -EBADMSG;
        }
}

uint32_t index_crc(const void *key, size_t key_len, const void *value, size_t len)
{
        assert(len >= sizeof(uint32_t));
        return era_crc32c(era_crc32c(0, key, key_len), (const uint8_t *)value + sizeof(uint32_t),
                          len - sizeof(uint32_t));
}

int index_sync_folder(int dir_fd)
{
        return fsync(dir_fd) == 0 ? 0 : -errno;
}

int index_cursor_open(struct eng_index_txn *txn, enum index_db db, MDB_cursor **out)
{
        MDB_stat stat;
        int rv;

        assert(*out == NULL); /* it would never be closed */
        /*
         * Reads the database's root now: a fault inside mdb_cursor_open would lose the memory it
         * has taken.
         */
        rv = mdb_stat(txn->mdb, txn->index->dbi[db], &stat);
        if (rv == 0)
                rv = mdb_cursor_open(txn->mdb, txn->index->dbi[db], out);
        return index_error(rv);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void index_asserted(MDB_env *env, const char *text)
{
        (void)env;
        (void)text;
        eng_guard_assert();
}

static void index_free(struct eng_index *index)
{
        if (index->opening != NULL)
                mdb_txn_abort(index->opening);
        if (index->env != NULL)
                mdb_env_close(index->env);
        if (index->read_fd >= 0)
                close(index->read_fd);
        if (index->dir_fd >= 0)
                close(index->dir_fd);
        pthread_mutex_destroy(&index->writing);
        free(index);
}

static int index_new(const struct eng_index_options *options, struct eng_index **out)
{
        struct eng_index *index;
        int rv;

        rv = eng_guard_install();
        if (rv != 0)
                return rv;
        index = calloc(1, sizeof(*index));
        if (index == NULL)
                return -ENOMEM;
        memcpy(index->drive_id, options->drive_id, FMT_ID);
        pthread_mutex_init(&index->writing, NULL);
        index->read_fd = -1;
        index->dir_fd = open(options->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (index->dir_fd < 0) {
                rv = -errno;
                index_free(index);
                return rv;
        }
        *out = index;
        return 0;
}

static int index_env_open(struct eng_index *index, const struct eng_index_options *options)
{
        uint64_t bytes = options->map_bytes != 0 ? options->map_bytes : ENG_INDEX_MAP_DEFAULT;
        int rv;

        rv = mdb_env_create(&index->env);
        if (rv == 0)
                rv = mdb_env_set_assert(index->env, index_asserted);
        if (rv == 0)
                rv = mdb_env_set_checksum(index->env, era_crc32c);
        if (rv == 0)
                rv = mdb_env_set_maxdbs(index->env, INDEX_DB_COUNT);
        if (rv == 0)
                rv = mdb_env_set_maxreaders(index->env, INDEX_READERS);
        if (rv == 0)
                rv = mdb_env_set_mapsize(index->env, bytes);
        if (rv == 0)
                rv = mdb_env_open(index->env, options->path, MDB_NOTLS | MDB_NORDAHEAD, 0600);
        return index_error(rv);
}

/* Pages are read one by one, in no order. */
static int index_open_reads(struct eng_index *index)
{
        index->read_fd = openat(index->dir_fd, ENG_INDEX_DATA_FILE, O_RDONLY | O_CLOEXEC);
        if (index->read_fd < 0)
                return -errno;
        (void)posix_fadvise(index->read_fd, 0, 0, POSIX_FADV_RANDOM);
        return 0;
}

/* The length data.mdb needs to hold every page that may be in use. */
static int index_used_bytes(struct eng_index *index, uint64_t *bytes)
{
        MDB_envinfo info;
        MDB_stat stat;
        int rv;

        rv = index_error(mdb_env_info(index->env, &info));
        if (rv == 0)
                rv = index_error(mdb_env_stat(index->env, &stat));
        if (rv == 0)
                *bytes = ((uint64_t)info.me_last_pgno + 1) * stat.ms_psize;
        return rv;
}

/*
 * A file cut short is damage that LMDB itself would meet as SIGBUS, one page at a time. Pages at
 * the end that were taken and given back in one transaction are never written by LMDB, so that a
 * healthy file can be short too: commits make it long enough (pad), and opening may take the length
 * as a check.
 */
static int index_length(struct eng_index *index, bool pad)
{
        uint64_t need;
        struct stat st;
        int fd, rv;

        rv = index_used_bytes(index, &need);
        if (rv != 0)
                return rv;
        if (mdb_env_get_fd(index->env, &fd) != 0)
                return -EIO;
        if (fstat(fd, &st) != 0)
                return -errno; /* the machine may lack something */
        if ((uint64_t)st.st_size >= need)
                return 0;
        if (!pad)
                return -EBADMSG;
        return ftruncate(fd, (off_t)need) == 0 ? 0 : -errno;
}

/* Opens the databases (makes them in a write transaction) and keeps their handles. */
static int index_open_dbs(struct eng_index *index, unsigned flags)
{
        unsigned kind;
        int rv = 0;

        for (unsigned i = 0; i < INDEX_DB_COUNT && rv == 0; i++) {
                rv = mdb_dbi_open(index->opening, index_db_names[i], flags, &index->dbi[i]);
                if (rv == MDB_NOTFOUND && i == INDEX_OWNERS) { /* of layout 1: index_add_owners() makes it */
                        index->no_owners = true;
                        return 0;
                }
                if (rv == 0)
                        rv = mdb_dbi_flags(index->opening, index->dbi[i], &kind);
                if (rv == 0 && kind != 0)
                        rv = MDB_INCOMPATIBLE; /* not as we make them */
        }
        return index_error(rv);
}

static int index_check_identity(struct eng_index *index)
{
        struct eng_index_txn txn = {.index = index, .mdb = index->opening};
        struct fmt_index_identity identity;
        size_t len;
        int rv;

        rv = index_meta_read(&txn, INDEX_META_IDENTITY, &identity, sizeof(identity), &len);
        if (rv == -ENOENT || rv == -ENOBUFS || (rv == 0 && len != sizeof(identity)))
                return -EBADMSG;
        if (rv != 0)
                return rv;
        if (identity.layout != FMT_INDEX_LAYOUT || memcmp(identity.drive_id, index->drive_id, FMT_ID) != 0)
                return -ESTALE;
        return 0;
}

/* Handles opened in a transaction live on only if it commits, one that reads included. */
static int index_keep_dbs(struct eng_index *index)
{
        MDB_txn *mdb = index->opening;

        index->opening = NULL;
        return index_error(mdb_txn_commit(mdb));
}

static int index_recognise(struct eng_index *index)
{
        int rv;

        rv = index_length(index, false);
        if (rv == 0)
                rv = index_error(mdb_txn_begin(index->env, NULL, MDB_RDONLY, &index->opening));
        if (rv != 0)
                return rv;
        rv = index_open_dbs(index, 0);
        if (rv == -ENOENT)
                rv = -EBADMSG; /* its making did not finish */
        if (rv == 0)
                rv = index_check_identity(index);
        return rv != 0 ? rv : index_keep_dbs(index);
}

/*
 * A commit has failed: is the file system full? LMDB takes a short write, the first sign of that,
 * for EIO, and full is not failed. Asks by writing behind everything, and cuts off what the failed
 * commit has left there, since nothing refers to it. The caller is the only writer.
 */
static int commit_failed(struct eng_index *index, int rv)
{
        static const uint8_t probe[64 << 10];
        struct stat st;
        uint64_t used;
        ssize_t n;
        int fd;

        if ((rv != -EIO && rv != -ENOSPC) || index_used_bytes(index, &used) != 0 || mdb_env_get_fd(index->env, &fd) != 0 || fstat(fd, &st) != 0)
                return rv;
        n = pwrite(fd, probe, sizeof(probe), st.st_size);
        if (n >= 0 ? n < (ssize_t)sizeof(probe) : errno == ENOSPC || errno == EDQUOT)
                rv = -ENOSPC;
        if (ftruncate(fd, (off_t)used) != 0 && eng_io_unreadable(-errno) && !eng_io_full(-errno))
                rv = -EIO; /* else it stays: the next commit writes over it */
        return rv;
}

static int commit_failed_guarded(struct eng_index *index, int rv)
{
        ENG_GUARDED(&index->broken, commit_failed(index, rv));
}

/*
 * A full file system has no room for it: everything else goes on, and the next opening tries again.
 */
static int index_add_owners(struct eng_index *index)
{
        int rv;

        rv = index_error(mdb_txn_begin(index->env, NULL, 0, &index->opening));
        if (rv == 0)
                rv = index_error(mdb_dbi_open(index->opening, index_db_names[INDEX_OWNERS], MDB_CREATE,
                                              &index->dbi[INDEX_OWNERS]));
        if (rv == 0)
                rv = index_keep_dbs(index);
        if (index->opening != NULL)
                mdb_txn_abort(index->opening);
        index->opening = NULL;
        rv = rv == 0 ? index_length(index, true) : commit_failed(index, rv);
        index->no_owners = rv != 0;
        return rv == -ENOSPC || rv == -EFBIG ? 0 : rv;
}

static int index_add_owners_guarded(struct eng_index *index)
{
        ENG_GUARDED(&index->broken, index_add_owners(index));
}

static int index_recognise_guarded(struct eng_index *index)
{
        ENG_GUARDED(&index->broken, index_recognise(index));
}

static int index_env_open_guarded(struct eng_index *index, const struct eng_index_options *options)
{
        ENG_GUARDED(&index->broken, index_env_open(index, options));
}

static int index_present(struct eng_index *index)
{
        struct stat st;

        if (fstatat(index->dir_fd, INDEX_CONDEMNED_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return -EBADMSG;
        if (fstatat(index->dir_fd, ENG_INDEX_DATA_FILE, &st, AT_SYMLINK_NOFOLLOW) != 0)
                return -errno;
        /* LMDB would take an empty file for a new environment. */
        return S_ISREG(st.st_mode) && st.st_size > 0 ? 0 : -EBADMSG;
}

int eng_index_open(const struct eng_index_options *options, struct eng_index **out)
{
        struct eng_index *index;
        int rv;

        rv = index_new(options, &index);
        if (rv != 0)
                return rv;
        rv = index_present(index);
        if (rv == 0)
                rv = index_env_open_guarded(index, options);
        if (rv == 0)
                rv = index_recognise_guarded(index);
        if (rv == 0 && index->no_owners)
                rv = index_add_owners_guarded(index);
        if (rv == 0)
                rv = index_open_reads(index);
        if (rv != 0) {
                index_free(index);
                return rv;
        }
        *out = index;
        return 0;
}

/* ---- making and removing --------------------------------------------------------------------- */

static int index_make(struct eng_index *index)
{
        struct eng_index_txn txn = {.index = index, .write = true};
        struct fmt_index_identity identity = {.layout = FMT_INDEX_LAYOUT, .next_piece = 1};
        int rv;

        memcpy(identity.drive_id, index->drive_id, FMT_ID);
        rv = index_error(mdb_txn_begin(index->env, NULL, 0, &index->opening));
        if (rv == 0)
                rv = index_open_dbs(index, MDB_CREATE);
        txn.mdb = index->opening;
        if (rv == 0)
                rv = index_meta_write(&txn, INDEX_META_IDENTITY, &identity, sizeof(identity));
        if (rv == 0)
                rv = index_owners_begin(&txn);
        if (rv == 0)
                rv = index_keep_dbs(index);
        return rv != 0 ? rv : index_length(index, true);
}

static int index_make_guarded(struct eng_index *index)
{
        ENG_GUARDED(&index->broken, index_make(index));
}

int eng_index_create(const struct eng_index_options *options, struct eng_index **out)
{
        struct eng_index *index;
        int rv;

        rv = index_new(options, &index);
        if (rv != 0)
                return rv;
        rv = index_present(index);
        if (rv != -ENOENT) {
                rv = rv == 0 || rv == -EBADMSG ? -EEXIST : rv;
                goto err;
        }
        rv = index_env_open_guarded(index, options);
        if (rv == 0) {
                rv = index_make_guarded(index);
                if (rv != 0)
                        rv = commit_failed_guarded(index, rv);
        }
        if (rv == 0)
                rv = index_sync_folder(index->dir_fd);
        if (rv == 0)
                rv = index_open_reads(index);
        if (rv != 0)
                goto err;
        *out = index;
        return 0;

err:
        index_free(index);
        return rv;
}

int eng_index_remove(const char *path)
{
        static const char *const files[] = {ENG_INDEX_DATA_FILE, INDEX_LOCK_FILE};
        int dir_fd, rv = 0;

        dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir_fd < 0)
                return errno == ENOENT ? 0 : -errno;
        for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]) && rv == 0; i++)
                if (unlinkat(dir_fd, files[i], 0) != 0 && errno != ENOENT)
                        rv = -errno;
        if (rv == 0)
                rv = index_sync_folder(dir_fd);
        /*
         * The mark goes when the rest is durably gone: a removal that a crash cuts short still ends
         * in a rebuild.
         */
        if (rv == 0 && unlinkat(dir_fd, INDEX_CONDEMNED_FILE, 0) != 0 && errno != ENOENT)
                rv = -errno;
        close(dir_fd);
        return rv;
}

void eng_index_close(struct eng_index *index)
{
        if (index != NULL)
                index_free(index);
}

int eng_index_condemn(struct eng_index *index)
{
        int fd, rv;

        fd = openat(index->dir_fd, INDEX_CONDEMNED_FILE, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        rv = fsync(fd) == 0 ? 0 : -errno;
        close(fd);
        return rv != 0 ? rv : index_sync_folder(index->dir_fd);
}

bool eng_index_unreadable(const struct eng_index *index)
{
        return atomic_load(&index->broken) == -EIO;
}

void eng_index_lost(struct eng_index *index)
{
        atomic_store(&index->broken, -EIO);
}

int eng_index_fd(const struct eng_index *index)
{
        return index->read_fd;
}

int eng_index_used(struct eng_index *index, uint64_t *bytes)
{
        ENG_GUARDED(&index->broken, index_used_bytes(index, bytes));
}

int eng_index_grow(struct eng_index *index)
{
        MDB_envinfo info;
        int rv = atomic_load(&index->broken);

        if (rv != 0)
                return rv;
        mdb_env_info(index->env, &info);
        if (info.me_mapsize > SIZE_MAX / 2)
                return -ENOMEM;
        rv = index_error(mdb_env_set_mapsize(index->env, info.me_mapsize * 2));
        /* LMDB unmaps first: without the new map there is none. */
        if (rv != 0)
                atomic_store(&index->broken, rv);
        return rv;
}

/* ---- transactions ---------------------------------------------------------------------------- */

int eng_index_reader_new(struct eng_index *index, struct eng_index_txn **out)
{
        struct eng_index_txn *txn = calloc(1, sizeof(*txn));

        if (txn == NULL)
                return -ENOMEM;
        txn->index = index;
        *out = txn;
        return 0;
}

void eng_index_reader_free(struct eng_index_txn *txn)
{
        if (txn == NULL)
                return;
        assert(!txn->write);
        index_cursor_close(txn);
        if (txn->mdb != NULL)
                mdb_txn_abort(txn->mdb);
        free(txn->value);
        free(txn);
}

static int read_begin(struct eng_index_txn *txn)
{
        if (txn->mdb == NULL)
                return index_error(mdb_txn_begin(txn->index->env, NULL, MDB_RDONLY, &txn->mdb));
        return index_error(mdb_txn_renew(txn->mdb));
}

static int read_begin_guarded(struct eng_index_txn *txn)
{
        ENG_GUARDED(&txn->index->broken, read_begin(txn));
}

int eng_index_read_begin(struct eng_index_txn *txn)
{
        int rv;

        assert(!txn->write && !txn->begun);
        rv = read_begin_guarded(txn);
        txn->begun = rv == 0;
        return rv;
}

/* LMDB's own handle is made when a reader is begun for the first time. */
static int reader_ask(struct eng_index_txn *txn, MDB_present_func *ask, void *arg)
{
        MDB_stat stat;
        int rv = index_error(mdb_env_stat(txn->index->env, &stat));

        if (rv == 0 && stat.ms_psize != ENG_PAGE_BYTES)
                rv = -EBADMSG;
        return rv != 0 ? rv : index_error(mdb_txn_set_present(txn->mdb, ask, arg));
}

static int reader_ask_guarded(struct eng_index_txn *txn, MDB_present_func *ask, void *arg)
{
        ENG_GUARDED(&txn->index->broken, reader_ask(txn, ask, arg));
}

int eng_index_reader_ask(struct eng_index_txn *txn, int (*ask)(void *arg, const void *at, size_t page, size_t count), void *arg)
{
        int rv = eng_index_read_begin(txn);

        if (rv == 0)
                rv = reader_ask_guarded(txn, ask, arg);
        eng_index_read_end(txn);
        return rv;
}

void eng_index_read_end(struct eng_index_txn *txn)
{
        if (!txn->begun)
                return;
        index_cursor_forget(txn);
        mdb_txn_reset(txn->mdb);
        txn->begun = false;
}

static int write_begin(struct eng_index_txn *txn)
{
        return index_error(mdb_txn_begin(txn->index->env, NULL, 0, &txn->mdb));
}

static int write_begin_guarded(struct eng_index_txn *txn)
{
        ENG_GUARDED(&txn->index->broken, write_begin(txn));
}

int eng_index_write_begin(struct eng_index *index, struct eng_index_txn **out)
{
        struct eng_index_txn *txn = calloc(1, sizeof(*txn));
        int rv;

        if (txn == NULL)
                return -ENOMEM;
        txn->index = index;
        txn->write = true;
        pthread_mutex_lock(&index->writing);
        rv = write_begin_guarded(txn);
        if (rv != 0) {
                pthread_mutex_unlock(&index->writing);
                free(txn);
                return rv;
        }
        txn->begun = true;
        *out = txn;
        return 0;
}

static int write_commit(struct eng_index_txn *txn)
{
        MDB_txn *mdb = txn->mdb;
        int rv;

        rv = index_counts_save(txn);
        if (rv == 0)
                rv = index_pieces_save(txn);
        if (rv != 0)
                return rv;
        index_cursor_close(txn);
        txn->mdb = NULL; /* gone from here on, whatever comes of it */
        rv = index_error(mdb_txn_commit(mdb));
        if (rv == 0)
                rv = index_length(txn->index, true);
        return rv;
}

static int write_commit_guarded(struct eng_index_txn *txn)
{
        ENG_GUARDED(&txn->index->broken, write_commit(txn));
}

int eng_index_write_commit(struct eng_index_txn *txn)
{
        int rv = txn->failed;

        assert(txn->write && txn->begun);
        if (rv == 0) {
                rv = write_commit_guarded(txn);
                if (rv != 0)
                        rv = commit_failed_guarded(txn->index, rv);
        }
        eng_index_write_abort(txn);
        return rv;
}

void eng_index_write_abort(struct eng_index_txn *txn)
{
        if (txn == NULL)
                return;
        assert(txn->write && txn->begun);
        index_cursor_close(txn);
        if (txn->mdb != NULL)
                mdb_txn_abort(txn->mdb);
        index_counts_drop(txn);
        pthread_mutex_unlock(&txn->index->writing);
        free(txn->value);
        free(txn);
}

static int index_info(struct eng_index_txn *txn, struct eng_index_info *out)
{
        MDB_envinfo info;
        MDB_stat names, tails;
        int rv;

        mdb_env_info(txn->index->env, &info);
        rv = index_used_bytes(txn->index, &out->used_bytes);
        if (rv == 0)
                rv = index_error(mdb_stat(txn->mdb, txn->index->dbi[INDEX_NAMES], &names));
        if (rv == 0)
                rv = index_error(mdb_stat(txn->mdb, txn->index->dbi[INDEX_TAILS], &tails));
        if (rv != 0)
                return rv;
        out->map_bytes = info.me_mapsize;
        out->keys = names.ms_entries + tails.ms_entries;
        return 0;
}

int eng_index_info(struct eng_index_txn *txn, struct eng_index_info *out)
{
        ENG_GUARDED(&txn->index->broken, index_info(txn, out));
}
