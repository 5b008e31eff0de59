/*
 * sim_multipart.c - clients that begin uploads, look at their parts, complete and abort them; and
 * the life of buckets.
 *
 * An upload is a register (there or not), each of its part numbers another one.
 */
#include "tests/sim/sim_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/sim_content.h"

#define ALIVE H_VALUE(1, 1)

static struct sim_upload *upload_of(struct client *c)
{
        return &world.uploads[c->upload];
}

/* ---- begin ----------------------------------------------------------------------------------- */

static void created(void *arg, int rv, const uint8_t upload_id[ENG_ID_LEN])
{
        struct client *c = arg;

        rv = client_told(c, rv);
        if (rv == 0 && world.upload_count < UPLOADS_MAX) {
                struct sim_upload *u = &world.uploads[world.upload_count];
                char text[32];
                unsigned i;

                u->bucket = c->bucket;
                u->key = c->key;
                u->extra = c->extra;
                u->retain = c->retain;
                memcpy(u->id, upload_id, ENG_ID_LEN);
                snprintf(text, sizeof(text), "upload %u", world.upload_count);
                u->reg = history_name(text);
                for (i = 1; i <= PARTS_MAX; i++) {
                        snprintf(text, sizeof(text), "upload %u part %u", world.upload_count, i);
                        u->part_regs[i] = history_name(text);
                }
                world.upload_count++;
                client_saw(c, u->reg, H_WRITE, ALIVE);
        } else if (rv != 0) {
                client_error(c, rv);
        }
        client_done(c, rv);
}

