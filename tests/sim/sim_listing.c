/*
 * sim_listing.c - clients that list. A listing is put together from several drives, so it is not
 * held to one instant: each name must have been as it is shown at some time while the listing ran.
 */
#include "tests/sim/sim_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim_content.h"

static void next_page(void *arg);

static bool begins_with(const char *key, const char *prefix, size_t len)
{
        return strlen(key) >= len && memcmp(key, prefix, len) == 0;
}

static int compare(struct eng_str a, const char *b, size_t b_len)
{
        size_t n = a.len < b_len ? a.len : b_len;
        int c = n == 0 ? 0 : memcmp(a.data, b, n);

        return c != 0 ? c : (a.len > b_len) - (a.len < b_len);
}

/* The common prefix that a key of the listing is shown as; 0: itself. */
static size_t collapsed(const struct client *c, const char *key)
{
        const char *hit = c->delimited ? strchr(key + strlen(c->prefix), '/') : NULL;

        return hit == NULL ? 0 : (size_t)(hit - key) + 1;
}

static const struct eng_list_entry *entry_of(const struct eng_list_entry *entries, unsigned count, const char *name,
                                             size_t len)
{
        unsigned i;

        for (i = 0; i < count; i++)
                if (compare(entries[i].name, name, len) == 0)
                        return &entries[i];
        return NULL;
}

static void check_name(struct client *c, unsigned key, const struct eng_list_entry *e)
{
        unsigned reg = world.key_regs[c->bucket][key];
        uint64_t value = 0, now = history_now();
        uint32_t content = 0, tag = 0;

        if (e != NULL) {
                content = content_of_etag(e->object.etag);
                memcpy(&tag, e->object.tag, sizeof(tag));
                value = H_VALUE(content, tag);
                if (content == 0 || content_of(content)->size != e->object.size)
                        sim_fail("client %u: list shows a %s that nobody wrote", c->number, world.keys[key]);
        }
        if (history_possible(reg, value, c->asked, now))
                return;
        history_show(reg);
        sim_fail("client %u: list (asked %llu, answered %llu) shows %s of bucket %u as %u/%u, which cannot be",
                 c->number, (unsigned long long)c->asked, (unsigned long long)now, world.keys[key], c->bucket, content,
                 tag);
}

static void check_prefix(struct client *c, const struct eng_list_entry *e, const char *key, size_t len)
{
        uint64_t now = history_now();
        bool possible = false;
        unsigned i;

        for (i = 0; i < world.key_count; i++) {
                unsigned reg = world.key_regs[c->bucket][i];

                if (!begins_with(world.keys[i], key, len))
                        continue;
                possible |= history_possibly_there(reg, c->asked, now);
                if (e == NULL && !history_possible(reg, 0, c->asked, now))
                        sim_fail("client %u: list lacks the prefix of %s", c->number, world.keys[i]);
        }
        if (e != NULL && (!e->is_prefix || !possible))
                sim_fail("client %u: list shows the prefix of %s, under which nothing can be", c->number, key);
}

static void check_page(struct client *c, const struct eng_list_entry *entries, unsigned count, bool more)
{
        unsigned i;

        for (i = 1; i < count; i++)
                if (compare(entries[i - 1].name, entries[i].name.data, entries[i].name.len) >= 0)
                        sim_fail("client %u: list is not in order", c->number);
        if (count > c->max || (more && count == 0))
                sim_fail("client %u: list of at most %u has %u names", c->number, c->max, count);
        for (i = 0; i < world.key_count; i++) {
                const char *key = world.keys[i];
                size_t len = collapsed(c, key), shown = len == 0 ? strlen(key) : len;
                struct eng_str name = {key, shown};

                if (!begins_with(key, c->prefix, strlen(c->prefix)))
                        continue;
                if (c->after_len > 0 && compare(name, c->after, c->after_len) <= 0)
                        continue;
                if (more && compare(name, entries[count - 1].name.data, entries[count - 1].name.len) > 0)
                        continue;
                if (client_has_versions(c) && len == 0)
                        versions_check_listed(c, i, entry_of(entries, count, key, shown));
                else if (len == 0)
                        check_name(c, i, entry_of(entries, count, key, shown));
                else if (!client_has_versions(c))
                        check_prefix(c, entry_of(entries, count, key, shown), key, len);
        }
        for (i = 0; i < count; i++)
                sim_note(4, entries[i].name.len, entries[i].object.size);
}

static void listed(void *arg, int rv, const struct eng_list_entry *entries, unsigned count, bool more)
{
        struct client *c = arg;

        if (rv != 0)
                client_error(c, rv);
        else
                check_page(c, entries, count, more);
        if (rv != 0 || !more || world.stopping) {
                client_done(c, rv);
                return;
        }
        c->after_len = entries[count - 1].name.len;
        memcpy(c->after, entries[count - 1].name.data, c->after_len);
        client_moved(c);
        client_later(c, sim_skewed(SIM_CLIENTS, 0, 50 * SIM_MS), next_page);
}

static void next_page(void *arg)
{
        struct client *c = arg;
        struct eng_list_params params = {
                .bucket = world.buckets[c->bucket].id,
                .prefix = {c->prefix, strlen(c->prefix)},
                .delimiter = {"/", c->delimited ? 1 : 0},
                .after = {c->after, c->after_len},
                .want_attrs = c->max % 2 == 0,
                .hide_markers = true,
                .max = c->max,
        };

        c->asked = history_now();
        eng_list(c->store, &params, listed, c);
}

void listing_objects(struct client *c)
{
        c->doing = "list";
        c->after_len = 0;
        c->prefix[0] = '\0';
        if (!c->verifying && sim_chance(SIM_CLIENTS, 3))
                memcpy(c->prefix, "d/", 3);
        c->delimited = sim_chance(SIM_CLIENTS, 2);
        c->max = sim_chance(SIM_CLIENTS, 2) ? 1000 : 1 + (unsigned)sim_below(SIM_CLIENTS, 4);
        next_page(c);
}

static void uploads_listed(void *arg, int rv, const struct eng_upload_entry *entries, unsigned count, bool more)
{
        struct client *c = arg;
        uint64_t now = history_now();
        unsigned i, u;

        for (u = 0; rv == 0 && u < world.upload_count; u++) {
                bool shown = false;

                if (world.uploads[u].bucket != c->bucket)
                        continue;
                for (i = 0; i < count; i++)
                        shown |= memcmp(entries[i].upload_id, world.uploads[u].id, ENG_ID_LEN) == 0;
                if (!history_possible(world.uploads[u].reg, shown ? H_VALUE(1, 1) : 0, c->asked, now))
                        sim_fail("client %u: list of uploads: number %u cannot be %s", c->number, u,
                                 shown ? "there" : "gone");
        }
        if (rv != 0)
                client_error(c, rv);
        client_done(c, rv);
}

void listing_uploads(struct client *c)
{
        struct eng_list_params params = {
                .bucket = world.buckets[0].id, .prefix = {"", 0}, .delimiter = {"", 0}, .after = {"", 0}, .max = 1000};

        c->doing = "list uploads";
        c->bucket = 0;
        eng_upload_list(c->store, &params, NULL, uploads_listed, c);
}
