/*
 * admin_nodes.c - what the admin listener answers about the nodes of a cluster's pool: /admin/v1/nodes; and which of their
 * folders become drives (docs/design/growing.md).
 *
 * On the thread of the process that leads the pool. Which folders a node has announced stands in etcd; which of them are
 * drives already, in the pool's epoch. A change is begun by the engine, and its number is asked for at /admin/v1/drives.
 */
#include "server/admin_private.h"

#include "server/cluster_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SPARE_PERCENT 5u /* of the drives that stay: so much is to be left free when they have taken what leaves */

/* What an answer is made of. */
struct nodes {
        struct cl_view view;
        const struct cl_pool *pool; /* of it: the one that this process leads */
        struct eng_health health;
};

static void nodes_free(struct nodes *n)
{
        if (n != NULL)
                cl_view_free(&n->view);
        free(n);
}

/* NULL, and *answer says why. */
static struct nodes *nodes_read(struct admin_request *request, struct admin_answer *answer)
{
        struct nodes *n = calloc(1, sizeof(*n));
        char text[CL_TEXT_MAX];
        int why;

        if (request->admin->link == NULL) {
                *answer = srv_admin_error(400, "NoCluster", "this store is no cluster's: it has no nodes");
        } else if (n == NULL || srv_link_view(request->admin->link, &n->view, &why, text) != 0) {
                *answer = srv_admin_error(503, "OutOfMemory", "out of memory");
        } else if (n->view.revision == 0 || !cl_view_pool(&n->view, request->admin->pool)->has_config) {
                *answer = srv_admin_error(503, "Unavailable", "etcd has not been read yet");
        } else {
                n->pool = cl_view_pool(&n->view, request->admin->pool);
                eng_health_read(request->admin->source.store, &n->health);
                if (n->health.ready && n->health.drive_count >= n->pool->epoch.slots)
                        return n;
                *answer = srv_admin_error(503, "NotLed", "the pool is being opened: nothing was done");
        }
        nodes_free(n);
        return NULL;
}

/* Slots of the pool on a node: all that ever were; those that were removed are `gone`. */
static uint64_t node_slots(const struct cl_pool *pool, uint16_t node, uint64_t *gone)
{
        uint64_t all = 0;
        unsigned slot;

        for (slot = 0; slot < pool->epoch.slots; slot++)
                all |= pool->epoch.slot[slot].site.node == node ? 1ull << slot : 0;
        *gone = all & pool->epoch.gone;
        return all;
}

/* Of any pool: a folder is a slot of one. */
static bool is_in_pool(const struct cl_view *view, const uint8_t id[CL_ID])
{
        unsigned i, slot;

        for (i = 0; i < view->pool_count; i++)
                for (slot = 0; slot < view->pools[i].epoch.slots; slot++)
                        if (memcmp(view->pools[i].epoch.slot[slot].drive_id, id, CL_ID) == 0)
                                return true;
        return false;
}

/* Ids of folders that are meant. */
struct folder_ids {
        unsigned count; /* 0: all */
        uint8_t at[CL_DRIVES_MAX][CL_ID];
};

static bool ids_name(const struct folder_ids *ids, const uint8_t id[CL_ID])
{
        unsigned i;

        for (i = 0; ids != NULL && i < ids->count; i++)
                if (memcmp(ids->at[i], id, CL_ID) == 0)
                        return true;
        return ids == NULL || ids->count == 0;
}

/* The folders that a node has announced and that are no drives of a pool; of those that are meant. */
static unsigned new_folders(const struct nodes *n, const struct cl_member *member, const struct folder_ids *ids, struct eng_new_drive out[CL_DRIVES_MAX])
{
        struct eng_site site = {.node = member->number, .rack = member->node.rack};
        unsigned i, count = 0;

        for (i = 0; i < n->pool->epoch.slots; i++)
                if (n->pool->epoch.slot[i].site.node == member->number)
                        site.rack = n->pool->epoch.slot[i].site.rack; /* a node stands where its first drive says */
        for (i = 0; i < member->node.drive_count; i++) {
                const uint8_t *folder = member->node.drives[i];

                if (is_in_pool(&n->view, folder) || !ids_name(ids, folder))
                        continue;
                memcpy(out[count].id, folder, CL_ID);
                out[count++].site = site;
        }
        return count;
}

/* ---- showing them ---------------------------------------------------------------------------- */

/* What a node's drives hold, and what they have room for. */
struct node_bytes {
        uint64_t used, total;
        unsigned in, slots, leaving, adding;
};

static struct node_bytes count_node(const struct nodes *n, uint64_t slots)
{
        struct node_bytes sum = {0};
        unsigned slot;

