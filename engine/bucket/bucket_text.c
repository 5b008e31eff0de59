/*
 * bucket_text.c - texts of buckets as loops have them: one immutable copy that all share, and what a caller
 * made of it on first use.
 *
 * A loop's list is the loop's own (entries of the store: entries.c); a text is any thread's. A text that was replaced lives until the
 * last loop, and the last caller that keeps it, has let go of it.
 */
#include "engine/bucket/bucket_text.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- one text -------------------------------------------------------------------------------- */

struct eng_text *eng_text_new(unsigned kind, const void *bytes, size_t len)
{
        struct eng_text *text = calloc(1, sizeof(*text) + len);

        assert(len <= ENG_TEXT_MAX && kind <= UINT8_MAX);
        if (text == NULL)
                return NULL;
        atomic_init(&text->refs, 1);
        text->kind = (uint8_t)kind;
        text->len = (uint32_t)len;
        if (bytes != NULL && len != 0)
                memcpy(text->bytes, bytes, len);
        text->crc = era_crc32c(0, text->bytes, len);
        return text;
}

struct eng_text *eng_text_ref(struct eng_text *text)
{
        unsigned before = atomic_fetch_add(&text->refs, 1);

        assert(before > 0);
        return text;
}

static void form_free(struct eng_text_form *form)
{
        if (form == NULL)
                return;
        form->destroy(form->form);
        free(form);
}

void eng_text_unref(struct eng_text *text)
{
        if (text == NULL || atomic_fetch_sub(&text->refs, 1) > 1)
                return;
        form_free(atomic_load(&text->form));
        free(text);
}

struct eng_str eng_text_bytes(const struct eng_text *text)
{
        return (struct eng_str){text->bytes, text->len};
}

uint64_t eng_text_generation(const struct eng_text *text)
{
        return text->generation;
}

void *eng_text_form(struct eng_text *text, void *(*make)(struct eng_str bytes, void *arg), void *arg, void (*destroy)(void *form))
{
        struct eng_text_form *have = atomic_load(&text->form), *own;
        void *form;

        if (have != NULL)
                return have->form;
        form = make(eng_text_bytes(text), arg);
        if (form == NULL)
                return NULL;
        own = malloc(sizeof(*own));
        if (own == NULL) {
                destroy(form);
                return NULL;
        }
        *own = (struct eng_text_form){.form = form, .destroy = destroy};
        if (atomic_compare_exchange_strong(&text->form, &have, own))
                return form;
        form_free(own); /* another loop was quicker */
        return have->form;
}

/* ---- a loop's list --------------------------------------------------------------------------- */

struct eng_text *eng_text_of(const struct eng_config_bucket *bucket, unsigned kind)
{
        const struct eng_bucket_text *t;

        for (t = bucket->texts; t != NULL && t->text->kind < kind; t = t->next)
                ;
        return t != NULL && t->text->kind == kind ? t->text : NULL;
}

struct eng_bucket_text *eng_text_put(struct eng_config_bucket *bucket, unsigned kind, struct eng_text *text, struct eng_bucket_text *node)
{
        struct eng_bucket_text **at = &bucket->texts, *old;

        while (*at != NULL && (*at)->text->kind < kind)
                at = &(*at)->next;
        old = *at != NULL && (*at)->text->kind == kind ? *at : NULL;
        if (old != NULL) {
                eng_text_unref(old->text);
                *at = old->next;
                free(old);
        }
        if (text == NULL)
                return node;
        node->text = eng_text_ref(text);
        node->next = *at;
        *at = node;
        return NULL;
}

void eng_texts_drop(struct eng_config_bucket *bucket)
{
        struct eng_bucket_text *t;

        while ((t = bucket->texts) != NULL) {
                bucket->texts = t->next;
                eng_text_unref(t->text);
                free(t);
        }
}

uint64_t eng_texts_bytes(const struct eng_config_bucket *bucket)
{
        const struct eng_bucket_text *t;
        uint64_t bytes = 0;

        for (t = bucket->texts; t != NULL; t = t->next)
                bytes += t->text->len;
        return bytes;
}

bool eng_text_find(const struct eng_loop *el, uint64_t bucket, unsigned kind, struct eng_text **out)
{
        const struct eng_config_bucket *b;

        if (eng_is_entry(kind)) {
                *out = eng_entry_of(el->store, bucket, kind);
                return true;
        }
        b = eng_bucket_by_id(el, bucket);
        *out = b == NULL ? NULL : eng_text_of(b, kind);
        return b != NULL;
}

int eng_text_get(struct eng_store *store, uint64_t bucket, unsigned kind, struct eng_text **out)
{
        const struct eng_loop *el = eng_here(store);
        struct eng_text *text;

        if (!el->view.ready)
                return -EHOSTDOWN;
        if (!eng_text_find(el, bucket, kind, &text))
                return -EIDRM;
        if (text == NULL)
                return -ENOENT;
        if (text->damaged)
                return -EIO;
        *out = text;
        return 0;
}

unsigned eng_text_list(struct eng_store *store, uint64_t bucket, uint8_t kinds[ENG_TEXT_KINDS])
{
        const struct eng_config_bucket *b = eng_bucket_by_id(eng_here(store), bucket);
        const struct eng_bucket_text *t;
        unsigned n = 0;

        for (t = b == NULL ? NULL : b->texts; t != NULL; t = t->next)
                kinds[n++] = t->text->kind;
        assert(n <= ENG_TEXT_KINDS);
        return n;
}
