/*
 * sim_versions.c - clients of a bucket with versions: in every third history there is one beside
 * the plain one. Its versioning begins as the seed says, and changes while clients work.
 *
 * Each key's versions are one value in the history (history_versions.h). Versions that answers told
 * of are remembered, so that they can be asked for by their id, also when they are gone.
 */
#include "tests/sim/sim_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/store.h"
#include "tests/sim/history_versions.h"
#include "tests/sim/sim_content.h"
#include "tests/sim/sim_locks.h"

#define VERSIONS_IN   3u   /* one history in so many has such a bucket */
#define KEYS_USED     3u   /* few, so that each has many versions */
#define MANY          30u  /* versions of a key: some are to be deleted */
#define KNOWN_MAX     256u
#define CHANGES_MAX   256u
#define SHOWN_MAX     400u

struct version_figures version_figures;

/* A version that an answer told of. */
struct known {
        unsigned key;
        struct eng_version id;
        uint32_t content;
        int64_t mtime_ms;
        uint64_t size;
};

/* The bucket's versioning was set; maybe: it is not known whether it was. */
struct state_change {
        uint64_t asked, answered;
        enum eng_versioning to;
        bool maybe;
};

static struct {
        bool planned;
        bool lock, lock_asked;     /* there is object lock for certain; there may be */
        bool lock_later;           /* the bucket is given it at some time */
        bool steady;               /* versioning is enabled, and stays so */
        bool looked;               /* in this life, at what the bucket's versioning is */
        bool changing;             /* one client changes it */
        unsigned bucket;           /* of world.buckets; 0: none yet */
        enum eng_versioning first;
        uint32_t tags;             /* given so far: each is another */
        struct state_change changes[CHANGES_MAX];
        unsigned change_count;
        struct known known[KNOWN_MAX];
        unsigned known_count;      /* ever */
        unsigned many[KEYS_USED];  /* versions of each, at most, as far as anybody looked */
} versions;

/* What a client's listing has shown so far. */
static struct shown {
        uint64_t asked;            /* its first page */
        struct eng_version after;
        bool inside;
        unsigned count;
        struct shown_entry {
                unsigned key;
                struct version_item item;
                struct eng_version id;
                bool latest;
                int64_t mtime_ms;
                uint64_t size;
        } entries[SHOWN_MAX];
} shown[CLIENTS_MAX];

static uint64_t below(uint64_t n)
{
        return sim_below(SIM_VERSIONS, n);
}

static bool chance(unsigned of)
{
        return sim_chance(SIM_VERSIONS, of);
}

static unsigned keys_used(void)
{
        return world.key_count < KEYS_USED ? world.key_count : KEYS_USED;
}

static uint64_t bucket_id(void)
{
        return world.buckets[versions.bucket].id;
}

void versions_plan(bool steady)
{
        memset(&versions, 0, sizeof(versions));
        versions.planned = chance(VERSIONS_IN);
        versions.lock = versions.lock_asked = chance(3);
        versions.lock_later = !versions.lock && sim_chance(SIM_LOCKS, 2);
        versions.steady = versions.lock || steady;
        versions.first = versions.steady || chance(2) ? ENG_VERSIONING_ENABLED : ENG_VERSIONING_NEVER;
        if (versions.planned)
                sim_trace("plan: a bucket with versions%s", versions.lock ? " and locks" : versions.lock_later ? ", and locks later" : "");
        locks_plan(versions.planned && (versions.lock || versions.lock_later));
}

void versions_plan_no_locks(void)
{
        versions.lock = versions.lock_asked = versions.lock_later = false;
        locks_plan(false);
}

bool versions_planned(void)
{
        return versions.planned;
}

bool versions_exist(void)
{
        return versions.bucket != 0;
}

bool versions_are_of(uint64_t bucket)
{
        return versions.bucket != 0 && bucket_id() == bucket;
}

void versions_bucket(struct client *c)
{
        const struct eng_bucket_rules rules = {.versioning = versions.first, .lock = versions.lock};

        bucket_create_with(c, &rules);
}

void versions_bucket_made(unsigned bucket)
{
        versions.bucket = bucket;
        version_figures.buckets++;
        if (versions.lock)
                locks_in_use();
}

/* ---- the bucket's versioning ----------------------------------------------------------------- */

static unsigned bit_of(enum eng_versioning state)
{
        return 1u << state;
}