        for (slot = 0; slot < n->health.drive_count; slot++) {
                const struct eng_drive_info *d = &n->health.drives[slot];

                if ((slots >> slot & 1) == 0)
                        continue;
                sum.slots++;
                sum.in += d->state == ENG_DRIVE_IN;
                sum.leaving += d->leaving;
                sum.adding += d->adding;
                sum.used += d->log_bytes + d->data_bytes + d->index_bytes;
                sum.total += d->total_bytes;
        }
        return sum;
}

static const char *node_state(const struct cl_member *member, const struct node_bytes *bytes, uint64_t all)
{
        if (member->node.state == CL_NODE_GONE)
                return "removed";
        if (bytes->slots == 0) /* of those that are not gone */
                return all != 0 ? "drained" : "new";
        if (bytes->leaving != 0)
                return "draining";
        if (bytes->adding != 0)
                return "joining";
        return bytes->in == bytes->slots ? "in" : bytes->in == 0 ? "out" : "partly";
}

static json_t *member_json(const struct nodes *n, const struct cl_member *member)
{
        struct eng_new_drive folders[CL_DRIVES_MAX];
        uint64_t gone, all = node_slots(n->pool, member->number, &gone);
        struct node_bytes bytes = count_node(n, all & ~gone);
        json_t *slots = json_array(), *ids = json_array();
        unsigned i, count = new_folders(n, member, NULL, folders);
        char id[2 * CL_ID + 1];

        for (i = 0; i < ENG_DRIVES_MAX; i++)
                if ((all & ~gone) >> i & 1)
                        json_array_append_new(slots, json_integer(i));
        for (i = 0; i < count; i++) {
                s3_hex_encode(folders[i].id, CL_ID, id);
                json_array_append_new(ids, json_string(id));
        }
        return json_pack("{s:i, s:s, s:s, s:s, s:s, s:o, s:i, s:o, s:o, s:o}", "node", (int)member->number, "name", member->node.name, "address",
                         member->node.address, "s3", member->node.s3, "state", node_state(member, &bytes, all), "slots", slots, "in", (int)bytes.in, "new_folders", ids,
                         "used_bytes", srv_admin_number(bytes.used), "total_bytes", srv_admin_number(bytes.total));
}

struct admin_answer srv_admin_get_nodes(struct admin_request *request)
{
        struct admin_answer answer;
        struct nodes *n = nodes_read(request, &answer);
        json_t *list;
        unsigned i;

        if (n == NULL)
                return answer;
        list = json_array();
        for (i = 0; i < n->view.count; i++)
                json_array_append_new(list, member_json(n, &n->view.members[i]));
        answer = srv_admin_json(200, json_pack("{s:o, s:o, s:o, s:o}", "nodes", list, "bytes_left", srv_admin_number(n->health.heal_bytes_left), "seconds_left",
                                               srv_admin_number(n->health.heal_seconds_left), "rate", srv_admin_number(n->health.heal_rate)));
        nodes_free(n);
        return answer;
}

/* ---- changing them --------------------------------------------------------------------------- */

/* 0: none was given, or one that no node has. */
static uint16_t node_number(const struct admin_parameters *p)
{
        uint64_t number;

        return srv_admin_parameter_number(p, "node", &number) && number <= CL_NODE_LAST ? (uint16_t)number : 0;
}

/* By name or by number: a name may be a number, too. */
static const struct cl_member *find_node(const struct nodes *n, const struct admin_parameters *p)
{
        char name[CL_NAME_MAX];
        unsigned i;

        for (i = 0; srv_admin_parameter(p, "node", name, sizeof(name)) && i < n->view.count; i++)
                if (strcmp(n->view.members[i].node.name, name) == 0)
                        return &n->view.members[i];
        return node_number(p) != 0 ? cl_view_member(&n->view, node_number(p)) : NULL;
}

/* number 0: it is under way already, or over. */
static struct admin_answer change_begun(int rv, uint64_t number)
{
        if (rv != 0)
                return srv_admin_error(503, "Unavailable", strerror(-rv));
        return srv_admin_json(202, json_pack("{s:o}", "number", srv_admin_number(number)));
}

#define ID_DIGITS (2u * CL_ID)

/* "id", or "ids": several with commas. False: it is given, and none. */
static bool take_folder_ids(const struct admin_parameters *p, struct folder_ids *ids)
{
        const char *name = s3_query_find(&p->query, "ids") != NULL ? "ids" : "id";
        char text[CL_DRIVES_MAX * (ID_DIGITS + 1)], *word, *rest;

        ids->count = 0;
        if (s3_query_find(&p->query, name) == NULL)
                return true;
        if (!srv_admin_parameter(p, name, text, sizeof(text)))
                return false;
        for (word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest))
                if (ids->count == CL_DRIVES_MAX || strlen(word) != ID_DIGITS || !cl_hex_read(word, ids->at[ids->count++], CL_ID))
                        return false;
        return ids->count == 1 || (ids->count > 1 && strcmp(name, "ids") == 0);
}

