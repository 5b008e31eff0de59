/*
 * scan.c - SCAN: visible names in order, with their values, or the common prefixes that they have.
 *
 * With a delimiter all names under a common prefix make one entry, and the scan seeks past it. A
 * scan that meets much it may not give (tombstones, other groups) works in slices, one per message,
 * so that it never holds the loop; nothing but the last name is kept between slices, so no snapshot
 * of the index stays open. A page of the index that is not in memory ends a slice, too: the next one
 * begins when it has been read.
 *
 * With ENG_OP_VERSIONS two streams are gone through side by side: names of objects, and of versions.
 * What is given has a version's name, plain objects included, and heads are passed over. Both
 * streams are of one moment: what a batch changes in the index between the beginnings of the two
 * snapshots is in a generation in memory, too, until this loop drops that.
 *
 * owner: the loop.
 */
#include "engine/drive/local.h"
#include "engine/drive/scan_stream.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_STEPS  2000u      /* names looked at before others get their turn */
#define ANSWER_BYTES (8u << 20) /* an answer this long ends with more = true */
#define FIRST_BYTES  (64u << 10) /* of an answer, at most */
#define ENTRY_ALIGN  8u

/* One SCAN under way. */
struct scan {
        struct eng_local *l;
        struct eng_op *op;
        struct lp_msg msg;
        struct eng_page_wait wait;
        struct eng_scan_stream names;    /* that are given; with ENG_OP_VERSIONS those of versions */
        struct eng_scan_stream objects;  /* with ENG_OP_VERSIONS: of objects */
        struct eng_buf *out;
        size_t out_size;
        uint32_t count;
        bool more;
        /* the name under way */
        const struct eng_cursor *cursor; /* NULL: at the end */
        bool plain;                      /* it is of an object: name is the version's name that it is given by */
        const uint8_t *name;
        size_t name_len;
        const struct eng_cursor *object; /* with ENG_OP_VERSIONS, while known: the object that comes next; NULL: none */
        struct eng_name made;            /* the version's name of that */
        bool object_known;
        bool is_version;                 /* it is of a version that is visible, or of a group that was not asked for */
        bool has_version;                /* so was the name that was stepped over last, which is `from` */
        /* where the next slice begins */
        uint8_t from[FMT_NAME_MAX + 1];
        size_t from_len;
        bool after, ended;
};

static bool with_versions(const struct scan *scan)
{
        return (scan->op->flags & ENG_OP_VERSIONS) != 0;
}

/* ---- answer ---------------------------------------------------------------------------------- */

/* The first bytes of an answer: room for some entries, or many where many are asked for. */
static size_t first_size(const struct scan *scan)
{
        return scan->op->scan.max >= FIRST_BYTES / 256 ? FIRST_BYTES : 4096;
}

static int grow(struct scan *scan, size_t need)
{
        size_t size = scan->out_size;
        struct eng_buf *bigger;

        while (size < need)
                size = size == 0 ? first_size(scan) : 2 * size;
        if (size == scan->out_size)
                return 0;
        bigger = eng_buf_new(size);
        if (bigger == NULL)
                return -ENOMEM;
        bigger->len = 0;
        if (scan->out != NULL) {
                memcpy(bigger->data, scan->out->data, scan->out->len);
                bigger->len = scan->out->len;
        }
        eng_buf_unref(scan->out);
        scan->out = bigger;
        scan->out_size = size;
        return 0;
}

static int scan_emit(struct scan *scan, const uint8_t *name, size_t name_len, uint16_t flags, const uint8_t *value,
                size_t value_len)
{
        struct eng_scan_entry head = {.name_len = (uint16_t)name_len, .flags = flags, .value_len = (uint32_t)value_len};
        size_t used = sizeof(head) + name_len + value_len;
        size_t size = eng_round_up(used, ENTRY_ALIGN), len = scan->out != NULL ? scan->out->len : 0;
        uint8_t *to;
        int rv = grow(scan, len + size);

        if (rv != 0)
                return rv;
        head.size = (uint32_t)size;
        to = scan->out->data + len;
        memcpy(to, &head, sizeof(head));
        memcpy(to + sizeof(head), name, name_len);
        if (value_len > 0)
                memcpy(to + sizeof(head) + name_len, value, value_len);
        memset(to + used, 0, size - used);
        scan->out->len = (uint32_t)(len + size);
        scan->count++;
        return 0;
}