/* By which states something may have been decided meanwhile. */
static unsigned states_possible(uint64_t asked, uint64_t until)
{
        unsigned states = bit_of(versions.first), i;

        for (i = 0; i < versions.change_count && versions.changes[i].asked <= until; i++) {
                const struct state_change *change = &versions.changes[i];

                if (!change->maybe && change->answered < asked)
                        states = bit_of(change->to);
                else
                        states |= bit_of(change->to);
        }
        return states;
}

static struct state_change *add_change(enum eng_versioning to)
{
        struct state_change *change = &versions.changes[versions.change_count++];

        *change = (struct state_change){.asked = history_now(), .to = to, .maybe = true};
        return change;
}

void versions_start(void)
{
        versions.looked = versions.changing = false;
}

/*
 * A loop's copy is one that may be. The first look of a process that may write says for all of its
 * loops what they began with.
 */
static bool look_at_rules(struct client *c, struct eng_bucket_rules *rules)
{
        const struct sim_bucket *b = &world.buckets[versions.bucket];
        const struct eng_bucket *found;
        uint64_t now = history_now();
        int rv;

        if (!eng_is_current(c->store))
                return false;
        rv = eng_bucket_get(c->store, (struct eng_str){b->name, strlen(b->name)}, &found);
        if (rv == -EHOSTDOWN) /* a home of a leader that only begins */
                return false;
        if (rv != 0)
                sim_fail("client %u: the bucket with versions is not there", c->number);
        *rules = found->rules;
        if ((states_possible(now, now) & bit_of(rules->versioning)) == 0 || (rules->lock ? !versions.lock_asked : versions.lock))
                sim_fail("client %u: the bucket's versioning cannot be %d", c->number, (int)rules->versioning);
        if (!versions.looked && c->store->coord->view.writable && versions.change_count < CHANGES_MAX - 1) {
                struct state_change *change = add_change(rules->versioning);

                change->answered = history_now();
                change->maybe = false;
                versions.looked = true;
                versions.lock = versions.lock_asked = rules->lock;
                if (rules->lock)
                        locks_in_use();
        }
        return versions.looked;
}

static void state_changed(void *arg, int rv)
{
        struct client *c = arg;
        struct state_change *change = &versions.changes[versions.change_count - 1];

        versions.changing = false;
        if (rv == 0) {
                change->answered = history_now();
                change->maybe = false;
                version_figures.states++;
                versions.lock = versions.lock_asked;
                if (versions.lock)
                        locks_in_use();
        } else if (rv == -ESTALE || client_refused(c, rv)) {
                versions.change_count--;
                versions.lock_asked = versions.lock;
        }
        if (rv != 0 && rv != -ESTALE)
                client_error(c, rv);
        client_done(c, rv);
}

static void version_change_state(struct client *c, struct eng_bucket_rules rules)
{
        c->doing = "set versioning";
        if ((versions.steady && !versions.lock_later) || versions.lock_asked || versions.changing || !versions.looked || versions.change_count == CHANGES_MAX) {
                client_done(c, 0);
                return;
        }
        rules.versioning = rules.versioning == ENG_VERSIONING_ENABLED || (rules.versioning == ENG_VERSIONING_NEVER && chance(3))
                                   ? ENG_VERSIONING_SUSPENDED
                                   : ENG_VERSIONING_ENABLED;
        if (versions.lock_later && (versions.steady || sim_chance(SIM_LOCKS, 3))) {
                rules.versioning = ENG_VERSIONING_ENABLED;
                rules.lock = versions.lock_asked = true;
        }
        versions.changing = true;
        (void)add_change(rules.versioning);
        eng_bucket_rules_set(c->store, bucket_id(), &rules, state_changed, c);
}

/* ---- what is known of versions --------------------------------------------------------------- */

static void learn(const struct client *c, const struct eng_object *object, uint32_t content)
{
        versions.known[versions.known_count++ % KNOWN_MAX] = (struct known){
                .key = c->key, .id = object->version, .content = content, .mtime_ms = object->mtime_ms, .size = object->size};
}

/* One of this key, mostly of the last ones; NULL: none was drawn. */
static const struct known *draw_known(const struct client *c)
{
        unsigned most = versions.known_count < KNOWN_MAX ? versions.known_count : KNOWN_MAX, i;

        for (i = 0; i < 20 && most > 0; i++) {
                const struct known *k = &versions.known[(versions.known_count - 1 - sim_skewed(SIM_VERSIONS, 0, most - 1)) % KNOWN_MAX];

                if (k->key == c->key)
                        return k;
        }
        return NULL;
}

/* Tags of one number, as FMT_FIELD_TAGS has them. */
static struct eng_str encode_tag(uint32_t tag, char out[16])
{
        const uint16_t key_len = 1, value_len = sizeof(tag);