static bool only_checks(const struct admin_parameters *p)
{
        char text[4];

        return srv_admin_parameter(p, "check", text, sizeof(text)) && strcmp(text, "yes") == 0;
}

static struct admin_answer no_new_folders(const struct cl_member *member, bool of_id)
{
        char text[200];

        snprintf(text, sizeof(text), "node %u has announced no %s: put the folder into its settings, without format = no, and restart it", (unsigned)member->number,
                 of_id ? "new folder of that id" : "new folders");
        return srv_admin_error(409, "NoFolder", text);
}

/* What looks like a new folder may be that pool's. */
static struct admin_answer folders_unknown(void)
{
        return srv_admin_error(503, "Unavailable", "what etcd has of some pool makes no sense, or lacks its configuration: until it is put back, nobody knows which folders are new");
}

static struct admin_answer add_to(struct admin_request *request, const struct admin_parameters *p, const struct nodes *n)
{
        const struct cl_member *member = find_node(n, p);
        struct eng_new_drive folders[CL_DRIVES_MAX];
        uint64_t gone, all, number = 0;
        struct folder_ids ids;
        unsigned count;
        int rv;

        if (!take_folder_ids(p, &ids))
                return srv_admin_error(400, "BadRequest", "id is 32 hex digits");
        if (cl_view_bad_pool(&n->view) != NULL)
                return folders_unknown();
        if (member == NULL)
                return srv_admin_error(404, "NoSuchNode", "no node of that number or name has joined");
        all = node_slots(n->pool, member->number, &gone);
        if (member->node.state == CL_NODE_GONE)
                return srv_admin_error(409, "Removed", "that node was removed: a machine that joins again needs another name");
        if (all != 0 && all == gone)
                return srv_admin_error(409, "Drained", "that node was drained: a machine that joins again needs another name, and empty folders");
        count = new_folders(n, member, &ids, folders);
        if (count == 0 && count_node(n, all & ~gone).adding != 0)
                return change_begun(0, 0);
        if (count == 0 || count < ids.count)
                return no_new_folders(member, ids.count > 0);
        if (only_checks(p))
                return change_begun(0, 0);
        rv = eng_drives_add(request->admin->source.store, folders, count, &number);
        return change_begun(rv, number);
}

static struct admin_answer exchange_in(struct admin_request *request, const struct admin_parameters *p, const struct nodes *n)
{
        struct eng_new_drive folders[CL_DRIVES_MAX];
        const struct cl_member *member;
        uint64_t slot, number = 0;
        struct folder_ids ids;
        unsigned count;
        int rv;

        if (!srv_admin_parameter_number(p, "slot", &slot) || slot >= n->pool->epoch.slots)
                return srv_admin_error(400, "BadRequest", "slot=N must be given, of a slot that there is");
        if (!take_folder_ids(p, &ids) || ids.count > 1)
                return srv_admin_error(400, "BadRequest", "id is 32 hex digits");
        if (cl_view_bad_pool(&n->view) != NULL)
                return folders_unknown();
        member = cl_view_member(&n->view, n->pool->epoch.slot[slot].site.node);
        if (member == NULL)
                return srv_admin_error(409, "NoSuchNode", "the node of that slot has not joined");
        count = new_folders(n, member, &ids, folders);
        if (count == 0)
                return no_new_folders(member, ids.count > 0);
        if (count > 1)
                return srv_admin_error(409, "Ambiguous", "the node of that slot has announced several new folders: name one by its id (millrace admin cluster node status)");
        rv = eng_drive_exchange(request->admin->source.store, (unsigned)slot, &folders[0], &number);
        return change_begun(rv, number);
}

static struct admin_answer in_a_cluster(struct admin_request *request, const struct admin_parameters *p,
                                         struct admin_answer (*what)(struct admin_request *request, const struct admin_parameters *p, const struct nodes *n))
{
        struct admin_answer answer;
        struct nodes *n;

        if (s3_query_find(&p->query, "path") != NULL)
                return srv_admin_error(400, "BadRequest", "in a cluster a new folder is in that node's settings: name the node, or the slot, and the folder's id if need be");
        n = nodes_read(request, &answer);
        if (n != NULL)
                answer = what(request, p, n);
        nodes_free(n);
        return answer;
}

struct admin_answer srv_admin_add_folders(struct admin_request *request, const struct admin_parameters *p)
{
        return in_a_cluster(request, p, add_to);
}

struct admin_answer srv_admin_exchange_drive(struct admin_request *request, const struct admin_parameters *p)
{
        return in_a_cluster(request, p, exchange_in);
}

