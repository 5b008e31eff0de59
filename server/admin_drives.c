/*
 * admin_drives.c - what the admin listener answers about drives and healing: /admin/v1/drives,
 * /admin/v1/start, /admin/v1/heal.
 *
 * On the admin thread. Taking a drive in, or opening the store without some, may take long (logs
 * are replayed and compared), so POST answers a number at once, and GET with that number says how
 * it went.
 */
#include "server/admin_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- drives ---------------------------------------------------------------------------------- */

static json_t *drive_json(const struct eng_drive_info *drive, unsigned slot)
{
        return json_pack("{s:i, s:o, s:s, s:s, s:b, s:b, s:b, s:b, s:o, s:o, s:o}", "slot", (int)slot, "path", srv_admin_text(drive->path),
                         "id", drive->id, "state", srv_drive_state_name(drive->state), "filling", drive->filling, "adding",
                         drive->adding, "leaving", drive->leaving, "unreliable", drive->unreliable, "reason",
                         srv_admin_text(drive->reason), "total_bytes", srv_admin_number(drive->total_bytes), "free_bytes",
                         srv_admin_number(drive->free_bytes));
}

static struct admin_answer list_drives(struct admin_request *request)
{
        struct eng_health *health = malloc(sizeof(*health));
        json_t *drives;
        unsigned i;

        if (health == NULL)
                return srv_admin_error(503, "OutOfMemory", "out of memory");
        eng_health_read(request->admin->source.store, health);
        if (health->drive_count == 0 && request->admin->link != NULL) { /* a leader that has only begun does not know its drives yet */
                free(health);
                return srv_admin_error(503, "NotLed", "the pool is being opened: its drives are not known yet");
        }
        drives = json_array();
        for (i = 0; i < health->drive_count; i++)
                json_array_append_new(drives, drive_json(&health->drives[i], i));
        free(health);
        return srv_admin_json(200, json_pack("{s:o}", "drives", drives));
}

static struct admin_answer attach_report(struct admin_request *request, uint64_t number)
{
        struct eng_hot_add_report r;

        if (eng_hot_add_read(request->admin->source.store, number, &r) != 0)
                return srv_admin_error(404, "NoSuchNumber", "no drive was taken in under this number, or it is long ago");
        return srv_admin_json(200, json_pack("{s:o, s:i, s:b, s:b, s:b, s:o}", "number", srv_admin_number(r.number), "slot",
                                             (int)r.slot, "replace", r.replace, "running", r.running, "taken",
                                             !r.running && r.rv == 0, "reason", srv_admin_text(r.text)));
}

struct admin_answer srv_admin_get_drives(struct admin_request *request)
{
        struct admin_parameters *p = srv_admin_parameters(request);
        struct admin_answer answer;
        uint64_t number;

        if (p == NULL)
                return srv_admin_error(400, "BadRequest", "the query is malformed");
        if (p->query.count == 0)
                answer = list_drives(request);
        else if (!srv_admin_parameter_number(p, "number", &number))
                answer = srv_admin_error(400, "BadRequest", "number=N is all that this path takes");
        else
                answer = attach_report(request, number);
        free(p);
        return answer;
}

/* What POST can ask for, and what it takes. */
static const struct action {
        const char *name;
        bool slot, path, path_must;
} actions[] = {
        {"add", .path = true, .path_must = true},
        {"remove", .slot = true},
        {"replace", .slot = true, .path = true, .path_must = true},
        {"return", .slot = true, .path = true},
};