        if (tag == 0)
                return (struct eng_str){"", 0};
        out[0] = 1;
        memcpy(out + 1, &key_len, sizeof(key_len));
        memcpy(out + 3, &value_len, sizeof(value_len));
        out[5] = 't';
        memcpy(out + 6, &tag, sizeof(tag));
        return (struct eng_str){out, 10};
}

static uint32_t extra_of(const struct client *c, const struct eng_object *object)
{
        const struct eng_str *tags = &object->tags;
        uint32_t tag = 0;
        char expected[16];

        if (tags->len == 10)
                memcpy(&tag, tags->data + 6, sizeof(tag));
        if (tags->len != encode_tag(tag, expected).len || (tags->len > 0 && memcmp(expected, tags->data, tags->len) != 0))
                sim_fail("client %u: a version of key %u has tags that nobody gave it", c->number, c->key);
        return H_EXTRA(tag, object->hold);
}

static uint64_t retention_of(const struct eng_object *object)
{
        return H_RETENTION(object->retention.mode, object->retention.until_ms);
}

/* ---- booking --------------------------------------------------------------------------------- */

/* A change that depends on the bucket's versioning, as it is where that is `state`. */
static struct history_op as_decided(const struct history_op *change, enum eng_versioning state)
{
        struct history_op op = *change;

        op.by_state = false;
        op.version = state == ENG_VERSIONING_ENABLED ? H_UNNUMBERED : H_NULL;
        if (state == ENG_VERSIONING_NEVER && H_CONTENT(op.value) == 0)
                op.kind = H_CUT;
        return op;
}

/*
 * Nobody told what it came to: it is booked once for each state by which it may have been decided.
 * That two of them take effect is a weakness of the model, but a body is there once at most.
 */
void versions_undecided(int at)
{
        const struct history_op change = *history_at((unsigned)at);
        unsigned states = states_possible(change.asked, change.answered), state, n = 0;

        if (H_CONTENT(change.value) != 0 && (states & bit_of(ENG_VERSIONING_SUSPENDED)) != 0)
                states &= ~bit_of(ENG_VERSIONING_NEVER); /* an object becomes the null version either way */
        for (state = 0; state <= ENG_VERSIONING_SUSPENDED; state++) {
                struct history_op op = as_decided(&change, (enum eng_versioning)state);

                if ((states & bit_of((enum eng_versioning)state)) == 0)
                        continue;
                if (n++ == 0)
                        *history_at((unsigned)at) = op;
                else
                        *history_add(op.name, (enum history_kind)op.kind, op.asked) = op;
        }
}

/* What the answer says of a change that may depend on the bucket's versioning. */
static void decided(int at, enum history_kind kind, const struct eng_version *version)
{
        struct history_op *op = history_at((unsigned)at);

        op->by_state = false;
        op->kind = (uint8_t)kind;
        op->version = version->number;
        client_took(at);
}

/* It did not take effect, and the answer tells how things stood. */
static void instead(int at, enum history_kind kind, uint64_t value)
{
        struct history_op *op = history_at((unsigned)at);

        if (op->by_state)
                op->version = H_NULL; /* nothing else can have been in its way */
        op->by_state = false;
        op->value = value;
        client_instead(at, kind);
}

static bool is_placed(int at)
{
        const struct history_op *op = history_at((unsigned)at);

        return op->need == NEED_VERSION || (op->place != ENG_PLACE_ANY && op->version != H_NULL);
}

static void elsewhere(int at)
{
        enum history_need need = (enum history_need)history_at((unsigned)at)->need;

        instead(at, H_ELSEWHERE, history_at((unsigned)at)->value);
        history_at((unsigned)at)->need = (uint8_t)need;
}

static void refused(int at)
{
        bool retains = history_at((unsigned)at)->kind == H_RETAIN;

        lock_figures.refused++;
        instead(at, retains ? H_KEPT : H_HELD, history_at((unsigned)at)->value);
}

