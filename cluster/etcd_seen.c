/*
 * etcd_seen.c - rule R2 as functions over values: whether etcd is the one that a node knows. Any
 * thread.
 */
#include "cluster_etcd.h"

enum cl_verdict cl_seen_judge(const struct cl_seen *seen, uint64_t cluster_id, int64_t revision)
{
        if (seen->cluster_id != 0 && cluster_id != seen->cluster_id)
                return CL_SEEN_OTHER_CLUSTER;
        return revision < seen->revision ? CL_SEEN_LOWER_REVISION : CL_SEEN_FINE;
}

enum cl_verdict cl_generation_judge(const struct cl_seen *seen, const struct cl_generation *found)
{
        const struct cl_generation *mine = &seen->generation;

        if (mine->number == 0 && mine->random == 0)
                return CL_SEEN_FINE;
        return mine->number == found->number && mine->random == found->random ? CL_SEEN_FINE : CL_SEEN_OTHER_GENERATION;
}

bool cl_seen_add(struct cl_seen *seen, uint64_t cluster_id, int64_t revision)
{
        bool changed = seen->cluster_id != cluster_id || revision > seen->revision;

        seen->cluster_id = cluster_id;
        if (revision > seen->revision)
                seen->revision = revision;
        return changed;
}

const char *cl_verdict_text(enum cl_verdict verdict)
{
        static const char *const texts[CL_VERDICTS_END] = {
#define CL_VERDICT_TEXT(name, text) [CL_SEEN_##name] = text,
                CL_VERDICTS(CL_VERDICT_TEXT)
#undef CL_VERDICT_TEXT
        };

        return texts[verdict];
}
