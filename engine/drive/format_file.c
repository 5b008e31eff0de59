/*
 * format_file.c - the operation FEATURES: FORMAT is written anew with more bits in its line 'features',
 * by the worker for files; and the same for the first OPEN of a drive. owner: the loop, but for what the worker does.
 *
 * The new file is another inode: the look at the folder (file.c), which runs on the same worker,
 * compares with it from then on. A failure does not end the drive: one of both files is there, and both
 * are right for what the drive holds. Whoever asked does not write what needs the bits.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "engine/drive/identity.h"

static void features_run(struct eng_job *job)
{
        struct eng_local *l = container_of(job, struct eng_local, features.job);
        int rv = eng_folder_features(l->dir_fd, l->path, l->features.bits, NULL);

        if (rv == 0 && fstatat(l->dir_fd, "FORMAT", &l->format, 0) != 0)
                rv = -errno;
        l->features.result = rv;
}

static void features_done(struct eng_job *job)
{
        struct eng_local *l = container_of(job, struct eng_local, features.job);
        struct eng_op *op = l->features.op;
        int rv = l->features.result;

        l->features.op = NULL;
        l->features.busy = false;
        if (!eng_local_release(l)) /* whoever closed the drive has given the op up */
                return;
        if (rv == 0 && (l->features.bits & FMT_FEATURE_TERMS) != 0)
                l->terms.guarded = true;
        if (op != NULL) {
                eng_local_answer(op, rv);
                rv = 0; /* OPEN tries for itself */
        }
        eng_terms_guarded(l, rv);
}

static void features_give(struct eng_local *l, struct eng_op *op, uint64_t bits)
{
        l->features.busy = true;
        l->features.op = op;
        l->features.bits = bits;
        eng_local_give(l, &l->file_worker, &l->features.job, features_run, features_done);
}

void eng_features_op(struct eng_local *l, struct eng_op *op)
{
        assert(eng_local_on_loop(l));
        if (l->features.busy)
                eng_local_answer(op, -EAGAIN);
        else
                features_give(l, op, op->features.bits);
}

void eng_features_guard(struct eng_local *l)
{
        if (!l->features.busy)
                features_give(l, NULL, FMT_FEATURE_TERMS);
}