static size_t wanted_length(const struct scan *scan, const struct fmt_value *head, size_t whole)
{
        if ((scan->op->flags & ENG_OP_WANT_PARTS) != 0)
                return whole;
        return sizeof(*head) + ((scan->op->flags & ENG_OP_WANT_ATTRS) != 0 ? head->attrs_len : 0);
}

#define VERSION_ID (sizeof(struct fmt_field) + ENG_VERSION_RANDOM)

/*
 * What a listing of versions says of one: no attrs, and of its fields the one that makes its id. Tags
 * alone could be many times as long as the rest. Returns its length in out.
 */
static size_t shorten_version(const uint8_t *value, size_t len, uint8_t out[sizeof(struct fmt_value) + VERSION_ID])
{
        struct eng_fields fields = {.data = out + sizeof(struct fmt_value), .size = VERSION_ID};
        size_t id_len;
        const uint8_t *id = eng_value_field(value, len, FMT_FIELD_VERSION, &id_len);
        struct fmt_value head;

        if (id != NULL && id_len == ENG_VERSION_RANDOM)
                eng_fields_add(&fields, FMT_FIELD_VERSION, id, id_len);
        memcpy(&head, value, sizeof(head));
        head.attrs_len = 0;
        head.fields_len = (uint16_t)fields.len;
        memcpy(out, &head, sizeof(head));
        return sizeof(head) + fields.len;
}

static int emit_listed(struct scan *scan, const uint8_t *name, size_t name_len, const uint8_t *value)
{
        struct eng_listed listed;

        eng_listed_of(value, &listed);
        return scan_emit(scan, name, name_len, 0, (const uint8_t *)&listed, sizeof(listed));
}

static int emit_value(struct scan *scan, const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len)
{
        size_t before = scan->out != NULL ? scan->out->len : 0, len;
        uint8_t shortened[sizeof(struct fmt_value) + VERSION_ID];
        struct fmt_value head;
        int rv;

        assert(value_len >= sizeof(head));
        if ((scan->op->flags & ENG_OP_LISTED) != 0)
                return emit_listed(scan, name, name_len, value);
        memcpy(&head, value, sizeof(head));
        len = with_versions(scan) ? eng_value_parts_at(&head) : wanted_length(scan, &head, value_len);
        if (len > value_len)
                return -EBADMSG;
        if (with_versions(scan)) {
                len = shorten_version(value, value_len, shortened);
                value = shortened;
        }
        rv = scan_emit(scan, name, name_len, 0, value, len);
        if (rv != 0)
                return rv;
        memset(scan->out->data + before + sizeof(struct eng_scan_entry) + name_len + offsetof(struct fmt_value, crc), 0,
               sizeof(head.crc)); /* the index's own */
        return 0;
}

/* ---- what is wanted -------------------------------------------------------------------------- */

static bool pg_wanted(const struct scan *scan, uint32_t pg)
{
        const uint64_t *pgs = scan->op->scan.pgs;

        if (pgs == NULL)
                return true;
        if (scan->op->scan.pg_words != 0 && pg / 64 >= scan->op->scan.pg_words)
                return false;
        return (pgs[pg / 64] >> pg % 64 & 1) != 0;
}

/* The value is of a group that was asked for, and of a kind. */
static bool value_wanted(const struct scan *scan, const uint8_t *value)
{
        uint32_t pg, state;

        memcpy(&pg, value + offsetof(struct fmt_value, pg), sizeof(pg)); /* most names of a listing are of other groups */
        if (!pg_wanted(scan, pg))
                return false;
        memcpy(&state, value + offsetof(struct fmt_value, state), sizeof(state));
        if ((scan->op->flags & ENG_OP_NO_MARKERS) != 0 && (state & FMT_STATE_MARKER) != 0)
                return false;
        return !scan->plain || (state & FMT_STATE_HEAD) == 0;
}

/* The stream that the name under way is of. */
static struct eng_scan_stream *stream_of(struct scan *scan)
{
        return scan->plain ? &scan->objects : &scan->names;
}

/*
 * A head of the key whose version was just stepped over, as far as its row says: it is passed over, and
 * not checked, since there is nothing to be given of it. Both must say so.
 */
