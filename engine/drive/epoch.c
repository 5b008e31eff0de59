/*
 * epoch.c - the epochs a drive has seen: the body of the newest, and the ids of those before it.
 *
 * Filled by EPOCH records (append.c, replay.c), kept in the index's meta so that a start need not read the whole log, and refusing what
 * senders of older epochs ask (-ESTALE). Log files that hold one of the records counted here are not freed, so that all of it
 * can be read back from the log alone (I4). owner: the loop.
 */
#include "engine/drive/local.h"

#include <errno.h>
#include <string.h>

/* One entry of ENG_INDEX_HISTORY. */
struct history_entry {
        uint64_t number;
        uint8_t id[FMT_ID];
        uint64_t file;
};

static void count_file(struct eng_local *l, uint64_t number, int change)
{
        struct eng_log_file *file = eng_log_files_find(&l->files, number);

        if (file != NULL)
                file->epochs = (unsigned)((int)file->epochs + change);
}

static bool is_known(const struct eng_epochs *epochs, const uint8_t id[FMT_ID])
{
        unsigned i;

        for (i = 0; i < epochs->count; i++)
                if (memcmp(epochs->known[i].id, id, FMT_ID) == 0)
                        return true;
        return false;
}

/* Where it goes: newest first, the later record first among equals. */
static unsigned rank(const struct eng_epochs *epochs, uint64_t number)
{
        unsigned i = 0;

        while (i < epochs->count && epochs->known[i].number > number)
                i++;
        return i;
}

int eng_epochs_add(struct eng_local *l, struct eng_buf *body, uint64_t file)
{
        struct eng_epochs *epochs = &l->epochs;
        struct fmt_epoch epoch;
        unsigned at;

        if (eng_rec_check_epoch(body->data, body->len) != 0)
                return -EBADMSG;
        memcpy(&epoch, body->data, sizeof(epoch));
        if (is_known(epochs, epoch.id))
                return 0;
        at = rank(epochs, epoch.number);
        if (at == ENG_EPOCH_HISTORY + 1)
                return 0;
        if (epochs->count == ENG_EPOCH_HISTORY + 1)
                count_file(l, epochs->known[--epochs->count].file, -1);
        memmove(&epochs->known[at + 1], &epochs->known[at], (epochs->count - at) * sizeof(epochs->known[0]));
        epochs->count++;
        epochs->known[at].number = epoch.number;
        memcpy(epochs->known[at].id, epoch.id, FMT_ID);
        epochs->known[at].file = file;
        count_file(l, file, 1);
        epochs->dirty = true;
        if (at == 0) {
                eng_buf_unref(epochs->newest);
                epochs->newest = eng_buf_ref(body);
                atomic_store(&epochs->number, epoch.number);
        }
        return 0;
}

size_t eng_epochs_encode(const struct eng_epochs *epochs, void *out, size_t cap)
{
        struct history_entry entry;
        size_t len = 0;
        unsigned i;

        for (i = 0; i < epochs->count && len + sizeof(entry) <= cap; i++) {
                entry.number = epochs->known[i].number;
                memcpy(entry.id, epochs->known[i].id, FMT_ID);
                entry.file = epochs->known[i].file;
                memcpy((uint8_t *)out + len, &entry, sizeof(entry));
                len += sizeof(entry);
        }
        return len;
}

static int load_history(struct eng_local *l, struct eng_index_txn *txn)
{
        struct history_entry entries[ENG_EPOCH_HISTORY + 1];
        size_t len, i;
        int rv;

        rv = eng_index_meta_get(txn, ENG_INDEX_HISTORY, entries, sizeof(entries), &len);
        if (rv != 0)
                return rv == -ENOENT ? 0 : -EBADMSG;
        if (len % sizeof(entries[0]) != 0)
                return -EBADMSG;
        for (i = 0; i < len / sizeof(entries[0]); i++) {
                l->epochs.known[i].number = entries[i].number;
                memcpy(l->epochs.known[i].id, entries[i].id, FMT_ID);
                l->epochs.known[i].file = entries[i].file;
                count_file(l, entries[i].file, 1);
        }
        l->epochs.count = (unsigned)i;
        return 0;
}

int eng_epochs_load(struct eng_local *l, struct eng_index_txn *txn)
{
        uint8_t body[sizeof(struct fmt_epoch) + ENG_DRIVES_MAX * sizeof(struct fmt_epoch_drive)];
        struct fmt_epoch epoch;
        size_t len;
        int rv;

        rv = eng_index_meta_get(txn, ENG_INDEX_EPOCH, body, sizeof(body), &len);
        if (rv == -ENOENT)
                return 0;
        if (rv != 0 || eng_rec_check_epoch(body, len) != 0)
                return -EBADMSG;
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
                history->past[i - 1].number = epochs->known[i].number;
                memcpy(history->past[i - 1].id, epochs->known[i].id, FMT_ID);
                history->count++;
        }
        return *len <= cap ? 0 : -ENOBUFS;
}
