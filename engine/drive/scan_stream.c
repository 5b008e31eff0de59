/*
 * scan_stream.c - visible names of a drive in order (scan_stream.h).
 *
 * owner: the loop.
 */
#include "engine/drive/scan_stream.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

static const struct eng_memtable *tail_of(const struct eng_scan_stream *stream, enum eng_source source)
{
        return source == ENG_SOURCE_ACTIVE ? stream->l->active : stream->l->frozen;
}

static enum eng_source source_of(const struct eng_scan_stream *stream, const struct eng_cursor *cursor)
{
        assert(cursor >= stream->at && cursor < stream->at + ENG_SOURCES);
        return (enum eng_source)(cursor - stream->at);
}

/* A cursor at entry, or behind it as long as it is not a name of its own. */
static void set_tail(struct eng_cursor *cursor, const struct eng_memtable_name *entry)
{
        while (entry != NULL && entry->kind == ENG_MEMTABLE_RANGE)
                entry = eng_memtable_next(entry);
        cursor->entry = entry;
        cursor->name = entry != NULL ? entry->name : NULL;
        cursor->name_len = entry != NULL ? entry->name_len : 0;
}

/* rv of eng_index_seek or _next. */
static int set_index(struct eng_scan_stream *stream, int rv)
{
        struct eng_cursor *cursor = &stream->at[ENG_SOURCE_INDEX];

        cursor->name = NULL;
        if (rv == -ENOENT)
                return 0;
        if (rv != 0)
                return rv;
        cursor->name = cursor->found.name;
        cursor->name_len = cursor->found.name_len;
        return 0;
}

int eng_stream_seek(struct eng_scan_stream *stream, const uint8_t *name, size_t len, bool after)
{
        enum eng_source s;

        for (s = ENG_SOURCE_ACTIVE; s <= ENG_SOURCE_FROZEN; s++)
                set_tail(&stream->at[s], tail_of(stream, s) != NULL ? eng_memtable_seek(tail_of(stream, s), name, len, after) : NULL);
        return set_index(stream, eng_index_seek(stream->reader, name, len, after, &stream->at[ENG_SOURCE_INDEX].found));
}

static int stream_advance(struct eng_scan_stream *stream, enum eng_source source)
{
        if (source == ENG_SOURCE_INDEX)
                return set_index(stream, eng_index_next(stream->reader, &stream->at[ENG_SOURCE_INDEX].found));
        set_tail(&stream->at[source], eng_memtable_next(stream->at[source].entry));
        return 0;
}

const struct eng_cursor *eng_stream_least(const struct eng_scan_stream *stream)
{
        const struct eng_cursor *best = NULL;
        enum eng_source s;

        for (s = ENG_SOURCE_ACTIVE; s < ENG_SOURCES; s++) {
                const struct eng_cursor *at = &stream->at[s];

                if (at->name != NULL && (best == NULL || eng_name_compare(at->name, at->name_len, best->name, best->name_len) < 0))
                        best = at;
        }
        return best;
}

int eng_stream_step(struct eng_scan_stream *stream, const struct eng_cursor *cursor)
{
        enum eng_source source = source_of(stream, cursor), s;
        int rv = 0;

        for (s = ENG_SOURCES; s-- > ENG_SOURCE_ACTIVE && rv == 0;) { /* source itself last: its name is compared with */
                if (s == source || stream->at[s].name == NULL ||
                    eng_name_compare(stream->at[s].name, stream->at[s].name_len, cursor->name, cursor->name_len) != 0)
                        continue;
                rv = stream_advance(stream, s);
        }
        return rv != 0 ? rv : stream_advance(stream, source);
}

int eng_stream_value(struct eng_scan_stream *stream, const struct eng_cursor *cursor, const uint8_t **value, size_t *len)
{
        struct eng_index_entry *found = &stream->at[ENG_SOURCE_INDEX].found;
        int rv = 0;

        if (source_of(stream, cursor) == ENG_SOURCE_INDEX) {
                if (found->value == NULL)
                        rv = eng_index_value(stream->reader, found);
                if (rv != 0)
                        return rv;
                *value = found->value;
                *len = found->value_len;
                return 1;
        }
        if (cursor->entry->kind != ENG_MEMTABLE_PUT)
                return 0;
        *value = cursor->entry->value->data;
        *len = cursor->entry->value->len;
        return 1;
}

bool eng_stream_seems_head(const struct eng_scan_stream *stream, const struct eng_cursor *cursor)
{
        return source_of(stream, cursor) == ENG_SOURCE_INDEX && cursor->found.value == NULL && (cursor->found.state & FMT_STATE_HEAD) != 0;
}

bool eng_stream_visible(const struct eng_scan_stream *stream, const struct eng_cursor *cursor, const uint8_t *value)
{
        const struct eng_memtable *active = stream->l->active, *frozen = stream->l->frozen;
        enum eng_source source = source_of(stream, cursor);
        uint64_t seq;

        memcpy(&seq, value + offsetof(struct fmt_value, seq), sizeof(seq));
        if (source >= ENG_SOURCE_FROZEN && eng_memtable_hides(active, cursor->name, cursor->name_len, seq))
                return false;
        return source != ENG_SOURCE_INDEX || frozen == NULL || !eng_memtable_hides(frozen, cursor->name, cursor->name_len, seq);
}