static void failed(struct client *c, int at, int rv)
{
        const struct eng_condition *cond = &c->condition;
        bool on_newest = !c->by_version;

        if (rv == -EEXIST && cond->if_absent)
                instead(at, H_CURRENT, 0);
        else if (rv == -ESTALE && is_placed(at))
                elsewhere(at);
        else if (rv == -ESTALE && cond->if_etag && on_newest)
                instead(at, H_ANOTHER, H_VALUE(content_of_etag(cond->etag), 0));
        else if (rv == -ENOENT && (cond->if_etag || cond->if_present) && on_newest)
                instead(at, H_NONE, 0);
        else if (rv == -ENOENT && c->by_version)
                instead(at, H_LACKS, history_at((unsigned)at)->value);
        else if (rv == -ESTALE && c->by_version && c->version.number == 0)
                client_dropped(at); /* another one is the null version */
        else if (rv == -EACCES)
                refused(at);
        else if (client_refused(c, rv))
                client_dropped(at);
        else if (rv == -ENOENT || rv == -EEXIST || rv == -ESTALE || rv == -EIDRM || rv == -ENOLCK || rv == -ENODATA || rv == -EOPNOTSUPP)
                sim_fail("client %u: %s answers %d", c->number, c->doing, rv);
        else
                client_unknown(at);
        if (rv != -ENOENT && rv != -EEXIST && rv != -ESTALE && rv != -EACCES)
                client_error(c, rv);
}

static void saw_version(struct client *c, enum history_kind kind, uint64_t version, uint64_t value)
{
        client_saw(c, client_reg(c), kind, value);
        history_at(history_count() - 1)->version = version;
}

/* ---- putting and reading --------------------------------------------------------------------- */

/* Some end soon, others when the machine was off for a while, most behind all of it. */
static uint64_t draw_retention(struct eng_retention *out)
{
        out->mode = sim_chance(SIM_LOCKS, 2) ? ENG_RETENTION_GOVERNANCE : ENG_RETENTION_COMPLIANCE;
        out->until_ms = locks_now() + (int64_t)sim_skewed(SIM_LOCKS, 1, 4ull * 24 * 3600 * 1000);
        lock_figures.retained++;
        return H_RETENTION(out->mode, out->until_ms);
}

uint32_t versions_draw_extras(struct client *c, struct eng_extras *extras, char tags[16])
{
        uint32_t tag = client_has_versions(c) && chance(4) ? ++versions.tags : 0;

        c->retain = 0;
        if (client_has_versions(c) && versions.lock && sim_chance(SIM_LOCKS, 4))
                c->retain = draw_retention(&extras->retention);
        extras->hold = client_has_versions(c) && versions.lock && chance(6);
        extras->tags = encode_tag(tag, tags);
        return H_EXTRA(tag, extras->hold);
}

int versions_ask_put(struct client *c, uint32_t extra)
{
        int at = client_asks(c, client_reg(c), H_ADD, H_VALUE(c->content, extra));

        history_at((unsigned)at)->version = H_UNNUMBERED;
        history_at((unsigned)at)->by_state = true;
        history_at((unsigned)at)->retain = c->retain;
        return at;
}

void versions_put_answered(struct client *c, int rv, const struct eng_object *object)
{
        if (rv != 0) {
                failed(c, c->op, rv);
                return;
        }
        decided(c->op, H_ADD, &object->version);
        learn(c, object, c->content);
        versions.many[c->key]++;
}

void versions_opened(struct client *c, int rv, const struct eng_object *object)
{
        uint32_t content;

        if (rv == -ENOENT) {
                if (c->by_version)
                        saw_version(c, H_LACKS, c->version.number, H_VALUE(c->wanted, 0));
                else
                        saw_version(c, H_EMPTY, H_NULL, 0);
                return;
        }
        if (rv != 0) {
                client_error(c, rv);
                return;
        }
        content = object->marker ? 0 : c->content;
        if (c->by_version && c->version.number != object->version.number)
                sim_fail("client %u: get of key %u gives another version than it was asked for", c->number, c->key);
        if (!c->by_version) /* what it says of the version is looked up behind that */
                saw_version(c, H_NEWEST, object->version.number, H_VALUE(content, 0));
        saw_version(c, H_HAS, object->version.number, H_VALUE(content, object->marker ? 0 : extra_of(c, object)));
        history_at(history_count() - 1)->retain = object->marker ? 0 : retention_of(object);
        learn(c, object, content);
}

/* ---- deleting -------------------------------------------------------------------------------- */

static void walk_next(void *arg);

