/*
 * bucket_text.h - texts of buckets (private to the module). docs/design/bucket-rules.md has the rules.
 */
#ifndef MILLRACE_ENGINE_BUCKET_TEXT_H
#define MILLRACE_ENGINE_BUCKET_TEXT_H

#include "engine/base/store.h"

#define ENG_TEXT_PIECES ((FMT_TEXT_MAX + FMT_TEXT_PIECE - 1) / FMT_TEXT_PIECE)
#define ENG_TEXTS_BYTES (1ull << 30) /* of all texts of the store */
_Static_assert(FMT_TEXT_MAX == ENG_TEXT_MAX, "engine.h");

/* What was made of a text on first use. */
struct eng_text_form {
        void *form;
        void (*destroy)(void *form);
};

/* Constant once loops have it, but for refs, form and next. Any thread */
struct eng_text {
        atomic_uint refs;
        struct eng_text_form *_Atomic form;
        struct eng_text *_Atomic next; /* of an entry: in its chain (entries.c); replaced with the entry itself */
        uint64_t id;                   /* of an entry */
        uint8_t kind;
        bool damaged;                  /* no member has it whole: there are no bytes */
        uint64_t generation;
        uint32_t len, crc;
        char bytes[];
};
/* One reference. bytes NULL: of nothing, to be filled. NULL: no memory. */
struct eng_text *eng_text_new(unsigned kind, const void *bytes, size_t len);

/* In the list of a loop's bucket, by kind. owner: the loop */
struct eng_bucket_text {
        struct eng_bucket_text *next;
        struct eng_text *text;
};
/* The text of a kind; NULL: there is none. */
struct eng_text *eng_text_of(const struct eng_config_bucket *bucket, unsigned kind);
/*
 * The bucket has this text from now on (NULL: none of that kind). node: memory for one that it had
 * none of; taken, or given back.
 */
struct eng_bucket_text *eng_text_put(struct eng_config_bucket *bucket, unsigned kind, struct eng_text *text, struct eng_bucket_text *node);
/* As this loop finds it, of a bucket or an entry. *out NULL: there is none. False: there is no such bucket. */
bool eng_text_find(const struct eng_loop *el, uint64_t bucket, unsigned kind, struct eng_text **out);
/* All of its texts are gone. */
void eng_texts_drop(struct eng_config_bucket *bucket);
/* Bytes of its texts. */
uint64_t eng_texts_bytes(const struct eng_config_bucket *bucket);

/* ---- entries of the store (entries.c) -------------------------------------------------------- */

/* Texts of these kinds belong to no bucket. */
static inline bool eng_is_entry(unsigned kind)
{
        return kind >= ENG_ENTRY_KINDS;
}
/* The entry, or NULL. Any loop; the pointer holds until the caller returns to the loop. */
struct eng_text *eng_entry_of(const struct eng_store *store, uint64_t id, unsigned kind);
/*
 * Coordinator: from now on all loops find this text, whose reference is taken over, or none (NULL).
 * Returns what was there before, which loops may be looking at until each has taken a message.
 */
struct eng_text *eng_entry_put(struct eng_store *store, uint64_t id, unsigned kind, struct eng_text *text);
/*
 * Coordinator, in recovery: the same with a reference of its own. What was there before stays in memory
 * until the store closes.
 */
void eng_entry_load(struct eng_store *store, uint64_t id, struct eng_text *text);
/* On this loop: tells who watches that the entry has changed. */
void eng_entry_tell(struct eng_loop *el, uint64_t id, unsigned kind);
/* There may be no more of them. */
bool eng_entries_full(const struct eng_store *store);

/*
 * Coordinator: members have a text's rows differently: they are written to all of them, as the loops
 * have it. -ENOMEM; else done() tells. One that is gone: 0.
 */
int eng_text_rewrite(struct eng_store *store, uint64_t bucket, unsigned kind, eng_done done, void *arg);

#endif
