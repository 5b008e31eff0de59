/*
 * rec.c - records of the log as bytes.
 *
 * The append side seals them, replay and reads check them, the tail walks their mutations. Nothing
 * read from a drive is believed before it passed here: lengths are checked even where a CRC was
 * right, because a CRC only says that bytes are what someone wrote. Pure functions; any thread.
 */
#include "engine/drive/rec.h"

#include <errno.h>
#include <string.h>

#include "ec.h"
#include "engine/drive/drive.h"

#define LOG_HEADER_CRC_BYTES 128u
#define BUCKET_NAME          9u         /* bytes that names in a bucket begin with: space, bucket id */
#define PG_COUNT_MAX         (1u << 16) /* groups of a store: what is made for each must stay affordable */
#define EPOCH_MAX            ((1u << 31) - 1) /* the number is the upper half of that of a record, which only grows */

int eng_name_compare(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
        size_t common = a_len < b_len ? a_len : b_len;
        int order = common > 0 ? memcmp(a, b, common) : 0; /* an empty name may be NULL */

        if (order != 0)
                return order;
        return a_len < b_len ? -1 : a_len > b_len;
}

/* ---- headers --------------------------------------------------------------------------------- */

static uint32_t log_header_crc(const struct fmt_log_header *header)
{
        uint8_t bytes[LOG_HEADER_CRC_BYTES];

        memcpy(bytes, header, sizeof(bytes));
        memset(bytes + offsetof(struct fmt_log_header, crc), 0, sizeof(header->crc));
        return era_crc32c(0, bytes, sizeof(bytes));
}

void eng_log_header_seal(struct fmt_log_header *header)
{
        header->magic = FMT_LOG_MAGIC;
        header->crc = log_header_crc(header);
}

bool eng_log_header_ok(const struct fmt_log_header *header, const uint8_t drive_id[FMT_ID])
{
        return header->magic == FMT_LOG_MAGIC && header->crc == log_header_crc(header) &&
               memcmp(header->drive_id, drive_id, FMT_ID) == 0;
}

static uint32_t rec_crc(const struct fmt_record *rec)
{
        struct fmt_record copy = *rec;

        copy.header_crc = 0;
        return era_crc32c(0, &copy, sizeof(copy));
}

void eng_rec_seal(struct fmt_record *rec)
{
        rec->magic = FMT_RECORD_MAGIC;
        rec->header_crc = rec_crc(rec);
}