static bool is_passed_head(const struct scan *scan)
{
        const size_t key_len = scan->name_len - sizeof(uint64_t); /* all but the number */

        return scan->plain && scan->has_version && scan->from_len == scan->name_len && memcmp(scan->from, scan->name, key_len) == 0 &&
               eng_stream_seems_head(&scan->objects, scan->cursor);
}

/* 1: the name under way is visible, and one of those asked for: its value. 0, or an error. */
static int scan_is_wanted(struct scan *scan, const uint8_t **value, size_t *len)
{
        struct eng_scan_stream *stream = stream_of(scan);
        bool wanted;
        int rv;

        scan->is_version = false;
        if (is_passed_head(scan))
                return 0;
        rv = eng_stream_value(stream, scan->cursor, value, len);
        if (rv != 1)
                return rv;
        wanted = value_wanted(scan, *value);
        if (wanted)
                rv = eng_stream_visible(stream, scan->cursor, *value);
        scan->is_version = !scan->plain && rv == 1;
        return wanted ? rv : 0;
}

/* Length of the common prefix that a name collapses to, 0: none. */
static size_t scan_common_prefix(const struct eng_op *op, const uint8_t *name, size_t len)
{
        const uint8_t *found;
        size_t tail;

        if (op->scan.delimiter == NULL || op->scan.delimiter_len == 0 || len == 0 || name[0] == 0 || name[0] > FMT_SPACE_LAST)
                return 0;
        tail = eng_space_tail(name[0]);
        if (len >= tail)
                len -= tail; /* the key only: what follows may hold any byte */
        if (len < op->scan.prefix_len)
                return 0;
        found = name + op->scan.prefix_len;
        do /* the second byte of an escape is none of the key's */
                found = memmem(found, len - (size_t)(found - name), op->scan.delimiter, op->scan.delimiter_len);
        while (found != NULL && tail != 0 && found > name + 9 && found[0] == 0xff && found[-1] == 0 && ++found <= name + len);
        return found == NULL ? 0 : (size_t)(found - name) + op->scan.delimiter_len;
}

/* ---- objects and versions side by side ------------------------------------------------------- */

/*
 * Where the names of objects begin whose versions are not below `from`, which is the beginning of a
 * version's name, or the successor of one.
 */
static size_t object_from(const uint8_t *from, size_t len, uint8_t out[FMT_NAME_MAX])
{
        size_t i, n = 0;

        for (i = 0; i < len && n < FMT_NAME_MAX; i++) {
                if (i < 9 || from[i] != 0) {
                        out[n++] = from[i];
                        continue;
                }
                if (i + 1 < len && from[i + 1] == 1) /* the key's end: that object, too */
                        break;
                out[n++] = 0;
                if (i + 1 >= len || from[i + 1] != 0xff) /* behind all versions of the key */
                        break;
                i++;
        }
        if (n > 0)
                out[0] = FMT_SPACE_OBJECT;
        return n;
}

static int seek_objects(struct scan *scan)
{
        uint8_t from[FMT_NAME_MAX];
        size_t len = scan->from_len;

        scan->object_known = false;
        if (scan->from_len > 0 && scan->from[0] > FMT_SPACE_VERSION) {
                from[0] = FMT_SPACE_OBJECT + 1;
                len = 1;
        } else {
                len = object_from(scan->from, scan->from_len, from);
        }
        return eng_stream_seek(&scan->objects, from, len, false);
}

/*
 * The version's name that a plain object is given by. Its number is one that no version has, and the
 * last of its key: a page that ended with the plain object goes on behind the version that it has
 * become since, and members that number it differently give it the same name.
 */
static void name_object(struct scan *scan, const struct eng_cursor *object)
{
        uint64_t bucket;

        memcpy(&bucket, object->name + 1, sizeof(bucket));
        eng_name_version(&scan->made, be64toh(bucket), object->name + 9, object->name_len - 9, 0);
}

static bool is_object_name(const struct eng_cursor *cursor)
{
        return cursor != NULL && cursor->name_len > 9 && cursor->name_len <= 9 + ENG_KEY_MAX && cursor->name[0] == FMT_SPACE_OBJECT;
}

/* Looked for anew only when it has gone by: a key may have many versions before it. */
static const struct eng_cursor *next_object(struct scan *scan)
{
        if (scan->object_known)
                return scan->object;
        scan->object_known = true;
        scan->object = eng_stream_least(&scan->objects);
        if (!is_object_name(scan->object))
                scan->object = NULL;
        else
                name_object(scan, scan->object);
        return scan->object;
}

