/*
 * rec.c - records of the log as bytes.
 *
 * The append side seals them, replay and reads check them, the tail walks their mutations. Nothing read from a drive is believed
 * before it passed here: lengths are checked even where a CRC was right, because a CRC only says that bytes are what
 * someone wrote. Pure functions; any thread.
 */
#include "engine/drive/rec.h"

#include <errno.h>
#include <string.h>

#include "ec.h"
#include "engine/drive.h"

#define LOG_HEADER_CRC_BYTES 128u

int eng_name_compare(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
        size_t common = a_len < b_len ? a_len : b_len;
        int order = common > 0 ? memcmp(a, b, common) : 0; /* an empty name may be NULL */

        if (order != 0)
                return order;
        return a_len < b_len ? -1 : a_len > b_len;
}

/* ---- headers --------------------------------------------------------------------------------------- */

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
               rec->type >= FMT_RECORD_PG && rec->type <= FMT_RECORD_MARKS && rec->batch <= position &&
               rec->batch % FMT_BLOCK == 0;
}

/* ---- bodies ---------------------------------------------------------------------------------------- */

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

static int check_put(const struct eng_mut *mut)
{
        struct fmt_value value;

        if (eng_value_check(mut->value, mut->value_len) != 0)
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

static int check_mutation(const struct eng_mut *mut)
{
        if (mut->name_len < 2 || mut->name[0] < FMT_SPACE_CONFIG || mut->name[0] > FMT_SPACE_PART)
                return -EBADMSG;
        switch (mut->kind) {
        case FMT_MUT_PUT:
                return check_put(mut);
        case FMT_MUT_DELETE:
                return mut->value_len == 0 && mut->inline_len == 0 ? 0 : -EBADMSG;
        case FMT_MUT_END_UPLOAD:
                return check_end_upload(mut);
        }
        return -EBADMSG;
}

int eng_rec_check_body(const uint8_t *body, size_t len, uint32_t inline_len)
{
        struct eng_mut mut;
        size_t pos = 0;
        int rv;

        while ((rv = eng_rec_next(body, len, inline_len, &pos, &mut)) == 1)
                if (check_mutation(&mut) != 0)
                        return -EBADMSG;
        if (rv == 0 && inline_len > 0 && pos == 0)
                return -EBADMSG;
        return rv;
}

int eng_rec_check_copy(const uint8_t *body, size_t len, uint32_t inline_len)
{
        struct eng_mut mut;
        size_t pos = 0;
        int rv = eng_rec_check_body(body, len, inline_len);

        while (rv == 0 && (rv = eng_rec_next(body, len, inline_len, &pos, &mut)) == 1)
                rv = mut.kind == FMT_MUT_END_UPLOAD ? -EBADMSG : 0;
        return rv;
}

int eng_rec_check_epoch(const void *body, size_t len)
{
        struct fmt_epoch epoch;

        if (len < sizeof(epoch))
                return -EBADMSG;
        memcpy(&epoch, body, sizeof(epoch));
        if (epoch.drives > ENG_DRIVES_MAX)
                return -EBADMSG;
        if (len != sizeof(epoch) + epoch.drives * sizeof(struct fmt_epoch_drive) && len != FMT_EPOCH_MAX(epoch.drives))
                return -EBADMSG;
        return 0;
}
