/*
 * sim_client.h - one client (private to sim_clients.c, sim_objects.c, sim_multipart.c,
 * sim_listing.c and sim_versions.c).
 */
#ifndef MILLRACE_TESTS_SIM_CLIENT_H
#define MILLRACE_TESTS_SIM_CLIENT_H

#include "tests/sim/history.h"
#include "tests/sim/sim_clients.h"

#define NO_OP (-1)

/* Does one thing at a time, on its loop. */
struct client {
        unsigned number;
        struct eng_store *store; /* that it asks; NULL: none serves */
        struct lp_loop *loop;    /* of that store */
        bool busy, verifying; /* verifying: clients_final() */
        bool rests;           /* it had nothing more to do, and waits for clients_start() */
        const char *doing;
        uint64_t since; /* when it last got on */
        uint64_t begun; /* when it was asked for what it is doing */
        uint64_t asked;
        unsigned bucket, key, upload, part;
        int op, op2; /* of the history */
        uint32_t content, tag;
        uint32_t seen[KEYS_MAX]; /* contents it has met */
        struct eng_condition condition;
        bool by_version;         /* asks for this one, of a bucket with versions */
        struct eng_version version;
        uint32_t wanted;         /* its content, as far as it is known */
        uint64_t retain;         /* what a put gives its version, H_RETENTION */
        uint32_t extra;          /* what an upload that is begun gives its object, H_EXTRA */
        bool walking;            /* through what was listed, as a lifecycle pass does */
        unsigned walk_at, walk_order; /* which of it is next, and how many of its key came before */
        /* writing */
        struct eng_put *put;
        uint64_t size, sent;
        bool is_part;
        /* reading */
        struct eng_get *get;
        uint64_t offset, end;
        uint32_t crc; /* of what a get has given */
        unsigned ranges;
        unsigned beside; /* reading what is lost of an object, and what is not: which range of it, from 1; 0: no */
        bool slow;
        /* listing */
        char prefix[24], after[64];
        size_t after_len;
        bool delimited;
        unsigned max;
        /* completing */
        struct eng_complete_part parts[PARTS_MAX];
        unsigned part_count;
        unsigned at; /* verifying: which key, bucket or upload */
};

/* The operation is over: a word about the answer, and on to the next. */
void client_done(struct client *c, int rv);
/* An error without cause fails the history. */
void client_error(struct client *c, int rv);
void client_moved(struct client *c);
/* Runs again on its loop after a while. */
void client_later(struct client *c, uint64_t ns, void (*fn)(void *client));

unsigned client_reg(const struct client *c);
struct eng_str client_key(const struct client *c);

/* A change is asked for: it may take effect from now on. Returns its number in the history. */
int client_asks(struct client *c, unsigned reg, enum history_kind kind, uint64_t value);
/* What the answer says of it: took effect; surely did not, and says nothing more; not known. */
void client_took(int op);
void client_dropped(int op);
void client_unknown(int op);
/* It did not take effect, and the answer tells how things stood. */
void client_instead(int op, enum history_kind kind);
/*
 * What the client is told of an answer that may be out of the memory of a leader which has no lease any more: as the
 * gateway, which says 503. of_bucket: all that it says of a bucket is.
 */
int client_told(const struct client *c, int rv);
int client_told_of_bucket(const struct client *c, int rv);
/* An answer about how things stood. */
void client_saw(struct client *c, unsigned reg, enum history_kind kind, uint64_t value);
/* Somebody may have deleted its bucket by now. */
bool client_may_be_gone(const struct client *c);
/* Books the answer of a conditional change. */
void client_answered(struct client *c, int op, int rv);
/* An error that says that nothing was done. */
bool client_refused(const struct client *c, int rv);

/* c->content as it is put, with c->condition; attrs is kept by the caller. */
void object_describe(const struct client *c, struct eng_put_commit *commit, uint8_t attrs[CONTENT_ATTRS_MAX]);
/* Asks for that; extra: of a version, as history_versions.h has it. Returns its number in the history. */
int object_ask(struct client *c, uint32_t extra);

/* Operations, each begun on the client's loop. */
void object_put(struct client *c);
void object_get(struct client *c);
void object_delete(struct client *c);
void object_update(struct client *c);
void listing_objects(struct client *c);
void listing_uploads(struct client *c);
void upload_create(struct client *c);
void upload_part(struct client *c);
void upload_parts(struct client *c);
void upload_complete(struct client *c);
void upload_abort(struct client *c);
void bucket_create(struct client *c);
void bucket_create_with(struct client *c, const struct eng_bucket_rules *rules);
void bucket_delete(struct client *c);
void bucket_look(struct client *c);
/*
 * Begins an upload there that nobody goes on with: it does not keep the bucket, and goes with it.
 */
void bucket_upload(struct client *c);

/* ---- a bucket with versions (sim_versions.c) ------------------------------------------------- */

static inline bool client_has_versions(const struct client *c)
{
        return world.buckets[c->bucket].versions;
}

void versions_bucket(struct client *c); /* makes it */
void versions_bucket_made(unsigned bucket);
/* One thing there; false: not now, or there is no such bucket. */
bool versions_operation(struct client *c);
void listing_versions(struct client *c);

/* Draws what a put gives its version beside the bytes. */
uint32_t versions_draw_extras(struct client *c, struct eng_extras *extras, char tags[16]);
/* A put of c->content is asked for, or a Complete. */
int versions_ask_put(struct client *c, uint32_t extra);
void versions_put_answered(struct client *c, int rv, const struct eng_object *object);
/* A get was opened, and c->content is what it found. */
void versions_opened(struct client *c, int rv, const struct eng_object *object);
/* What ListObjects shows of a key; NULL: nothing. */
void versions_check_listed(struct client *c, unsigned key, const struct eng_list_entry *e);
/* The lock clock is confirmed, if the operator thinks that this is due. */
void versions_confirm(struct client *c);
/* Deletes one of the versions that the client's last listing has shown, if it is not locked. */
void versions_end(struct client *c, unsigned i);
/* Nobody will tell what this change came to. */
void versions_undecided(int at);
/* What the client's last listing has shown: gets one of these versions. */
unsigned versions_to_verify(const struct client *c);
void versions_verify(struct client *c, unsigned i);

#endif
