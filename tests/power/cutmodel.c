/*
 * cutmodel.c - takes the log of a cutfs in, entry by entry: what is durable, and the pieces that
 * are not.
 *
 * A write is a piece by whole sectors, as the file had them after it. A piece ends when something
 * makes it durable; where a later write is durable already, an earlier piece no longer shows.
 */
#include "tests/power/cutmodel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM_MIN 4096u

struct cut_node *cut_nodes[CUT_NODES_MAX];
uint64_t cut_node_end;

void cut_die(const char *what)
{
        fprintf(stderr, "cutimg: %s: %s\n", what, strerror(errno));
        exit(1);
}

static void *grow(void *list, size_t *size, size_t item)
{
        *size = *size == 0 ? 16 : 2 * *size;
        list = realloc(list, *size * item);
        if (list == NULL)
                cut_die("memory");
        return list;
}

static char *text_of(const char *at, size_t len)
{
        char *text = strndup(at, len);

        if (text == NULL)
                cut_die("memory");
        return text;
}

/* ---- cut_nodes ------------------------------------------------------------------------------- */

struct cut_node *cut_node_new(uint64_t inode, uint64_t folder, bool is_folder, const char *label)
{
        struct cut_node *node = calloc(1, sizeof(*node));

        if (node == NULL || inode >= CUT_NODES_MAX)
                cut_die("cut_nodes");
        node->inode = inode;
        node->folder = folder;
        node->top = folder == 0 ? 0 : folder == CUT_ROOT ? inode : cut_nodes[folder]->top;
        node->is_folder = is_folder;
        node->label = text_of(label, strlen(label));
        cut_nodes[inode] = node;
        if (inode >= cut_node_end)
                cut_node_end = inode + 1;
        return node;
}

static struct cut_piece *piece_add(struct cut_node *node, uint32_t number, enum cut_kind kind)
{
        struct cut_piece *piece;

        if (node->piece_count == node->piece_size)
                node->pieces = grow(node->pieces, &node->piece_size, sizeof(*node->pieces));
        piece = &node->pieces[node->piece_count++];
        memset(piece, 0, sizeof(*piece));
        piece->number = number;
        piece->kind = kind;
        return piece;
}

static void piece_free(struct cut_piece *piece)
{
        free(piece->own);
        free(piece->name);
        free(piece->new_name);
}