static const struct action *find_action(const struct admin_parameters *p)
{
        char name[16];
        size_t i;

        if (!srv_admin_parameter(p, "action", name, sizeof(name)))
                return NULL;
        for (i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
                if (strcmp(actions[i].name, name) == 0)
                        return &actions[i];
        return NULL;
}

static int act(struct eng_store *store, const struct action *action, unsigned slot, const char *path, uint64_t *number)
{
        if (!action->slot)
                return eng_drive_add(store, path, number);
        if (!action->path)
                return eng_drive_remove(store, slot, number);
        return eng_drive_hot_add(store, slot, path[0] != '\0' ? path : NULL, action->path_must, number);
}

static struct admin_answer change_drives(struct admin_request *request, const struct admin_parameters *p)
{
        const struct action *action = find_action(p);
        char path[ENG_PATH_MAX] = "";
        uint64_t slot = 0, number;
        int rv;

        if (action == NULL)
                return srv_admin_error(400, "BadRequest", "action=add|remove|replace|return must be given");
        if (request->admin->link != NULL && action->path_must)
                return action->slot ? srv_admin_exchange_drive(request, p) : srv_admin_add_folders(request, p);
        if (action->slot ? !srv_admin_parameter_number(p, "slot", &slot) || slot >= ENG_DRIVES_MAX
                         : s3_query_find(&p->query, "slot") != NULL)
                return srv_admin_error(400, "BadRequest", action->slot ? "slot=N must be given" : "a new drive gets the next slot");
        if (s3_query_find(&p->query, "path") != NULL &&
            (!action->path || !srv_admin_parameter(p, "path", path, sizeof(path))))
                return srv_admin_error(400, "BadRequest", action->path ? "path is too long" : "there is no path to be given");
        if ((action->path_must || path[0] != '\0') && path[0] != '/')
                return srv_admin_error(400, "BadRequest", "path must be a whole path, from /");
        rv = act(request->admin->source.store, action, (unsigned)slot, path, &number);
        if (rv != 0)
                return srv_admin_error(503, "Unavailable", strerror(-rv));
        return srv_admin_json(202, json_pack("{s:o}", "number", srv_admin_number(number)));
}

struct admin_answer srv_admin_post_drives(struct admin_request *request)
{
        struct admin_parameters *p = srv_admin_parameters(request);
        struct admin_answer answer;

        if (p == NULL)
                return srv_admin_error(400, "BadRequest", "the query is malformed");
        answer = change_drives(request, p);
        free(p);
        return answer;
}

/* ---- going on without drives ----------------------------------------------------------------- */

/* One slot or drive id of a list. -1: there is no such drive. */
static int slot_of_word(const struct eng_health *health, const char *word)
{
        unsigned slot;
        char *end;

        for (slot = 0; slot < health->drive_count; slot++)
                if (strcmp(word, health->drives[slot].id) == 0)
                        return (int)slot;
        if (word[0] < '0' || word[0] > '9' || strlen(word) > 2)
                return -1;
        slot = (unsigned)strtoul(word, &end, 10);
        return *end == '\0' && slot < health->drive_count ? (int)slot : -1;
}

/* The slots that without=… names. False: *wrong is a word of it that names no drive. */
static bool take_slots(const struct eng_health *health, char *list, uint64_t *slots, const char **wrong)
{
        char *rest = list, *word;

        *slots = 0;
        while ((word = strsep(&rest, ",")) != NULL) {
                int slot = slot_of_word(health, word);

                *wrong = word;
                if (slot < 0)
                        return false;
                *slots |= (uint64_t)1 << slot;
        }
        return true;
}

static json_t *missed_json(const struct eng_outlook *outlook, const struct eng_health *health)
{
        json_t *drives = json_array();
        unsigned i;

        for (i = 0; i < health->drive_count; i++) {
                json_t *drive;

                if (!(outlook->missed & (uint64_t)1 << i))
                        continue;
                drive = drive_json(&health->drives[i], i);
                if (outlook->losing) {
                        json_object_set_new(drive, "groups_waiting", json_integer(outlook->waits[i]));
                        json_object_set_new(drive, "groups_only", json_integer(outlook->last[i]));
                        json_object_set_new(drive, "lost_writes", json_boolean(outlook->doubted >> i & 1));
                }
                json_array_append_new(drives, drive);
        }
        return drives;
}

static struct admin_answer outlook_answer(const struct eng_outlook *outlook, const struct eng_health *health, const char *refusal)
{
        return srv_admin_json(
                200, json_pack("{s:o, s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:b, s:b, s:i, s:o}", "reason",
                               srv_admin_text(health->reason), "missed", missed_json(outlook, health), "epoch",
                               srv_admin_number(outlook->epoch), "drives_total", (int)health->drive_count, "drives_left",
                               (int)outlook->left, "drives_needed", (int)outlook->least, "groups", (int)outlook->groups,
                               "groups_in_doubt", (int)outlook->doubtful, "groups_lost", (int)outlook->lost, "groups_alone",
                               (int)outlook->alone, "groups_unreadable",
                               (int)outlook->unreadable, "buckets_in_doubt", outlook->buckets_doubtful, "writable",
                               outlook->writable, "losing", outlook->losing, "groups_gone", (int)outlook->nobody, "refusal", srv_admin_text(refusal)));
}

static struct admin_answer go_on_without(struct admin_request *request, const struct eng_outlook *outlook, uint64_t slots)
{
        char why[200];
        uint64_t number;
        int rv;

        eng_outlook_refuse(outlook, slots, why);
        if (why[0] != '\0')
                return srv_admin_error(409, "Refused", why);
        rv = eng_force(request->admin->source.store, slots, &number);
        if (rv == -EALREADY)
                return srv_admin_error(409, "AlreadyRunning", "the store is being opened without drives");
        if (rv != 0)
                return srv_admin_error(503, "Unavailable", strerror(-rv));
        return srv_admin_json(202, json_pack("{s:o}", "number", srv_admin_number(number)));
}

static struct admin_answer without(struct admin_request *request, const struct admin_parameters *p, bool go)
{
        char list[ENG_DRIVES_MAX * 33 + 1], why[200] = "";
        struct eng_health *health = malloc(sizeof(*health));
        struct admin_answer answer;
        struct eng_outlook outlook;
        const char *wrong = "";
        uint64_t slots = 0;

        if (health == NULL)
                return srv_admin_error(503, "OutOfMemory", "out of memory");
        eng_health_read(request->admin->source.store, health);
        eng_outlook_read(request->admin->source.store, &outlook);
        if (!srv_admin_parameter(p, "without", list, sizeof(list))) {
                answer = srv_admin_error(400, "BadRequest", "without=SLOT[,SLOT]... must be given once");
        } else if (health->drive_count != 0 && !take_slots(health, list, &slots, &wrong)) {
                snprintf(why, sizeof(why), "no drive of this store: %.150s", wrong);
                answer = srv_admin_error(400, "NoSuchDrive", why);
        } else if (go) {
                answer = go_on_without(request, &outlook, slots);
        } else {
                eng_outlook_refuse(&outlook, slots, why);
                answer = outlook_answer(&outlook, health, why);
        }
        free(health);
        return answer;
}

static struct admin_answer start_report(struct admin_request *request, const struct admin_parameters *p)
{
        struct eng_force_report r;
        uint64_t number;

        if (!srv_admin_parameter_number(p, "number", &number))
                return srv_admin_error(400, "BadRequest", "number=N or without=SLOT[,SLOT]... must be given");
        if (eng_force_read(request->admin->source.store, number, &r) != 0)
                return srv_admin_error(404, "NoSuchNumber", "the store was not opened without drives under this number");
        return srv_admin_json(200, json_pack("{s:o, s:b, s:b, s:o}", "number", srv_admin_number(r.number), "running", r.running,
                                             "open", !r.running && r.rv == 0, "reason", srv_admin_text(r.text)));
}

struct admin_answer srv_admin_get_start(struct admin_request *request)
{
        struct admin_parameters *p = srv_admin_parameters(request);
        struct admin_answer answer;

        if (p == NULL)
                return srv_admin_error(400, "BadRequest", "the query is malformed");
        answer = s3_query_find(&p->query, "without") != NULL ? without(request, p, false) : start_report(request, p);
        free(p);
        return answer;
}

struct admin_answer srv_admin_post_start(struct admin_request *request)
{
        struct admin_parameters *p = srv_admin_parameters(request);
        struct admin_answer answer;

        if (p == NULL)
                return srv_admin_error(400, "BadRequest", "the query is malformed");
        answer = without(request, p, true);
        free(p);
        return answer;
}

/* ---- healing --------------------------------------------------------------------------------- */

json_t *srv_admin_digests(const struct eng_digest digests[ENG_DRIVES_MAX])
{
        json_t *all = json_array();
        unsigned slot, i;

        for (slot = 0; slot < ENG_DRIVES_MAX; slot++) {
                const struct eng_digest *d = &digests[slot];
                char hex[2 * sizeof(d->bytes) + 1];

                if (d->shards == 0)
                        continue;
                for (i = 0; i < sizeof(d->bytes); i++)
                        snprintf(hex + 2 * i, 3, "%02x", d->bytes[i]);
                json_array_append_new(all, json_pack("{s:i, s:o, s:o, s:s}", "slot", (int)slot, "shards",
                                                     srv_admin_number(d->shards), "bytes", srv_admin_number(d->payload),
                                                     "digest", hex));
        }
        return all;
}

json_t *srv_admin_lacking(const uint64_t lacking[ENG_LACKS], unsigned m)
{
        json_t *json = json_object();
        char missing[12];
        unsigned i;

        for (i = 0; i < m; i++) {
                snprintf(missing, sizeof(missing), "%u", i + 1);
                json_object_set_new(json, missing, srv_admin_number(lacking[i]));
        }
        json_object_set_new(json, "more", srv_admin_number(lacking[m]));
        return json;
}

static json_t *heal_json(const struct eng_heal_report *r, unsigned m)
{
        return json_pack("{s:b, s:b, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o}", "running", r->running,
                         "surveyed", r->surveyed, "level", (int)r->level, "looked_at", srv_admin_number(r->looked_at),
                         "below", srv_admin_number(r->below), "lacking", srv_admin_lacking(r->lacking, m), "todo_objects", srv_admin_number(r->todo_objects),
                         "todo_bytes", srv_admin_number(r->todo_bytes), "done_objects", srv_admin_number(r->done_objects),
                         "done_bytes", srv_admin_number(r->done_bytes), "failed_objects",
                         srv_admin_number(r->failed_objects), "waiting_parts", srv_admin_number(r->waiting_parts),
                         "differing_names", srv_admin_number(r->differing_names), "repaired_names", srv_admin_number(r->repaired_names),
                         "undecided_names", srv_admin_number(r->undecided_names),
                         "started_ms", (json_int_t)r->started_ms, "ended_ms", (json_int_t)r->ended_ms, "drives",
                         srv_admin_digests(r->digest));
}

struct admin_answer srv_admin_get_heal(struct admin_request *request)
{
        struct eng_heal_report *reports = malloc(2 * sizeof(*reports));
        struct eng_health *health = malloc(sizeof(*health));
        struct admin_answer answer;

        if (reports == NULL || health == NULL) {
                answer = srv_admin_error(503, "OutOfMemory", "out of memory");
        } else {
                eng_heal_read(request->admin->source.store, &reports[0], &reports[1]);
                eng_health_read(request->admin->source.store, health);
                answer = srv_admin_json(200, json_pack("{s:o, s:o, s:o, s:o, s:o}", "now", heal_json(&reports[0], health->ec_m), "last",
                                                       heal_json(&reports[1], health->ec_m), "lost_objects",
                                                       srv_admin_number(health->lost_objects), "seconds_left",
                                                       srv_admin_number(health->heal_seconds_left), "rate",
                                                       srv_admin_number(health->heal_rate)));
        }
        free(reports);
        free(health);
        return answer;
}