/*
 * Which of the two streams goes on: an object comes behind its versions, of which a plain one has
 * none.
 */
static void choose_stream(struct scan *scan)
{
        const struct eng_cursor *object = next_object(scan);

        if (object == NULL ||
            (scan->cursor != NULL && eng_name_compare(scan->made.data, scan->made.len, scan->cursor->name, scan->cursor->name_len) > 0))
                return;
        scan->plain = true;
        scan->cursor = object;
        scan->name = scan->made.data;
        scan->name_len = scan->made.len;
}

/* ---- the scan -------------------------------------------------------------------------------- */

/* Finds the name that comes next. */
static void scan_look(struct scan *scan)
{
        scan->plain = false;
        scan->cursor = scan->ended ? NULL : eng_stream_least(&scan->names);
        if (scan->cursor != NULL) {
                scan->name = scan->cursor->name;
                scan->name_len = scan->cursor->name_len;
        }
        if (with_versions(scan) && !scan->ended)
                choose_stream(scan);
}

static int seek_all(struct scan *scan)
{
        int rv = eng_stream_seek(&scan->names, scan->from, scan->from_len, scan->after);

        return rv != 0 || !with_versions(scan) ? rv : seek_objects(scan);
}

/* The least name above all that begin with this one: from is set to it. */
static void skip_prefix(struct scan *scan, const uint8_t *prefix, size_t len)
{
        memmove(scan->from, prefix, len);
        while (len > 0 && scan->from[len - 1] == 0xff)
                len--;
        scan->ended = len == 0;
        if (len > 0)
                scan->from[len - 1]++;
        scan->from_len = len;
        scan->after = scan->has_version = false;
}

static bool scan_is_full(const struct scan *scan)
{
        uint32_t most = scan->op->scan.most != 0 ? scan->op->scan.most : ANSWER_BYTES;

        return scan->count == scan->op->scan.max || (scan->out != NULL && scan->out->len >= most);
}

static bool beyond(const struct scan *scan)
{
        const struct eng_op *op = scan->op;

        return op->scan.to != NULL && eng_name_compare(scan->name, scan->name_len, op->scan.to, op->scan.to_len) >= 0;
}

/* An object may be met again for the sake of versions that follow it. */
static bool was_given(const struct scan *scan)
{
        int order;

        if (!scan->plain)
                return false;
        order = eng_name_compare(scan->name, scan->name_len, scan->from, scan->from_len);
        return order < 0 || (order == 0 && scan->after);
}

/*
 * What comes next begins behind the name under way: should that need a page that is not there.
 */
static void scan_remember(struct scan *scan)
{
        if (was_given(scan))
                return;
        assert(scan->name_len <= FMT_NAME_MAX);
        memcpy(scan->from, scan->name, scan->name_len);
        scan->from_len = scan->name_len;
        scan->after = true;
        scan->has_version = scan->is_version;
}

static int scan_step_over(struct scan *scan)
{
        scan_remember(scan);
        if (scan->plain)
                scan->object_known = false;
        return eng_stream_step(stream_of(scan), scan->cursor);
}

/* Gives the name, or the prefix it belongs to, and steps on. 1: the answer is full before it. */
static int scan_give(struct scan *scan, const uint8_t *value, size_t len)
{
        size_t prefix = scan_common_prefix(scan->op, scan->name, scan->name_len);
        int rv;

        if (scan_is_full(scan))
                return 1;
        if (prefix == 0) {
                rv = emit_value(scan, scan->name, scan->name_len, value, len);
                return rv != 0 ? rv : scan_step_over(scan);
        }
        rv = scan_emit(scan, scan->name, prefix, 1, NULL, 0);
        if (rv != 0)
                return rv;
        skip_prefix(scan, scan->name, prefix);
        return scan->ended ? 0 : seek_all(scan);
}