/* Whether the drives that stay have room for what these hold. */
static bool nodes_fit(const struct nodes *n, uint64_t slots, char why[200])
{
        uint64_t used = 0, room = 0, spare;
        unsigned slot;

        for (slot = 0; slot < n->health.drive_count; slot++) {
                const struct eng_drive_info *d = &n->health.drives[slot];

                if (slots >> slot & 1) {
                        used += d->data_bytes + d->log_live_bytes;
                        continue;
                }
                if (d->state != ENG_DRIVE_IN)
                        continue;
                spare = d->reserve_bytes + d->total_bytes / 100 * SPARE_PERCENT;
                room += d->free_bytes > spare ? d->free_bytes - spare : 0;
        }
        if (used > room)
                snprintf(why, 200, "its drives hold %llu MiB, and the others have room for %llu MiB", (unsigned long long)(used >> 20), (unsigned long long)(room >> 20));
        return used <= room;
}

static bool leads_pool(const struct cl_pool *pool, const struct cl_member *member)
{
        return member != NULL && pool->is_led && pool->leader.node == member->number;
}

static bool leads_a_pool(const struct cl_view *view, const struct cl_member *member)
{
        unsigned i;

        for (i = 0; i < view->pool_count; i++)
                if (leads_pool(&view->pools[i], member))
                        return true;
        return false;
}

/* It has no drives, in any pool. */
static bool is_empty(const struct cl_view *view, uint16_t node)
{
        uint64_t gone;
        unsigned i;

        for (i = 0; i < view->pool_count; i++)
                if (node_slots(&view->pools[i], node, &gone) != gone)
                        return false;
        return true;
}

/* Other nodes refuse it from when they have read that: within a second. */
static struct admin_answer take_rights(struct admin_request *request, const struct cl_member *member)
{
        int rv = member->node.state == CL_NODE_GONE ? 0 : srv_link_remove(request->admin->link, member);

        if (rv == -EPERM)
                return srv_admin_error(409, "Joined", "that node has entered the cluster meanwhile: switch it off, and ask again");
        return change_begun(rv, 0);
}

static struct admin_answer take_node_out(struct admin_request *request, const struct admin_parameters *p, const struct nodes *n, bool dead)
{
        const struct cl_member *member = find_node(n, p);
        uint64_t number = 0, gone, all;
        struct node_bytes bytes;
        char why[200];
        int rv;

        if (member == NULL && node_number(p) == 0)
                return srv_admin_error(404, "NoSuchNode", "no node of that number or name has joined");
        all = node_slots(n->pool, member != NULL ? member->number : node_number(p), &gone);
        if (dead && leads_a_pool(&n->view, member) && is_empty(&n->view, member->number))
                return srv_admin_error(503, "NotLed", "that node has no drives, and leads a pool until another does"); /* who asks waits for that */
        if (dead && member != NULL && is_empty(&n->view, member->number))
                return only_checks(p) ? change_begun(0, 0) : take_rights(request, member);
        if (all == 0)
                return srv_admin_error(404, "NoSuchNode", "that node has no drives in the pool");
        if (all == gone)
                return change_begun(0, 0); /* it was given again, and is over */
        bytes = count_node(n, all & ~gone);
        if (dead && (bytes.in != 0 || leads_pool(n->pool, member)))
                return srv_admin_error(409, "InUse", "that node leads the pool, or drives of it are in use: drain it, or switch it off if it is gone for good");
        if (!dead && bytes.in == 0)
                return srv_admin_error(409, "Out", "no drive of that node is in use: start it; if it is gone for good, remove it (admin cluster node remove)");
        if (bytes.leaving == bytes.slots)
                return change_begun(0, 0);
        if (!nodes_fit(n, all & ~gone, why))
                return srv_admin_error(409, "NoRoom", why);
        if (only_checks(p))
                return change_begun(0, 0);
        rv = eng_drives_remove(request->admin->source.store, all & ~gone, &number);
        return change_begun(rv, number);
}

struct admin_answer srv_admin_post_nodes(struct admin_request *request)
{
        struct admin_parameters *p = srv_admin_parameters(request);
        struct admin_answer answer;
        struct nodes *n = NULL;
        char action[16];

        if (p == NULL)
                return srv_admin_error(400, "BadRequest", "the query is malformed");
        if (!srv_admin_parameter(p, "action", action, sizeof(action)) || s3_query_find(&p->query, "node") == NULL)
                answer = srv_admin_error(400, "BadRequest", "action=add|drain|remove and node=NODE must be given");
        else
                n = nodes_read(request, &answer);
        if (n != NULL && strcmp(action, "add") == 0)
                answer = add_to(request, p, n);
        else if (n != NULL && (strcmp(action, "drain") == 0 || strcmp(action, "remove") == 0))
                answer = take_node_out(request, p, n, action[0] == 'r');
        else if (n != NULL)
                answer = srv_admin_error(400, "BadRequest", "action is add, drain or remove");
        nodes_free(n);
        free(p);
        return answer;
}
