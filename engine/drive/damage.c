/*
 * damage.c - a log that could not be read back whole: what is known of it, and for how long it
 * matters.
 *
 * Replay goes on behind a place that it can't read, so a drive whose index is gone does not need a
 * perfect log. What such a place held is lost here: a name may be missing, or an older value, a
 * deleted name, or a change that was void (its VOID record is lost) be back. So the store treats
 * the drive as one that was away: all its names are compared with those of other members, which an
 * epoch ends that has it as a member again.
 *
 * The index remembers it (ENG_INDEX_DAMAGE), since it holds what comes behind the damage and will
 * not be built from it again: first without an epoch, before anything behind the damage gets into
 * it; at the end of replay with the newest epoch that the drive knows. A later one that has it as a
 * member was made after the comparison: then it is over. (A drive that was opened with damage is in
 * no epoch but by joining, or by the operator's word.) Should the index be lost once more, the
 * damage is met again. The thread that opens the drive.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK     "LOST"     /* in the folder of the log */
#define NO_EPOCH UINT64_MAX /* found by a replay that has not come to its end */

static int write_row(struct eng_local *l, const struct fmt_index_damage *row)
{
        struct eng_index_txn *txn;
        int rv = eng_index_write_begin(l->index, &txn);

        if (rv != 0)
                return rv;
        rv = eng_index_meta_put(txn, ENG_INDEX_DAMAGE, row, sizeof(*row));
        if (rv == 0)
                return eng_index_write_commit(txn);
        eng_index_write_abort(txn);
        return rv;
}

static int damage_remember(struct eng_local *l, uint64_t epoch)
{
        struct fmt_index_damage row = {.epoch = epoch};
        int rv;

        memcpy(row.text, l->damage.text, sizeof(row.text));
        do {
                rv = write_row(l, &row);
        } while (rv == -EFBIG && (rv = eng_index_grow(l->index)) == 0);
        eng_local_index_error(l, rv);
        return rv;
}

static void describe(struct eng_log_damage *d)
{
        unsigned i;
        int n;

        assert(d->locations > 0 && d->group_count <= ENG_DAMAGE_GROUPS);
        n = snprintf(d->text, sizeof(d->text),
                     "its log is damaged in %u place%s, first in %016llx.log at %llu; lost may be what groups",
                     d->locations, d->locations == 1 ? "" : "s", (unsigned long long)d->file,
                     (unsigned long long)d->position);
        for (i = 0; i < d->group_count && n > 0 && n < (int)sizeof(d->text) - 16; i++)
                n += snprintf(d->text + n, sizeof(d->text) - (size_t)n, "%s%u", i == 0 ? " " : ", ", d->groups[i]);
        if (n > 0 && n < (int)sizeof(d->text) && (d->any_group || i < d->group_count))
                n += snprintf(d->text + n, sizeof(d->text) - (size_t)n, "%s", i == 0 ? " nobody knows" : " and others");
        if (n > 0 && n < (int)sizeof(d->text))
                snprintf(d->text + n, sizeof(d->text) - (size_t)n, " held");
}

void eng_damage_lost(struct eng_local *l, const struct fmt_record *rec)
{
        struct eng_log_damage *d = &l->damage;
        unsigned i;

        if (rec == NULL || (rec->type != FMT_RECORD_PG && rec->type != FMT_RECORD_COPY)) {
                d->any_group = true;
                return;
        }
        for (i = 0; i < d->group_count; i++)
                if (d->groups[i] == rec->pg)
                        return;
        if (d->group_count < ENG_DAMAGE_GROUPS)
                d->groups[d->group_count++] = rec->pg;
        else
                d->any_group = true;
}

int eng_damage_found(struct eng_local *l, uint64_t file, uint64_t position)
{
        struct eng_log_damage *d = &l->damage;

        assert(!l->opened); /* what it writes is constant afterwards */
        if (d->locations++ > 0)
                return 0;
        d->file = file;
        d->position = position;
        d->there = true;
        if (!l->log_lost) /* that is more, and has its text */
                describe(d);
        return damage_remember(l, NO_EPOCH);
}