static void version_deleted(void *arg, int rv, const struct eng_deleted *what)
{
        struct client *c = arg;
        const struct eng_version null = {.number = H_NULL};

        rv = client_told(c, rv);
        if (rv != 0) {
                failed(c, c->op, rv);
        } else if (c->by_version && what->existed) {
                client_took(c->op);
                versions.many[c->key] -= versions.many[c->key] > 0;
                version_figures.deleted++;
        } else if (c->by_version) {
                instead(c->op, H_LACKS, history_at((unsigned)c->op)->value);
        } else if (what->marker) {
                struct eng_object marker = {.version = what->version};

                decided(c->op, H_ADD, &what->version);
                learn(c, &marker, 0);
                versions.many[c->key]++;
                version_figures.markers++;
        } else if (what->existed) {
                decided(c->op, H_CUT, &null);
        } else {
                instead(c->op, H_NONE, 0);
        }
        if (c->walking && !world.stopping)
                client_later(c, sim_skewed(SIM_LOCKS, 0, 20 * SIM_MS), walk_next);
        else
                client_done(c, rv);
}

static void begin_delete(struct client *c)
{
        const struct history_op *op = history_at((unsigned)c->op);
        struct eng_delete_params params = {.bucket = bucket_id(),
                                           .key = client_key(c),
                                           .version = c->by_version ? &c->version : NULL,
                                           .condition = c->condition,
                                           .place = (enum eng_place)op->place,
                                           .bypass_governance = op->bypass};

        if (op->need == NEED_VERSION) {
                params.version = &c->version;
                params.object = true;
                params.place = ENG_PLACE_NEWEST;
        }
        eng_delete(c->store, &params, version_deleted, c);
}

/* A delete marker, or what takes its place. */
static void version_delete_newest(struct client *c)
{
        struct history_op *op;

        c->doing = "delete";
        c->condition.if_absent = false;
        c->op = client_asks(c, client_reg(c), H_ADD, 0);
        op = history_at((unsigned)c->op);
        op->version = H_UNNUMBERED;
        op->by_state = true;
        op->need = c->condition.if_etag ? NEED_CONTENT : c->condition.if_present ? NEED_PRESENT : NEED_NOTHING;
        op->content = c->condition.if_etag ? content_of_etag(c->condition.etag) : 0;
        begin_delete(c);
}

/* Conditions as lifecycle has them: it is what was listed. */
static void version_delete_one(struct client *c, const struct known *k, bool as_listed, enum eng_place place)
{
        memset(&c->condition, 0, sizeof(c->condition));
        c->doing = as_listed ? "expire version" : "delete version";
        c->by_version = true;
        c->version = k->id;
        c->op = client_asks(c, client_reg(c), H_CUT, H_VALUE(k->content, 0));
        history_at((unsigned)c->op)->version = k->id.number;
        if (as_listed && k->content != 0) {
                c->condition.if_mtime = c->condition.if_size = true;
                c->condition.mtime_s = k->mtime_ms / 1000;
                c->condition.size = k->size;
        }
        history_at((unsigned)c->op)->place = (uint8_t)place;
        history_at((unsigned)c->op)->bypass = !as_listed && sim_chance(SIM_LOCKS, 3);
        begin_delete(c);
}

/* The newest version expires: it gets a delete marker, if it is the newest still. */
static void version_expire_newest(struct client *c, const struct known *k)
{
        struct history_op *op;

        memset(&c->condition, 0, sizeof(c->condition));
        c->doing = "expire object";
        c->condition.if_etag = true; /* the null version may be another one */
        content_etag(k->content, c->condition.etag);
        c->condition.etag_parts = (uint16_t)content_of(k->content)->part_count;
        c->by_version = false;
        c->version = k->id;
        c->op = client_asks(c, client_reg(c), H_ADD, 0);
        op = history_at((unsigned)c->op);
        op->version = H_UNNUMBERED;
        op->by_state = true;
        op->need = NEED_VERSION;
        op->of = k->id.number;
        op->content = k->content;
        begin_delete(c);
}

/* ---- tags and holds -------------------------------------------------------------------------- */

static void extras_changed(void *arg, int rv, const struct eng_object *object)
{
        struct client *c = arg;
        struct history_op *op = history_at((unsigned)c->op);

        rv = client_told(c, rv);
        if (rv == 0) {
                op->value = H_VALUE(content_of_etag(object->etag), (uint32_t)op->value);
                client_took(c->op);
                version_figures.extras++;
        } else if (rv == -ENODATA) {
                op->retain = 0;
                instead(c->op, H_HAS, 0); /* it is a delete marker */
        } else {
                failed(c, c->op, rv);
        }
        client_done(c, rv);
}