bool eng_rec_ok(const struct fmt_record *rec, const struct eng_log_ident *ident, uint64_t position)
{
        return rec->magic == FMT_RECORD_MAGIC && rec->position == position && rec->file == ident->file &&
               rec->generation == ident->generation && memcmp(rec->drive_id, ident->drive_id, FMT_ID) == 0 &&
               rec->header_crc == rec_crc(rec) && rec->body_len <= FMT_BODY_MAX && rec->inline_len <= rec->body_len &&
               rec->type != 0 && rec->batch <= position && rec->batch % FMT_BLOCK == 0;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

int eng_rec_next(const uint8_t *body, size_t len, uint32_t inline_len, size_t *pos, struct eng_mut *out)
{
        size_t end = len - inline_len;
        struct fmt_mutation head;

        if (inline_len > len || *pos > end)
                return -EBADMSG;
        if (*pos == end)
                return 0;
        if (end - *pos < sizeof(head))
                return -EBADMSG;
        memcpy(&head, body + *pos, sizeof(head));
        *pos += sizeof(head);
        if (head.name_len == 0 || head.name_len > FMT_NAME_MAX || end - *pos < head.name_len ||
            end - *pos - head.name_len < head.value_len)
                return -EBADMSG;
        out->kind = head.kind;
        out->name = body + *pos;
        out->name_len = head.name_len;
        out->value = out->name + head.name_len;
        out->value_len = head.value_len;
        *pos += (size_t)head.name_len + head.value_len;
        out->inline_len = *pos == end ? inline_len : 0;
        out->inline_bytes = body + end;
        return 1;
}

size_t eng_rec_upload_name(const uint8_t *name, size_t len)
{
        const uint8_t *mark;

        if (len < 9 + 2 + FMT_ID || name[0] != FMT_SPACE_UPLOAD)
                return 0;
        mark = name + len - FMT_ID - 2;
        return mark[0] == 0 && mark[1] == 1 ? len : 0;
}

static int check_put(const struct eng_mut *mut, int (*check_value)(const void *buf, size_t len))
{
        struct fmt_value value;

        if (check_value(mut->value, mut->value_len) != 0)
                return -EBADMSG;
        memcpy(&value, mut->value, sizeof(value));
        if (value.space != mut->name[0] || value.inline_len != mut->inline_len)
                return -EBADMSG;
        return 0;
}

static int check_end_upload(const struct eng_mut *mut)
{
        size_t i;

        if (eng_rec_upload_name(mut->name, mut->name_len) == 0 || mut->value_len % FMT_ID != 0 ||
            mut->value_len / FMT_ID > ENG_PARTS_MAX || mut->inline_len != 0)
                return -EBADMSG;
        for (i = FMT_ID; i < mut->value_len; i += FMT_ID)
                if (memcmp(mut->value + i - FMT_ID, mut->value + i, FMT_ID) > 0)
                        return -EBADMSG;
        return 0;
}

static int check_mutation(const struct eng_mut *mut, int (*check_value)(const void *buf, size_t len))
{
        if (mut->name_len < 2 || mut->name[0] < FMT_SPACE_CONFIG || mut->name[0] > FMT_SPACE_LAST)
                return -EBADMSG;
        if (mut->name[0] != FMT_SPACE_CONFIG && mut->name_len <= BUCKET_NAME)
                return -EBADMSG;
        switch (mut->kind) {
        case FMT_MUT_PUT:
                return check_put(mut, check_value);
        case FMT_MUT_DELETE:
                return mut->value_len == 0 && mut->inline_len == 0 ? 0 : -EBADMSG;
        case FMT_MUT_END_UPLOAD:
                return check_end_upload(mut);
        }
        return -EBADMSG;
}

static int check_body(const uint8_t *body, size_t len, uint32_t inline_len, int (*check_value)(const void *buf, size_t len))
{
        struct eng_mut mut;
        size_t pos = 0;
        int rv;

        while ((rv = eng_rec_next(body, len, inline_len, &pos, &mut)) == 1)
                if (check_mutation(&mut, check_value) != 0)
                        return -EBADMSG;
        if (rv == 0 && inline_len > 0 && pos == 0)
                return -EBADMSG;
        return rv;
}

int eng_rec_check_body(const uint8_t *body, size_t len, uint32_t inline_len)
{
        return check_body(body, len, inline_len, eng_value_check);
}

int eng_rec_check_stored(const uint8_t *body, size_t len, uint32_t inline_len)
{
        return check_body(body, len, inline_len, eng_value_check_head);
}

static int check_copy(const uint8_t *body, size_t len, uint32_t inline_len, int (*check_value)(const void *buf, size_t len))
{
        struct eng_mut mut;
        size_t pos = 0;
        int rv = check_body(body, len, inline_len, check_value);

        while (rv == 0 && (rv = eng_rec_next(body, len, inline_len, &pos, &mut)) == 1)
                rv = mut.kind == FMT_MUT_END_UPLOAD ? -EBADMSG : 0;
        return rv;
}

int eng_rec_check_copy(const uint8_t *body, size_t len, uint32_t inline_len)
{
        return check_copy(body, len, inline_len, eng_value_check);
}

int eng_rec_check_stored_copy(const uint8_t *body, size_t len, uint32_t inline_len)
{
        return check_copy(body, len, inline_len, eng_value_check_head);
}

/*
 * What a later version wrote behind the fields known here is skipped, unless it says that it must
 * be understood: that is no damage, and the drive is refused.
 */
static int check_epoch_tail(const uint8_t *at, size_t len)
{
        struct fmt_epoch_tail tail;

        if (len < sizeof(tail) || len > FMT_EPOCH_TAIL_MAX)
                return -EBADMSG;
        memcpy(&tail, at, sizeof(tail));
        if (tail.size != len || len % 8 != 0)
                return -EBADMSG;
        return (tail.must & ~FMT_EPOCH_MUST_KNOWN) == 0 ? 0 : -EPROTONOSUPPORT;
}

int eng_rec_check_epoch(const void *body, size_t len)
{
        struct fmt_epoch epoch;
        size_t placed;

        if (len < sizeof(epoch))
                return -EBADMSG;
        memcpy(&epoch, body, sizeof(epoch));
        if (epoch.drives > ENG_DRIVES_MAX || epoch.k == 0 || epoch.k > ERA_MAX_K || epoch.m > ERA_MAX_M || epoch.pg_count == 0 ||
            epoch.pg_count > PG_COUNT_MAX || epoch.number > EPOCH_MAX)
                return -EBADMSG;
        placed = FMT_EPOCH_PLACED(epoch.drives);
        if (len <= placed)
                return len == sizeof(epoch) + epoch.drives * sizeof(struct fmt_epoch_drive) || len == placed ? 0
                                                                                                             : -EBADMSG;
        return check_epoch_tail((const uint8_t *)body + placed, len - placed);
}