void eng_damage_mark_lost(struct eng_local *l, const struct fmt_index_covered *known)
{
        int fd = openat(l->files.dir_fd, MARK, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        if (fd >= 0) {
                close(fd);
                fsync(l->files.dir_fd);
        }
        snprintf(l->damage.text, sizeof(l->damage.text),
                 "its log lost its end: its index knew it up to %llu in %016llx.log; lost may be what groups nobody knows held",
                 (unsigned long long)known->position, (unsigned long long)known->file);
        l->log_lost = true;
}

int eng_damage_load(struct eng_local *l, struct eng_index_txn *txn)
{
        struct fmt_index_damage row;
        size_t len;
        int rv;

        rv = eng_index_meta_get(txn, ENG_INDEX_DAMAGE, &row, sizeof(row), &len);
        if (rv == -ENOENT)
                return 0;
        if (rv != 0 || len != sizeof(row))
                return -EBADMSG;
        l->damage.there = true;
        memcpy(l->damage.text, row.text, sizeof(row.text));
        l->damage.text[sizeof(l->damage.text) - 1] = '\0';
        return 0;
}

/* The epoch since which the remembered damage counts. */
static int since(struct eng_local *l, uint64_t *epoch)
{
        struct fmt_index_damage row;
        size_t len;
        int rv = eng_index_read_begin(l->reader);

        if (rv != 0)
                return rv;
        rv = eng_index_meta_get(l->reader, ENG_INDEX_DAMAGE, &row, sizeof(row), &len);
        eng_index_read_end(l->reader);
        if (rv == 0)
                *epoch = row.epoch;
        return rv;
}

/*
 * The log lost its end: of what it held then nothing is left that a later replay could meet. So a
 * mark stands beside the log, and a row in the one that is built anew, until the drive has been
 * compared; the mark outlives the index. The index has just been opened.
 */
int eng_damage_log_lost(struct eng_local *l)
{
        struct eng_log_damage *d = &l->damage;
        struct stat st;
        uint64_t epoch;
        int rv;

        if (!l->log_lost && fstatat(l->files.dir_fd, MARK, &st, AT_SYMLINK_NOFOLLOW) != 0)
                return 0;
        l->log_lost = true;
        rv = since(l, &epoch);
        if (rv != -ENOENT) {
                eng_local_index_error(l, rv);
                return rv;
        }
        if (d->text[0] == '\0')
                snprintf(d->text, sizeof(d->text), "its log lost its end; lost may be what groups nobody knows held");
        d->there = true;
        return damage_remember(l, NO_EPOCH);
}

/* What the newest epoch that it knows says of this drive. */
static bool damage_is_member(const struct eng_local *l, struct fmt_epoch *epoch)
{
        const struct eng_buf *body = l->epochs.newest;
        struct fmt_epoch_drive d;
        unsigned i;

        if (body == NULL)
                return false;
        memcpy(epoch, body->data, sizeof(*epoch));
        for (i = 0; i < epoch->drives; i++) {
                memcpy(&d, body->data + sizeof(*epoch) + i * sizeof(d), sizeof(d));
                if (memcmp(d.drive_id, l->files.drive_id, FMT_ID) == 0)
                        return d.in == FMT_EPOCH_IN;
        }
        return false;
}

int eng_damage_end(struct eng_local *l)
{
        struct fmt_epoch newest = {.number = 0};
        bool member = damage_is_member(l, &newest);
        uint64_t epoch;
        int rv;

        assert(!l->opened);
        if (!l->damage.there)
                return 0;
        rv = since(l, &epoch);
        if (rv != 0) {
                eng_local_index_error(l, rv);
                return rv;
        }
        if (epoch != NO_EPOCH) {
                l->damage.there = !member || newest.number <= epoch;
                if (!l->damage.there && l->log_lost) {
                        l->log_lost = false;
                        unlinkat(l->files.dir_fd, MARK, 0); /* should it come back, that costs a comparison which nobody needs */
                }
                return 0;
        }
        if (l->damage.locations > 0 && !l->log_lost)
                describe(&l->damage);
        return damage_remember(l, newest.number);
}

const char *eng_local_damage(struct eng_drive *drive)
{
        const struct eng_log_damage *d = &eng_local_of(drive)->damage;

        return d->there ? d->text : NULL;
}