static void version_change_extras(struct client *c, const struct known *k)
{
        struct eng_extras_change change = {.set_hold = versions.lock && chance(2)};
        uint32_t tag = chance(4) ? 0 : ++versions.tags;
        char tags[16];

        c->doing = change.set_hold ? "set hold" : "set tags";
        memset(&c->condition, 0, sizeof(c->condition));
        c->by_version = true;
        c->version = k->id;
        change.set_tags = !change.set_hold;
        if (change.set_hold)
                change.extras.hold = chance(3);
        else
                change.extras.tags = encode_tag(tag, tags);
        c->op = client_asks(c, client_reg(c), change.set_hold ? H_HOLD : H_TAG,
                            H_VALUE(k->id.number == 0 ? 0 : k->content, change.set_hold ? H_EXTRA(0, change.extras.hold) : H_EXTRA(tag, 0)));
        history_at((unsigned)c->op)->version = k->id.number;
        eng_extras_set(c->store, bucket_id(), client_key(c), &c->version, &change, extras_changed, c);
}

static void version_change_retention(struct client *c, const struct known *k)
{
        struct eng_extras_change change = {.set_retention = true, .bypass_governance = sim_chance(SIM_LOCKS, 3)};
        struct history_op *op;
        uint64_t retain = sim_chance(SIM_LOCKS, 4) ? 0 : draw_retention(&change.extras.retention);

        c->doing = "set retention";
        memset(&c->condition, 0, sizeof(c->condition));
        c->by_version = true;
        c->version = k->id;
        c->op = client_asks(c, client_reg(c), H_RETAIN, H_VALUE(k->id.number == 0 ? 0 : k->content, 0));
        op = history_at((unsigned)c->op);
        op->version = k->id.number;
        op->retain = retain;
        op->bypass = change.bypass_governance;
        eng_extras_set(c->store, bucket_id(), client_key(c), &c->version, &change, extras_changed, c);
}

/* ---- listings -------------------------------------------------------------------------------- */

static void versions_next_page(void *arg);

static unsigned key_of(const struct client *c, struct eng_str key)
{
        unsigned i;

        for (i = 0; i < world.key_count; i++)
                if (strlen(world.keys[i]) == key.len && memcmp(world.keys[i], key.data, key.len) == 0)
                        return i;
        sim_fail("client %u: list of versions shows a key that nobody used", c->number);
}

static void take_entry(struct client *c, const struct eng_version_entry *e)
{
        struct shown *s = &shown[c->number];
        struct shown_entry *to = &s->entries[s->count++];
        const struct eng_object *object = &e->object;
        uint64_t now = history_now();

        to->key = key_of(c, e->key);
        to->id = object->version;
        to->latest = e->latest;
        to->mtime_ms = object->mtime_ms;
        to->size = object->size;
        to->item = (struct version_item){object->version.number, object->marker ? 0 : content_of_etag(object->etag), H_EXTRA(0, object->hold), 0};
        if (!object->marker && (to->item.content == 0 || content_of(to->item.content)->size != object->size))
                sim_fail("client %u: list of versions shows a version of %s that nobody wrote", c->number, world.keys[to->key]);
        if (!versions_possible(world.key_regs[c->bucket][to->key], &to->item, c->asked, now)) {
                history_show(world.key_regs[c->bucket][to->key]);
                sim_fail("client %u: list of versions (asked %llu, answered %llu) shows version %llu of %s with content %u, which cannot be",
                         c->number, (unsigned long long)c->asked, (unsigned long long)now, (unsigned long long)to->item.version,
                         world.keys[to->key], to->item.content);
        }
        if (e->object.marker)
                return;
        c->key = to->key;
        learn(c, object, to->item.content);
}

static bool is_shown(const struct shown *s, unsigned key, const struct history_op *add)
{
        unsigned i;

        for (i = 0; i < s->count; i++)
                if (s->entries[i].key == key && s->entries[i].item.version == add->version && s->entries[i].item.content == H_CONTENT(add->value))
                        return true;
        return false;
}

/* All of it was seen: what surely was there all that time must be in it. */
static void check_missed(struct client *c, unsigned key)
{
        const struct shown *s = &shown[c->number];
        unsigned reg = world.key_regs[c->bucket][key];
        const struct history_op *add = NULL;
        uint64_t now = history_now();

        while ((add = versions_surely_there(reg, add, s->asked, now)) != NULL) {
                if (is_shown(s, key, add))
                        continue;
                history_show(reg);
                sim_fail("client %u: list of versions (asked %llu, answered %llu) lacks version %llu of %s, content %u", c->number,
                         (unsigned long long)s->asked, (unsigned long long)now, (unsigned long long)add->version, world.keys[key],
                         H_CONTENT(add->value));
        }
}

