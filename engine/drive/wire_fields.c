/*
 * wire_fields.c - see wire_fields.h.
 */
#include "engine/drive/wire_fields.h"

#include <string.h>

void eng_wire_bytes(struct eng_wire *w, void *bytes, size_t len)
{
        if (w->bad || len > w->len - w->at) {
                w->bad = true;
                return;
        }
        if (len == 0)
                return;
        if (w->out != NULL)
                memcpy(w->out + w->at, bytes, len);
        else
                memcpy(bytes, w->in + w->at, len);
        w->at += len;
}

void eng_wire_u64(struct eng_wire *w, uint64_t *n)
{
        eng_wire_bytes(w, n, sizeof(*n));
}

void eng_wire_u32(struct eng_wire *w, uint32_t *n)
{
        eng_wire_bytes(w, n, sizeof(*n));
}

void eng_wire_u16(struct eng_wire *w, uint16_t *n)
{
        eng_wire_bytes(w, n, sizeof(*n));
}

void eng_wire_u8(struct eng_wire *w, uint8_t *n)
{
        eng_wire_bytes(w, n, sizeof(*n));
}

void eng_wire_bool(struct eng_wire *w, bool *b)
{
        uint8_t n = *b;

        eng_wire_u8(w, &n);
        w->bad |= n > 1;
        *b = n == 1;
}

void eng_wire_check(struct eng_wire *w, bool fine)
{
        w->bad |= w->out == NULL && !fine;
}

void eng_wire_align(struct eng_wire *w)
{
        uint8_t pad[8] = {0};
        size_t n = (8 - w->at % 8) % 8, i;

        eng_wire_bytes(w, pad, n);
        for (i = 0; i < n; i++)
                w->bad |= pad[i] != 0;
}

void eng_wire_in_place(struct eng_wire *w, const uint8_t **bytes, size_t len)
{
        if (w->out != NULL) {
                eng_wire_bytes(w, (void *)*bytes, len);
                return;
        }
        if (w->bad || len > w->len - w->at) {
                w->bad = true;
                return;
        }
        *bytes = w->in + w->at;
        w->at += len;
}

void eng_wire_name(struct eng_wire *w, const uint8_t **name, uint16_t *len)
{
        eng_wire_u16(w, len);
        eng_wire_check(w, *len <= FMT_NAME_MAX);
        eng_wire_in_place(w, name, *len);
}

void eng_wire_optional(struct eng_wire *w, const uint8_t **bytes, uint16_t *len)
{
        bool there = *bytes != NULL;

        eng_wire_bool(w, &there);
        if (there)
                eng_wire_name(w, bytes, len);
        else if (w->out == NULL)
                *bytes = NULL;
}
