/*
 * epoch.c - the epochs a drive has seen: the body of the newest, and the ids of those before it.
 *
 * Filled by EPOCH records (append.c, replay.c), kept in the index's meta so that a start need not
 * read the whole log, and refusing what senders of older epochs ask (-ESTALE). A log file that
 * holds one of the records counted here is not freed before that was copied to the log's end, so
 * that all of it can be read back from the log alone (I4). owner: the loop.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void eng_log_file_needed(struct eng_local *l, uint64_t number, int change)
{
        struct eng_log_file *file = eng_log_files_find(&l->files, number);

        if (file != NULL && (change > 0 || file->epochs > 0)) /* an index may speak of a file that was another one */
                file->epochs = (unsigned)((int)file->epochs + change);
}

static struct fmt_index_epoch *epoch_find(struct eng_epochs *epochs, const uint8_t id[FMT_ID])
{
        unsigned i;

        for (i = 0; i < epochs->count; i++)
                if (memcmp(epochs->known[i].head.id, id, FMT_ID) == 0)
                        return &epochs->known[i];
        return NULL;
}

/* A copy of a record that is known: the later one counts. */
static void epoch_move_to(struct eng_local *l, struct fmt_index_epoch *known, uint64_t file)
{
        if (file <= known->file)
                return;
        eng_log_file_needed(l, known->file, -1);
        eng_log_file_needed(l, file, 1);
        known->file = file;
        l->epochs.dirty = true;
}

/* Where it goes: newest first, the later record first among equals. */
static unsigned rank(const struct eng_epochs *epochs, uint64_t number)
{
        unsigned i = 0;

        while (i < epochs->count && epochs->known[i].head.number > number)
                i++;
        return i;
}

uint64_t eng_epochs_fence(const struct eng_local *l)
{
        uint64_t newest = atomic_load(&l->epochs.number), fence = atomic_load(&l->epochs.fence);

        return newest > fence ? newest : fence;
}

int eng_epochs_add(struct eng_local *l, struct eng_buf *body, uint64_t file)
{
        struct eng_epochs *epochs = &l->epochs;
        struct fmt_index_epoch *known;
        struct fmt_epoch epoch;
        unsigned at;
        int rv = eng_rec_check_epoch(body->data, body->len);

        if (rv != 0)
                return rv;
        memcpy(&epoch, body->data, sizeof(epoch));
        known = epoch_find(epochs, epoch.id);
        if (known != NULL) {
                epoch_move_to(l, known, file);
                return 0;
        }
        at = rank(epochs, epoch.number);
        if (at == ENG_EPOCH_HISTORY + 1)
                return 0;
        if (epochs->count == ENG_EPOCH_HISTORY + 1)
                eng_log_file_needed(l, epochs->known[--epochs->count].file, -1);
        assert(epochs->count <= ENG_EPOCH_HISTORY && at <= epochs->count);
        memmove(&epochs->known[at + 1], &epochs->known[at], (epochs->count - at) * sizeof(epochs->known[0]));
        epochs->count++;
        epochs->known[at].head = epoch;
        epochs->known[at].file = file;
        eng_log_file_needed(l, file, 1);
        epochs->dirty = true;
        if (at == 0) {
                eng_buf_unref(epochs->newest);
                epochs->newest = eng_buf_ref(body);
                atomic_store(&epochs->number, epoch.number);
        }
        return 0;
}

/*
 * The newest is copied whole; of those before it nothing but the head is of use any more, so the
 * copy names no drives.
 */
static struct eng_buf *epoch_copy_body(const struct eng_epochs *epochs, unsigned i)
{
        struct fmt_epoch head = epochs->known[i].head;
        struct eng_buf *body;

        if (i == 0)
                return eng_buf_ref(epochs->newest);
        body = eng_buf_new(sizeof(head));
        if (body == NULL)
                return NULL;
        head.drives = 0;
        memcpy(body->data, &head, sizeof(head));
        return body;
}

int eng_epochs_move(struct eng_local *l, const struct eng_log_file *file)
{
        struct eng_buf *body;
        unsigned i;
        int rv = 0;

        for (i = 0; i < l->epochs.count && rv == 0; i++) {
                if (l->epochs.known[i].file != file->number)
                        continue;
                body = epoch_copy_body(&l->epochs, i);
                if (body == NULL)
                        return -ENOMEM;
                rv = eng_append_own(l, FMT_RECORD_EPOCH, body, l->epochs.known[i].head.number,
                                    eng_append_epoch_durable);
                eng_buf_unref(body);
        }
        return rv;
}

size_t eng_epochs_encode(const struct eng_epochs *epochs, void *out, size_t cap)
{
        size_t len = epochs->count * sizeof(epochs->known[0]);

        assert(len <= cap);
        memcpy(out, epochs->known, len);
        return len;
}

static int load_history(struct eng_local *l, struct eng_index_txn *txn)
{
        struct eng_epochs *epochs = &l->epochs;
        size_t len;
        unsigned i;
        int rv;

        rv = eng_index_meta_get(txn, ENG_INDEX_HISTORY, epochs->known, sizeof(epochs->known), &len);
        if (rv != 0)
                return rv == -ENOENT ? 0 : -EBADMSG;
        if (len % sizeof(epochs->known[0]) != 0)
                return -EBADMSG;
        epochs->count = (unsigned)(len / sizeof(epochs->known[0]));
        for (i = 0; i < epochs->count; i++)
                eng_log_file_needed(l, epochs->known[i].file, 1);
        return 0;
}

int eng_epochs_load(struct eng_local *l, struct eng_index_txn *txn)
{
        uint8_t body[FMT_EPOCH_MAX(ENG_DRIVES_MAX)];
        struct fmt_epoch epoch;
        size_t len;
        int rv;

        rv = eng_index_meta_get(txn, ENG_INDEX_EPOCH, body, sizeof(body), &len);
        if (rv == -ENOENT)
                return 0;
        rv = rv != 0 ? -EBADMSG : eng_rec_check_epoch(body, len);
        if (rv != 0)
                return rv;
        l->epochs.newest = eng_buf_new(len);
        if (l->epochs.newest == NULL)
                return -ENOMEM;
        memcpy(l->epochs.newest->data, body, len);
        memcpy(&epoch, body, sizeof(epoch));
        atomic_store(&l->epochs.number, epoch.number);
        return load_history(l, txn);
}

/* Before the loops run, or on the owner loop. */
int eng_local_epoch(struct eng_drive *drive, void *out, size_t cap, size_t *len, struct eng_epoch_history *history)
{
        struct eng_epochs *epochs = &eng_local_of(drive)->epochs;
        unsigned i;

        if (epochs->newest == NULL)
                return -ENOENT;
        *len = epochs->newest->len;
        memcpy(out, epochs->newest->data, *len < cap ? *len : cap);
        if (history == NULL)
                return *len <= cap ? 0 : -ENOBUFS;
        memset(history, 0, sizeof(*history));
        for (i = 1; i < epochs->count; i++) {
                history->past[i - 1].number = epochs->known[i].head.number;
                memcpy(history->past[i - 1].id, epochs->known[i].head.id, FMT_ID);
                memcpy(history->past[i - 1].parent, epochs->known[i].head.parent, FMT_ID);
                history->count++;
        }
        return *len <= cap ? 0 : -ENOBUFS;
}

bool eng_local_log_lost(struct eng_drive *drive)
{
        return eng_local_of(drive)->log_lost;
}