/* Nothing changes meanwhile: the list is what there is. */
static void check_exactly(struct client *c, unsigned key)
{
        const struct shown *s = &shown[c->number];
        struct version_item items[SHOWN_MAX];
        uint64_t last = UINT64_MAX;
        unsigned i, count = 0;

        for (i = 0; i < s->count; i++) {
                const struct shown_entry *e = &s->entries[i];

                if (e->key != key)
                        continue;
                if (e->latest != (count == 0) || (e->id.number != 0 && e->id.number >= last))
                        sim_fail("client %u: list of versions of %s is not in order, or the newest is not", c->number, world.keys[key]);
                if (e->id.number != 0)
                        last = e->id.number;
                items[count++] = e->item;
        }
        c->key = key;
        saw_version(c, H_LIST, H_NULL, versions_list(items, count));
}

static void listing_ends(struct client *c)
{
        struct shown *s = &shown[c->number];
        unsigned key, i;

        c->asked = s->asked;
        for (key = 0; key < world.key_count; key++) {
                check_missed(c, key);
                if (c->verifying)
                        check_exactly(c, key);
        }
        memset(versions.many, 0, sizeof(versions.many));
        for (i = 0; i < s->count; i++)
                if (s->entries[i].key < KEYS_USED)
                        versions.many[s->entries[i].key]++;
        version_figures.listings++;
}

static void versions_listed(void *arg, int rv, const struct eng_version_entry *entries, unsigned count, bool more)
{
        struct client *c = arg;
        struct shown *s = &shown[c->number];
        unsigned i;

        if (rv != 0)
                client_error(c, rv);
        if (rv != 0 || world.stopping || s->count + count > SHOWN_MAX) { /* given again and again, as null versions may be */
                client_done(c, rv);
                return;
        }
        for (i = 0; i < count; i++)
                take_entry(c, &entries[i]);
        if (count > c->max || (more && count == 0))
                sim_fail("client %u: list of at most %u versions has %u", c->number, c->max, count);
        if (!more) {
                listing_ends(c);
                c->walk_at = c->walk_order = 0;
                if (c->walking)
                        walk_next(c);
                else
                        client_done(c, 0);
                return;
        }
        c->after_len = entries[count - 1].key.len;
        memcpy(c->after, entries[count - 1].key.data, c->after_len);
        s->after = entries[count - 1].object.version;
        s->inside = true;
        client_moved(c);
        client_later(c, sim_skewed(SIM_VERSIONS, 0, 50 * SIM_MS), versions_next_page);
}

static void versions_next_page(void *arg)
{
        struct client *c = arg;
        struct shown *s = &shown[c->number];
        struct eng_list_params params = {
                .bucket = bucket_id(), .prefix = {"", 0}, .delimiter = {"", 0}, .after = {c->after, c->after_len}, .max = c->max};

        c->asked = history_now();
        if (s->count == 0)
                s->asked = c->asked;
        eng_version_list(c->store, &params, s->inside ? &s->after : NULL, versions_listed, c);
}

void listing_versions(struct client *c)
{
        struct shown *s = &shown[c->number];

        c->doing = "list versions";
        c->bucket = versions.bucket;
        c->after_len = 0;
        s->count = 0;
        s->inside = false;
        c->max = chance(2) ? 1000 : 1 + (unsigned)below(6);
        versions_next_page(c);
}

/* ---- a lifecycle pass ------------------------------------------------------------------------ */

#define WALK_KEEPS 2u /* noncurrent versions of a key */

/*
 * What the rules say of one version that was listed: noncurrent ones go but for some, the newest gets a
 * marker now and then, and a marker that is alone goes. What has changed since then must stay.
 */
static bool walk_acts(struct client *c, const struct shown_entry *e, unsigned order)
{
        const struct known k = {.key = e->key, .id = e->id, .content = e->item.content, .mtime_ms = e->mtime_ms, .size = e->size};

        c->key = e->key;
        c->op = NO_OP;
        if (order > WALK_KEEPS)
                version_delete_one(c, &k, true, ENG_PLACE_OLDER);
        else if (e->latest && e->item.content == 0)
                version_delete_one(c, &k, true, ENG_PLACE_ALONE);
        else if (e->latest && sim_chance(SIM_LOCKS, 4))
                version_expire_newest(c, &k);
        version_figures.expired += c->op != NO_OP;
        return c->op != NO_OP;
}

static void walk_next(void *arg)
{
        struct client *c = arg;
        const struct shown *s = &shown[c->number];

        if (world.stopping)
                return;
        client_moved(c);
        while (c->walk_at < s->count) {
                const struct shown_entry *e = &s->entries[c->walk_at];

                c->walk_order = c->walk_at > 0 && e[-1].key == e->key ? c->walk_order + 1 : 0;
                c->walk_at++;
                c->asked = history_now();
                if (walk_acts(c, e, c->walk_order))
                        return;
        }
        c->walking = false;
        c->by_version = false;
        client_done(c, 0);
}