static void pieces_clear(struct cut_node *node)
{
        size_t i;

        for (i = 0; i < node->piece_count; i++)
                piece_free(&node->pieces[i]);
        node->piece_count = 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

static void name_remove(struct cut_node *folder, const char *text)
{
        size_t i;

        for (i = 0; i < folder->name_count; i++) {
                if (strcmp(folder->names[i].text, text) != 0)
                        continue;
                free(folder->names[i].text);
                folder->names[i] = folder->names[--folder->name_count];
                return;
        }
}

static void name_put(struct cut_node *folder, const char *text, uint64_t inode)
{
        name_remove(folder, text);
        if (folder->name_count == folder->name_size)
                folder->names = grow(folder->names, &folder->name_size, sizeof(*folder->names));
        folder->names[folder->name_count].text = text_of(text, strlen(text));
        folder->names[folder->name_count++].inode = inode;
}

static void apply_name(struct cut_node *folder, const struct cut_piece *piece)
{
        switch (piece->kind) {
        case CUT_CREATE:
        case CUT_MKDIR:
                name_put(folder, piece->name, piece->inode);
                break;
        case CUT_UNLINK:
                name_remove(folder, piece->name);
                break;
        default: /* CUT_RENAME */
                name_remove(folder, piece->name);
                name_put(folder, piece->new_name, piece->inode);
                break;
        }
}

/* ---- data ------------------------------------------------------------------------------------ */

static uint64_t sector_down(uint64_t bytes)
{
        return bytes / CUT_SECTOR * CUT_SECTOR;
}

static uint64_t sector_up(uint64_t bytes)
{
        return sector_down(bytes + CUT_SECTOR - 1);
}

static void *grow_zeroed(void *old, size_t old_bytes, size_t bytes)
{
        uint8_t *grown = realloc(old, bytes);

        if (grown == NULL)
                cut_die("memory");
        memset(grown + old_bytes, 0, bytes - old_bytes);
        return grown;
}

static void make_room(struct cut_node *file, uint64_t bytes)
{
        uint64_t room = file->room == 0 ? ROOM_MIN : file->room;

        while (room < bytes)
                room *= 2;
        if (room == file->room)
                return;
        file->durable = grow_zeroed(file->durable, file->room, room);
        file->numbers = grow_zeroed(file->numbers, file->room / CUT_SECTOR * sizeof(uint32_t),
                                    room / CUT_SECTOR * sizeof(uint32_t));
        file->room = room;
}

/* One sector of a write, unless something later is there. */
void cut_apply_sector(struct cut_node *file, const struct cut_piece *piece, uint64_t at)
{
        if (file->numbers[at / CUT_SECTOR] > piece->number)
                return;
        file->numbers[at / CUT_SECTOR] = piece->number;
        if (piece->bytes != NULL)
                memcpy(file->durable + at, piece->bytes + (at - piece->offset), CUT_SECTOR);
        else
                memset(file->durable + at, 0, CUT_SECTOR);
}

static void apply_write(struct cut_node *file, const struct cut_piece *piece, uint64_t from, uint64_t to)
{
        uint64_t at = piece->offset > from ? piece->offset : from;
        uint64_t end = piece->offset + piece->len < to ? piece->offset + piece->len : to;

        for (; at < end; at += CUT_SECTOR)
                cut_apply_sector(file, piece, at);
}

void cut_grow(struct cut_node *file, uint64_t size)
{
        if (size > file->durable_size)
                file->durable_size = size;
}

static void apply_size(struct cut_node *file, const struct cut_piece *piece)
{
        uint64_t at;

        if (!piece->cuts) {
                cut_grow(file, piece->offset);
                return;
        }
        for (at = sector_up(piece->offset); at < sector_up(file->durable_size); at += CUT_SECTOR) {
                if (file->numbers[at / CUT_SECTOR] > piece->number)
                        continue;
                file->numbers[at / CUT_SECTOR] = piece->number;
                memset(file->durable + at, 0, CUT_SECTOR);
        }
        if (piece->offset < file->durable_size && piece->offset % CUT_SECTOR != 0)
                memset(file->durable + piece->offset, 0, sector_up(piece->offset) - piece->offset);
        file->durable_size = piece->offset;
}

void cut_apply(struct cut_node *node, const struct cut_piece *piece)
{
        if (node->is_folder) {
                apply_name(node, piece);
        } else if (piece->kind == CUT_SIZE) {
                apply_size(node, piece);
        } else {
                apply_write(node, piece, 0, UINT64_MAX);
                cut_grow(node, piece->end);
        }
}

static void flush(struct cut_node *node)
{
        size_t i;

        for (i = 0; i < node->piece_count; i++)
                cut_apply(node, &node->pieces[i]);
        pieces_clear(node);
}

/*
 * What comes before a change that makes a file shorter cannot be told from it any more by what
 * comes after.
 */
static void flush_cuts(struct cut_node *file)
{
        size_t i, count = 0;

        for (i = 0; i < file->piece_count; i++)
                if (file->pieces[i].cuts)
                        count = i + 1;
        for (i = 0; i < count; i++) {
                cut_apply(file, &file->pieces[i]);
                piece_free(&file->pieces[i]);
        }
        memmove(file->pieces, file->pieces + count, (file->piece_count - count) * sizeof(*file->pieces));
        file->piece_count -= count;
}

/*
 * The bytes of a range are durable, and what is needed to find them; what lies wholly inside is no
 * piece any more.
 */
static void flush_range(struct cut_node *file, uint64_t offset, uint64_t len)
{
        uint64_t from = sector_down(offset), to = sector_up(offset + len);
        size_t i, kept = 0;

        flush_cuts(file);
        for (i = 0; i < file->piece_count; i++) {
                struct cut_piece *piece = &file->pieces[i];

                if (piece->kind == CUT_WRITE)
                        apply_write(file, piece, from, to);
                if (piece->kind == CUT_WRITE && piece->offset >= from && piece->offset + piece->len <= to) {
                        cut_grow(file, piece->end); /* it may end behind the range, in the same sector */
                        piece_free(piece);
                } else {
                        file->pieces[kept++] = *piece;
                }
        }
        file->piece_count = kept;
        cut_grow(file, offset + len);
}

/* ---- reading the log ------------------------------------------------------------------------- */

void cut_reader_open(struct cut_reader *r, const char *path)
{
        struct stat st;
        int fd = open(path, O_RDONLY | O_CLOEXEC);

        memset(r, 0, sizeof(*r));
        if (fd < 0 || fstat(fd, &st) != 0)
                cut_die(path);
        r->len = (uint64_t)st.st_size;
        r->bytes = r->len == 0 ? NULL : mmap(NULL, r->len, PROT_READ, MAP_PRIVATE, fd, 0);
        if (r->bytes == MAP_FAILED)
                cut_die(path);
        close(fd);
}

static void take_text(struct cut_reader *r, char out[256], size_t len)
{
        if (len > 255 || r->len - r->at < len) {
                errno = EBADMSG;
                cut_die("log");
        }
        memcpy(out, r->bytes + r->at, len);
        out[len] = '\0';
        r->at += len;
}

/* False: the log ends here; an entry still being written counts as not there. */
bool cut_next(struct cut_reader *r)
{
        uint64_t data_len;

        if (r->len - r->at < sizeof(r->entry))
                return false;
        memcpy(&r->entry, r->bytes + r->at, sizeof(r->entry));
        if (r->entry.magic != CUT_MAGIC || r->entry.kind == 0 || r->entry.kind >= CUT_KINDS) {
                errno = EBADMSG;
                cut_die("log");
        }
        r->at += sizeof(r->entry);
        take_text(r, r->name, r->entry.name_len);
        take_text(r, r->new_name, r->entry.new_len);
        data_len = r->entry.kind == CUT_WRITE && (r->entry.flags & CUT_ZEROES) == 0 ? r->entry.data_len : 0;
        if (r->len - r->at < data_len)
                return false;
        r->data = data_len > 0 ? r->bytes + r->at : NULL;
        r->at += data_len;
        r->number++;
        return true;
}

/* ---- taking entries in ----------------------------------------------------------------------- */

static void take_name(const struct cut_reader *r)
{
        const struct cut_entry *entry = &r->entry;
        struct cut_node *folder = cut_nodes[entry->folder];
        struct cut_piece *piece = piece_add(folder, r->number, entry->kind);

        if (entry->kind == CUT_CREATE || entry->kind == CUT_MKDIR)
                cut_node_new(entry->inode, entry->folder, entry->kind == CUT_MKDIR, r->name);
        piece->inode = entry->inode;
        piece->name = text_of(r->name, entry->name_len);
        if (entry->kind != CUT_RENAME)
                return;
        piece->new_name = text_of(r->new_name, entry->new_len);
        free(cut_nodes[entry->inode]->label);
        cut_nodes[entry->inode]->label = text_of(r->new_name, entry->new_len);
}

/* A sector as the file has it now, all its pieces counted. */
static void sector_now(const struct cut_node *file, uint64_t at, uint8_t out[CUT_SECTOR])
{
        size_t i;

        memcpy(out, file->durable + at, CUT_SECTOR);
        for (i = 0; i < file->piece_count; i++) {
                const struct cut_piece *piece = &file->pieces[i];

                if (file->numbers[at / CUT_SECTOR] > piece->number)
                        continue;
                if (piece->cuts && piece->offset < at + CUT_SECTOR)
                        memset(piece->offset > at ? out + (piece->offset - at) : out, 0,
                               CUT_SECTOR - (piece->offset > at ? piece->offset - at : 0));
                else if (piece->kind == CUT_WRITE && piece->offset <= at && at < piece->offset + piece->len)
                        piece->bytes != NULL ? memcpy(out, piece->bytes + (at - piece->offset), CUT_SECTOR)
                                             : memset(out, 0, CUT_SECTOR);
        }
}

/* Fills what the first and the last sector of a write hold besides it. */
static uint8_t *whole_sectors(const struct cut_node *file, const struct cut_reader *r, uint64_t from, uint64_t to)
{
        uint8_t *bytes = malloc(to - from);

        if (bytes == NULL)
                cut_die("memory");
        sector_now(file, from, bytes);
        if (to - from > CUT_SECTOR)
                sector_now(file, to - CUT_SECTOR, bytes + (to - from) - CUT_SECTOR);
        if (r->data != NULL)
                memcpy(bytes + (r->entry.offset - from), r->data, r->entry.data_len);
        else
                memset(bytes + (r->entry.offset - from), 0, r->entry.data_len);
        return bytes;
}

static void take_write(const struct cut_reader *r)
{
        struct cut_node *file = cut_nodes[r->entry.inode];
        uint64_t end = r->entry.offset + r->entry.data_len;
        uint64_t from = sector_down(r->entry.offset), to = sector_up(end);
        uint8_t *own = NULL;
        struct cut_piece *piece;

        make_room(file, to);
        if (from != r->entry.offset || to != end)
                own = whole_sectors(file, r, from, to);
        piece = piece_add(file, r->number, CUT_WRITE);
        piece->offset = from;
        piece->len = to - from;
        piece->end = end;
        piece->own = own;
        if (end > file->size_now)
                file->size_now = end;
        piece->bytes = own != NULL ? own : r->data;
}

static void take_size(const struct cut_reader *r)
{
        struct cut_node *file = cut_nodes[r->entry.inode];
        struct cut_piece *piece = piece_add(file, r->number, CUT_SIZE);

        make_room(file, sector_up(r->entry.offset));
        piece->offset = r->entry.offset;
        piece->cuts = r->entry.offset < file->size_now;
        file->size_now = r->entry.offset;
}

void cut_take(const struct cut_reader *r)
{
        uint64_t i;

        switch ((enum cut_kind)r->entry.kind) {
        case CUT_CREATE:
        case CUT_MKDIR:
        case CUT_UNLINK:
        case CUT_RENAME:
                take_name(r);
                break;
        case CUT_WRITE:
                take_write(r);
                break;
        case CUT_SIZE:
                take_size(r);
                break;
        case CUT_RANGE:
                flush_range(cut_nodes[r->entry.inode], r->entry.offset, r->entry.data_len);
                break;
        case CUT_SETTLE:
                for (i = 0; i < cut_node_end; i++)
                        if (cut_nodes[i] != NULL)
                                flush(cut_nodes[i]);
                break;
        default: /* CUT_FSYNC, CUT_FSYNCDIR */
                flush(cut_nodes[r->entry.inode]);
                break;
        }
}