/* Works until the end, a full answer, or the end of the slice. 1: done; 0: another slice. */
static int run_slice(struct scan *scan)
{
        const uint8_t *value;
        unsigned steps;
        size_t len;
        int rv;

        rv = seek_all(scan);
        if (rv == 0)
                scan->wait.tries = 0;
        for (steps = 0; rv == 0; steps++) {
                scan_look(scan);
                if (scan->cursor == NULL || beyond(scan))
                        return 1;
                if (steps >= SLICE_STEPS)
                        return 0; /* from says where to go on */
                rv = was_given(scan) ? 0 : scan_is_wanted(scan, &value, &len);
                if (rv >= 0)
                        rv = rv == 1 ? scan_give(scan, value, len) : scan_step_over(scan);
        }
        scan->more = rv == 1;
        return rv;
}

static void scan_finish(struct scan *scan, int rv)
{
        struct eng_op *op = scan->op;

        assert(rv == -ECANCELED || (op->scan.entries == NULL && scan->count <= op->scan.max)); /* cancelled: the op may be gone */
        if (rv == 0 && scan->out == NULL) {
                scan->out = eng_buf_new(0);
                rv = scan->out == NULL ? -ENOMEM : 0;
        }
        if (rv == 0) {
                op->scan.entries = scan->out;
                op->scan.count = scan->count;
                op->scan.more = scan->more;
        } else {
                eng_buf_unref(scan->out);
        }
        if (rv != -ECANCELED)
                eng_local_answer(op, rv == -ENOMEM ? -EAGAIN : rv);
        free(scan);
}

/* With snapshots of the index. */
static int slice_run(struct scan *scan)
{
        struct eng_local *l = scan->l;
        int rv = eng_index_read_begin(l->reader);

        if (rv != 0)
                return rv;
        if (with_versions(scan))
                rv = eng_index_read_begin(l->second_reader);
        if (with_versions(scan) && rv == 0)
                eng_index_lazily(l->second_reader, true);
        if (rv == 0)
                rv = run_slice(scan);
        if (with_versions(scan)) {
                eng_index_lazily(l->second_reader, false);
                eng_index_read_end(l->second_reader);
        }
        eng_index_read_end(l->reader);
        return rv;
}

static void slice(struct scan *scan)
{
        struct eng_local *l = scan->l;
        int rv = slice_run(scan);

        if (rv == ENG_INDEX_ABSENT) {
                eng_pages_wait(l, &scan->wait);
                return;
        }
        eng_local_index_error(l, rv);
        if (rv != 0) {
                scan_finish(scan, rv == 1 ? 0 : rv);
                return;
        }
        eng_local_hold(l);
        lp_post(l->drive.owner, &scan->msg);
}

static void scan_next_slice(struct lp_msg *msg)
{
        struct scan *scan = container_of(msg, struct scan, msg);

        if (!eng_local_release(scan->l))
                scan_finish(scan, -ECANCELED);
        else if (eng_local_failed(scan->l))
                scan_finish(scan, -EIO);
        else
                slice(scan);
}

static void scan_again(struct eng_local *l, struct eng_page_wait *wait, int rv)
{
        struct scan *scan = container_of(wait, struct scan, wait);

        (void)l;
        if (rv == 0)
                slice(scan);
        else
                scan_finish(scan, rv);
}

static int check_scan(const struct eng_op *op)
{
        return op->scan.from_len <= FMT_NAME_MAX && op->scan.to_len <= FMT_NAME_MAX && op->scan.max > 0 ? 0 : -EINVAL;
}

void eng_scan_op(struct eng_local *l, struct eng_op *op)
{
        struct scan *scan;
        size_t prefix;
        int rv = check_scan(op);

        op->scan.entries = NULL;
        op->scan.count = 0;
        op->scan.more = false;
        scan = rv == 0 ? calloc(1, sizeof(*scan)) : NULL;
        if (scan == NULL) {
                eng_local_answer(op, rv != 0 ? rv : -EAGAIN);
                return;
        }
        scan->l = scan->names.l = scan->objects.l = l;
        scan->names.reader = l->reader;
        scan->objects.reader = l->second_reader;
        scan->op = op;
        scan->from_len = op->scan.from_len;
        if (scan->from_len > 0)
                memcpy(scan->from, op->scan.from, scan->from_len);
        scan->after = op->scan.after;
        /* Going on after a name under a common prefix: that prefix was given before. */
        prefix = scan->after ? scan_common_prefix(op, scan->from, scan->from_len) : 0;
        if (prefix > 0)
                skip_prefix(scan, scan->from, prefix);
        scan->msg.run = scan_next_slice;
        scan->wait.again = scan_again;
        slice(scan);
}