static void versions_walk(struct client *c)
{
        version_figures.walks++;
        c->walking = true;
        listing_versions(c);
}

/* ---- the lock clock -------------------------------------------------------------------------- */

static void confirmed(void *arg, int rv)
{
        struct client *c = arg;

        locks_confirmed(rv);
        if (rv != 0)
                client_error(c, rv);
        client_done(c, rv);
}

void versions_confirm(struct client *c)
{
        c->doing = "confirm the wall clock";
        c->bucket = versions.bucket;
        if (!locks_confirm(confirmed, c))
                client_done(c, 0);
}

/* Objects of the bucket: what ListObjects shows of a key. */
void versions_check_listed(struct client *c, unsigned key, const struct eng_list_entry *e)
{
        struct version_item item = {.version = H_UNNUMBERED};
        uint64_t now = history_now();
        unsigned reg = world.key_regs[c->bucket][key];

        c->key = key;
        if (e != NULL) {
                item.content = content_of_etag(e->object.etag);
                if (item.content == 0 || content_of(item.content)->size != e->object.size)
                        sim_fail("client %u: list shows a %s that nobody wrote", c->number, world.keys[key]);
        }
        if (c->verifying) {
                saw_version(c, e != NULL ? H_CURRENT : H_NONE, H_NULL, H_VALUE(item.content, 0));
        } else if (e != NULL && !versions_possible(reg, &item, c->asked, now)) {
                item.version = H_NULL;
                if (!versions_possible(reg, &item, c->asked, now)) {
                        history_show(reg);
                        sim_fail("client %u: list (asked %llu, answered %llu) shows %s with content %u, which cannot be", c->number,
                                 (unsigned long long)c->asked, (unsigned long long)now, world.keys[key], item.content);
                }
        }
}

/* ---- what to do ------------------------------------------------------------------------------ */

static void get_known(struct client *c, const struct known *k)
{
        c->by_version = true;
        c->version = k->id;
        c->wanted = k->content;
        object_get(c);
}

static void change_or_look(struct client *c, const struct known *k, unsigned what)
{
        if (what < 9)
                version_delete_one(c, k, what < 3, ENG_PLACE_ANY);
        else if (what < 14)
                get_known(c, k);
        else if (versions.lock && what < 16)
                version_change_retention(c, k);
        else
                version_change_extras(c, k);
}

bool versions_operation(struct client *c)
{
        unsigned what = (unsigned)below(40);
        const struct known *k;
        struct eng_bucket_rules rules;

        if (versions.bucket == 0 || !chance(2))
                return false;
        c->bucket = versions.bucket;
        c->key = (unsigned)below(keys_used());
        if (!look_at_rules(c, &rules)) {
                client_done(c, 0); /* nothing can be changed, and nobody knows yet by which rules */
                return true;
        }
        k = draw_known(c);
        if (k != NULL && what >= 24 && what < 36 && versions.many[c->key] > MANY)
                what = 5;
        if (what < 18 && k != NULL)
                change_or_look(c, k, what);
        else if (what < 20)
                version_change_state(c, rules);
        else if (what < 24)
                version_delete_newest(c);
        else if (what < 34)
                object_put(c);
        else if (what == 34 && world.parts != 0)
                upload_create(c);
        else if (what < 37)
                object_get(c);
        else if (what < 39 && sim_chance(SIM_LOCKS, 3))
                versions_walk(c);
        else if (what < 39)
                listing_versions(c);
        else if (sim_chance(SIM_LOCKS, 2))
                versions_confirm(c);
        else
                listing_objects(c);
        return true;
}

unsigned versions_to_verify(const struct client *c)
{
        return shown[c->number].count;
}

void versions_end(struct client *c, unsigned i)
{
        const struct shown_entry *e = &shown[c->number].entries[i];

        c->bucket = versions.bucket;
        c->key = e->key;
        version_delete_one(c, &(struct known){.key = e->key, .id = e->id, .content = e->item.content}, false, ENG_PLACE_ANY);
}

void versions_verify(struct client *c, unsigned i)
{
        const struct shown_entry *e = &shown[c->number].entries[i];

        c->bucket = versions.bucket;
        c->key = e->key;
        get_known(c, &(struct known){.id = e->id, .content = e->item.content});
}