void upload_create(struct client *c)
{
        struct eng_upload_params params = {.key = client_key(c)};
        char tags[16];

        c->doing = "begin upload";
        if (!client_has_versions(c))
                c->bucket = 0;
        params.bucket = world.buckets[c->bucket].id;
        c->extra = versions_draw_extras(c, &params.extras, tags);
        eng_upload_create(c->store, &params, created, c);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/*
 * Whether what a list of parts says may be so; the list is read from one member, not through the
 * key's lock.
 */
static void check_parts(struct client *c, const struct eng_part_entry *parts, unsigned count)
{
        uint64_t now = history_now();
        bool may_be_over = history_possible(upload_of(c)->reg, 0, c->asked, now);
        unsigned i, number, last = 0;

        for (number = 1, i = 0; number <= PARTS_MAX; number++) {
                uint32_t content = 0;

                if (i < count && parts[i].number == number) {
                        content = content_of_etag(parts[i].object.etag);
                        if (content == 0 || content_of(content)->size != parts[i].object.size)
                                sim_fail("client %u: list of parts: one that nobody wrote", c->number);
                        last = parts[i++].number;
                } else if (may_be_over) {
                        continue;
                }
                if (!history_possible(upload_of(c)->part_regs[number], content == 0 ? 0 : H_VALUE(content, content),
                                      c->asked, now))
                        sim_fail("client %u: list of parts: part %u of upload %u cannot be content %u", c->number,
                                 number, c->upload, content);
        }
        if (i < count)
                sim_fail("client %u: list of parts: number %u behind %u", c->number, parts[i].number, last);
}

static bool parts_known(struct client *c, int rv, const struct eng_part_entry *parts, unsigned count)
{
        if (rv == 0) {
                client_saw(c, upload_of(c)->reg, H_READ, ALIVE);
                check_parts(c, parts, count);
                return true;
        }
        if (rv == -ENOENT)
                client_saw(c, upload_of(c)->reg, H_ABSENT, 0);
        else
                client_error(c, rv);
        return false;
}

static void parts_listed(void *arg, int rv, const struct eng_part_entry *parts, unsigned count, bool more)
{
        struct client *c = arg;

        parts_known(c, rv, parts, count);
        client_done(c, rv);
}

void upload_parts(struct client *c)
{
        c->doing = "list parts";
        eng_part_list(c->store, world.buckets[c->bucket].id, client_key(c), upload_of(c)->id, 0, 100, parts_listed,
                      c);
}

/* ---- complete -------------------------------------------------------------------------------- */

static void both(struct client *c, void (*how)(int op))
{
        how(c->op);
        how(c->op2);
}

static void completed(void *arg, int rv, const struct eng_object *object)
{
        struct client *c = arg;
        uint32_t content, tag;

        rv = client_told(c, rv);
        if (rv == 0) {
                content = content_of_etag(object->etag);
                memcpy(&tag, object->tag, sizeof(tag));
                if (content == c->content) {
                        if (client_has_versions(c))
                                versions_put_answered(c, 0, object);
                        else
                                client_took(c->op);
                        client_took(c->op2);
                        c->seen[c->key] = content;
                } else { /* somebody else's Complete of this upload came first */
                        both(c, client_dropped);
                        if (!client_has_versions(c)) /* else it need not be the newest any more */
                                client_saw(c, client_reg(c), H_READ, H_VALUE(content, tag));
                        client_saw(c, upload_of(c)->reg, H_ABSENT, 0);
                }
        } else if (rv == -ENOENT) {
                both(c, client_dropped);
                client_saw(c, upload_of(c)->reg, H_ABSENT, 0);
        } else if (rv == -EEXIST || client_refused(c, rv)) {
                client_dropped(c->op2);
                if (rv == -EEXIST && client_has_versions(c))
                        versions_put_answered(c, rv, NULL);
                else if (rv == -EEXIST && c->condition.if_absent)
                        client_instead(c->op, H_PRESENT);
                else
                        client_dropped(c->op);
        } else {
                both(c, client_unknown);
        }
        if (rv != 0 && rv != -ENOENT && rv != -EINVAL && rv != -EEXIST)
                client_error(c, rv);
        client_done(c, rv);
}

static void parts_chosen(void *arg, int rv, const struct eng_part_entry *parts, unsigned count, bool more)
{
        struct client *c = arg;
        struct eng_complete_params params = {.bucket = world.buckets[c->bucket].id, .key = client_key(c)};
        uint32_t contents[PARTS_MAX];
        uint8_t attrs[CONTENT_ATTRS_MAX];
        unsigned i, n = 0;

        if (!parts_known(c, rv, parts, count) || world.stopping) {
                client_done(c, rv);
                return;
        }
        for (i = 0; i < count; i++) {
                if (sim_chance(SIM_CLIENTS, 5))
                        continue;
                contents[n] = content_of_etag(parts[i].object.etag);
                c->parts[n].number = parts[i].number;
                memcpy(c->parts[n++].id, parts[i].object.id, ENG_ID_LEN);
        }
        if (n == 0) {
                client_done(c, 0);
                return;
        }
        c->content = content_joined(contents, n);
        params.parts = c->parts;
        params.count = n;
        memcpy(params.upload_id, upload_of(c)->id, ENG_ID_LEN);
        memset(&c->condition, 0, sizeof(c->condition));
        c->condition.if_absent = sim_chance(SIM_CLIENTS, 6);
        object_describe(c, &params.commit, attrs);
        c->retain = upload_of(c)->retain;
        c->op = object_ask(c, upload_of(c)->extra);
        c->op2 = client_asks(c, upload_of(c)->reg, H_DELETE, 0);
        client_moved(c);
        eng_complete(c->store, &params, completed, c);
}

void upload_complete(struct client *c)
{
        c->doing = "complete";
        eng_part_list(c->store, world.buckets[c->bucket].id, client_key(c), upload_of(c)->id, 0, 100, parts_chosen,
                      c);
}

/* ---- abort ----------------------------------------------------------------------------------- */

static void aborted(void *arg, int rv)
{
        struct client *c = arg;

        rv = client_told(c, rv);
        if (rv == 0)
                client_took(c->op);
        else if (rv == -ENOENT)
                client_instead(c->op, H_ABSENT);
        else if (client_refused(c, rv))
                client_dropped(c->op);
        else
                client_unknown(c->op);
        if (rv != 0 && rv != -ENOENT)
                client_error(c, rv);
        client_done(c, rv);
}

void upload_abort(struct client *c)
{
        c->doing = "abort upload";
        c->op = client_asks(c, upload_of(c)->reg, H_DELETE, 0);
        eng_upload_abort(c->store, world.buckets[c->bucket].id, client_key(c), upload_of(c)->id, aborted, c);
}

/* ---- buckets --------------------------------------------------------------------------------- */

/* Each name is used once, so that what is in it belongs to one bucket. */
static struct eng_str bucket_name(const struct client *c)
{
        return (struct eng_str){world.buckets[c->bucket].name, strlen(world.buckets[c->bucket].name)};
}

static void told_of_bucket(const struct client *c, bool there)
{
        struct sim_bucket *b = &world.buckets[c->bucket];

        b->made = there;
        b->gone = !there;
        if (world.told_of_bucket != NULL)
                world.told_of_bucket(bucket_name(c), there);
}

static void bucket_created(void *arg, int rv)
{
        struct client *c = arg;
        struct sim_bucket *b = &world.buckets[c->bucket];
        const struct eng_bucket *found;
        char text[40];
        unsigned i;
        int there;

        rv = client_told_of_bucket(c, rv);
        world.making_bucket = false;
        if (rv == 0)
                told_of_bucket(c, true);
        there = rv == 0 ? eng_bucket_get(c->store, bucket_name(c), &found) : rv;
        if (rv == 0 && there != 0 && !eng_is_current(c->store)) { /* a home that has lost its leader meanwhile; nobody uses the bucket */
                client_took(c->op);
                client_error(c, -EHOSTDOWN);
        } else if (rv == 0) {
                client_took(c->op);
                if (there != 0)
                        sim_fail("client %u: bucket %s was made and is not there", c->number, b->name);
                b->id = found->id;
                for (i = 0; i < world.key_count; i++) {
                        snprintf(text, sizeof(text), "%s/%s", b->name, world.keys[i]);
                        world.key_regs[c->bucket][i] = history_name(text);
                }
                if (b->versions)
                        versions_bucket_made(c->bucket);
                world.bucket_count++;
        } else {
                client_unknown(c->op);
                client_error(c, rv);
        }
        client_done(c, rv);
}

void bucket_create(struct client *c)
{
        bucket_create_with(c, NULL);
}

void bucket_create_with(struct client *c, const struct eng_bucket_rules *rules)
{
        struct sim_bucket *b = &world.buckets[world.bucket_count];

        c->doing = "make bucket";
        if (world.bucket_count == BUCKETS_MAX || world.making_bucket) {
                client_done(c, 0);
                return;
        }
        world.making_bucket = true;
        world.bucket_maker = c->number;
        memset(b, 0, sizeof(*b));
        b->versions = rules != NULL;
        snprintf(b->name, sizeof(b->name), "b%u", world.bucket_serial++);
        b->reg = history_name(b->name);
        c->bucket = world.bucket_count;
        c->op = client_asks(c, b->reg, H_WRITE, ALIVE);
        eng_bucket_create(c->store, bucket_name(c), rules, "", 0, bucket_created, c);
}

static void left(void *arg, int rv, const uint8_t upload_id[ENG_ID_LEN])
{
        struct client *c = arg;

        rv = client_told(c, rv);
        if (rv != 0)
                client_error(c, rv);
        client_done(c, rv);
}

void bucket_upload(struct client *c)
{
        struct eng_upload_params params = {.bucket = world.buckets[c->bucket].id, .key = client_key(c)};

        c->doing = "begin upload";
        eng_upload_create(c->store, &params, left, c);
}

/*
 * If it is deleted, nothing was in it and nothing ever will be: for each of its keys, from c->op2
 * on.
 */
static void ask_seals(struct client *c)
{
        unsigned i;

        for (i = 0; i < world.key_count; i++) {
                int op = client_asks(c, world.key_regs[c->bucket][i], H_SEAL, 0);

                if (i == 0)
                        c->op2 = op;
        }
}

static void book_seals(struct client *c, void (*how)(int op))
{
        unsigned i;

        for (i = 0; i < world.key_count; i++)
                how(c->op2 + (int)i);
}

static void bucket_deleted(void *arg, int rv)
{
        struct client *c = arg;

        rv = client_told_of_bucket(c, rv);
        if (rv == 0) {
                told_of_bucket(c, false);
                client_took(c->op);
                book_seals(c, client_took);
        } else if (rv == -ENOENT || rv == -EBUSY) {
                client_instead(c->op, rv == -ENOENT ? H_ABSENT : H_PRESENT);
                book_seals(c, client_dropped);
        } else {
                client_unknown(c->op);
                book_seals(c, client_unknown);
                client_error(c, rv);
        }
        client_done(c, rv);
}

void bucket_delete(struct client *c)
{
        c->doing = "delete bucket";
        world.buckets[c->bucket].closing = true;
        c->op = client_asks(c, world.buckets[c->bucket].reg, H_DELETE, 0);
        ask_seals(c);
        eng_bucket_delete(c->store, bucket_name(c), 0, bucket_deleted, c);
}

void bucket_look(struct client *c)
{
        const struct eng_bucket *found;
        uint64_t now = history_now();
        int rv = eng_bucket_get(c->store, bucket_name(c), &found);

        c->doing = "look at bucket";
        if (!eng_is_current(c->store)) /* as the gateway, which answers 503 */
                rv = -EHOSTDOWN;
        if (rv == 0 && found->id != world.buckets[c->bucket].id)
                sim_fail("client %u: bucket %s is another one", c->number, world.buckets[c->bucket].name);
        if (rv != 0 && rv != -ENOENT)
                client_error(c, rv);
        else if (!history_possible(world.buckets[c->bucket].reg, rv == 0 ? ALIVE : 0, c->asked, now))
                sim_fail("client %u: bucket %s: %d cannot be", c->number, world.buckets[c->bucket].name, rv);
        client_done(c, rv);
}
