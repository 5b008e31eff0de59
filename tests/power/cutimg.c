/*
 * cutimg.c - what a power cut leaves of a cutfs, made into plain folders.
 *
 *   cutimg LOG list                        one line per entry: number, kind, inode, path, offset, bytes
 *   cutimg LOG image N MODE SEED FOLDER    FOLDER (made anew) as it is after a cut at N; prints what became of each volatile piece
 *
 * A piece is one write, one change of size, or one change of a name that nothing has made durable yet. MODE says what becomes of them:
 *   none    all are lost             all     all are there (as after SIGKILL)
 *   random  each is there, lost, or torn by sectors; how likely is drawn for each folder of the root, so that drives differ
 *   but     all but one are there    one     all but one are lost
 * SEED decides, together with the number of the piece, so the same arguments give the same image.
 *
 * A write is kept by whole sectors as the file had them after it: a disk never gets a part of a sector. A later piece may be there where an
 * earlier one is not. Names and data go separate ways.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/power/cutlog.h"

#define NODES_MAX (1u << 20)
#define PAGE      4096u

/* A change that is not durable yet. */
struct piece {
        uint32_t number; /* of its entry */
        enum cut_kind kind;
        uint64_t inode;          /* names: what is named */
        uint64_t offset, len;    /* writes: whole sectors; size: offset */
        uint64_t end;            /* writes: the file is at least so long */
        bool cuts;               /* sizes: the file becomes shorter */
        const uint8_t *bytes;    /* writes: NULL: zeroes */
        uint8_t *own;            /* where bytes lie, if not in the log */
        char *name, *new_name;
};

struct name {
        char *text;
        uint64_t inode;
};

struct node {
        uint64_t inode, top, folder; /* folder it was made in */
        char *label;                 /* the name it was made with, or renamed to last */
        bool is_folder;
        struct piece *pieces;
        size_t piece_count, piece_size;
        /* files: what is durable */
        uint8_t *durable;
        uint32_t *numbers; /* by sector: entry that durable's bytes are from */
        uint64_t room;     /* bytes that durable holds */
        uint64_t durable_size, size_now;
        /* folders: durable names */
        struct name *names;
        size_t name_count, name_size;
};

static struct node *nodes[NODES_MAX];
static uint64_t node_end;

static void __attribute__((noreturn)) die(const char *what)
{
        fprintf(stderr, "cutimg: %s: %s\n", what, strerror(errno));
        exit(1);
}

static void *grow(void *list, size_t *size, size_t item)
{
        *size = *size == 0 ? 16 : 2 * *size;
        list = realloc(list, *size * item);
        if (list == NULL)
                die("memory");
        return list;
}

static char *text_of(const char *at, size_t len)
{
        char *text = strndup(at, len);

        if (text == NULL)
                die("memory");
        return text;
}

/* ---- nodes ----------------------------------------------------------------------------------------- */

static struct node *node_new(uint64_t inode, uint64_t folder, bool is_folder, const char *label)
{
        struct node *node = calloc(1, sizeof(*node));

        if (node == NULL || inode >= NODES_MAX)
                die("nodes");
        node->inode = inode;
        node->folder = folder;
        node->top = folder == 0 ? 0 : folder == CUT_ROOT ? inode : nodes[folder]->top;
        node->is_folder = is_folder;
        node->label = text_of(label, strlen(label));
        nodes[inode] = node;
        if (inode >= node_end)
                node_end = inode + 1;
        return node;
}

static struct piece *piece_add(struct node *node, uint32_t number, enum cut_kind kind)
{
        struct piece *piece;

        if (node->piece_count == node->piece_size)
                node->pieces = grow(node->pieces, &node->piece_size, sizeof(*node->pieces));
        piece = &node->pieces[node->piece_count++];
        memset(piece, 0, sizeof(*piece));
        piece->number = number;
        piece->kind = kind;
        return piece;
}

static void piece_free(struct piece *piece)
{
        free(piece->own);
        free(piece->name);
        free(piece->new_name);
}

static void pieces_clear(struct node *node)
{
        size_t i;

        for (i = 0; i < node->piece_count; i++)
                piece_free(&node->pieces[i]);
        node->piece_count = 0;
}

/* ---- names ----------------------------------------------------------------------------------------- */

static void name_remove(struct node *folder, const char *text)
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

static void name_put(struct node *folder, const char *text, uint64_t inode)
{
        name_remove(folder, text);
        if (folder->name_count == folder->name_size)
                folder->names = grow(folder->names, &folder->name_size, sizeof(*folder->names));
        folder->names[folder->name_count].text = text_of(text, strlen(text));
        folder->names[folder->name_count++].inode = inode;
}

static void apply_name(struct node *folder, const struct piece *piece)
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

/* ---- data ------------------------------------------------------------------------------------------ */

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
                die("memory");
        memset(grown + old_bytes, 0, bytes - old_bytes);
        return grown;
}

static void make_room(struct node *file, uint64_t bytes)
{
        uint64_t room = file->room == 0 ? PAGE : file->room;

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
static void apply_sector(struct node *file, const struct piece *piece, uint64_t at)
{
        if (file->numbers[at / CUT_SECTOR] > piece->number)
                return;
        file->numbers[at / CUT_SECTOR] = piece->number;
        if (piece->bytes != NULL)
                memcpy(file->durable + at, piece->bytes + (at - piece->offset), CUT_SECTOR);
        else
                memset(file->durable + at, 0, CUT_SECTOR);
}

static void apply_write(struct node *file, const struct piece *piece, uint64_t from, uint64_t to)
{
        uint64_t at = piece->offset > from ? piece->offset : from;
        uint64_t end = piece->offset + piece->len < to ? piece->offset + piece->len : to;

        for (; at < end; at += CUT_SECTOR)
                apply_sector(file, piece, at);
}

static void grow_durable(struct node *file, uint64_t size)
{
        if (size > file->durable_size)
                file->durable_size = size;
}

static void apply_size(struct node *file, const struct piece *piece)
{
        uint64_t at;

        if (!piece->cuts) {
                grow_durable(file, piece->offset);
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

static void apply_whole(struct node *node, const struct piece *piece)
{
        if (node->is_folder) {
                apply_name(node, piece);
        } else if (piece->kind == CUT_SIZE) {
                apply_size(node, piece);
        } else {
                apply_write(node, piece, 0, UINT64_MAX);
                grow_durable(node, piece->end);
        }
}

static void flush(struct node *node)
{
        size_t i;

        for (i = 0; i < node->piece_count; i++)
                apply_whole(node, &node->pieces[i]);
        pieces_clear(node);
}

/* What comes before a change that makes a file shorter cannot be told from it any more by what comes after. */
static void flush_cuts(struct node *file)
{
        size_t i, count = 0;

        for (i = 0; i < file->piece_count; i++)
                if (file->pieces[i].cuts)
                        count = i + 1;
        for (i = 0; i < count; i++) {
                apply_whole(file, &file->pieces[i]);
                piece_free(&file->pieces[i]);
        }
        memmove(file->pieces, file->pieces + count, (file->piece_count - count) * sizeof(*file->pieces));
        file->piece_count -= count;
}

/* The bytes of a range are durable, and what is needed to find them; what lies wholly inside is no piece any more. */
static void flush_range(struct node *file, uint64_t offset, uint64_t len)
{
        uint64_t from = sector_down(offset), to = sector_up(offset + len);
        size_t i, kept = 0;

        flush_cuts(file);
        for (i = 0; i < file->piece_count; i++) {
                struct piece *piece = &file->pieces[i];

                if (piece->kind == CUT_WRITE)
                        apply_write(file, piece, from, to);
                if (piece->kind == CUT_WRITE && piece->offset >= from && piece->offset + piece->len <= to)
                        piece_free(piece);
                else
                        file->pieces[kept++] = *piece;
        }
        file->piece_count = kept;
        grow_durable(file, offset + len);
}

/* ---- reading the log ------------------------------------------------------------------------------- */

struct reader {
        const uint8_t *bytes;
        uint64_t len, at;
        uint32_t number; /* of the entry that next() gave last */
        struct cut_entry entry;
        char name[256], new_name[256];
        const uint8_t *data; /* NULL: none, or zeroes */
};

static void reader_open(struct reader *r, const char *path)
{
        struct stat st;
        int fd = open(path, O_RDONLY | O_CLOEXEC);

        memset(r, 0, sizeof(*r));
        if (fd < 0 || fstat(fd, &st) != 0)
                die(path);
        r->len = (uint64_t)st.st_size;
        r->bytes = r->len == 0 ? NULL : mmap(NULL, r->len, PROT_READ, MAP_PRIVATE, fd, 0);
        if (r->bytes == MAP_FAILED)
                die(path);
        close(fd);
}

static void take_text(struct reader *r, char out[256], size_t len)
{
        if (len > 255 || r->len - r->at < len) {
                errno = EBADMSG;
                die("log");
        }
        memcpy(out, r->bytes + r->at, len);
        out[len] = '\0';
        r->at += len;
}

/* False: the log ends here; an entry still being written counts as not there. */
static bool next(struct reader *r)
{
        uint64_t data_len;

        if (r->len - r->at < sizeof(r->entry))
                return false;
        memcpy(&r->entry, r->bytes + r->at, sizeof(r->entry));
        if (r->entry.magic != CUT_MAGIC || r->entry.kind == 0 || r->entry.kind >= CUT_KINDS) {
                errno = EBADMSG;
                die("log");
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

/* ---- taking entries in ----------------------------------------------------------------------------- */

static void take_name(const struct reader *r)
{
        const struct cut_entry *entry = &r->entry;
        struct node *folder = nodes[entry->folder];
        struct piece *piece = piece_add(folder, r->number, entry->kind);

        if (entry->kind == CUT_CREATE || entry->kind == CUT_MKDIR)
                node_new(entry->inode, entry->folder, entry->kind == CUT_MKDIR, r->name);
        piece->inode = entry->inode;
        piece->name = text_of(r->name, entry->name_len);
        if (entry->kind != CUT_RENAME)
                return;
        piece->new_name = text_of(r->new_name, entry->new_len);
        free(nodes[entry->inode]->label);
        nodes[entry->inode]->label = text_of(r->new_name, entry->new_len);
}

/* A sector as the file has it now, all its pieces counted. */
static void sector_now(const struct node *file, uint64_t at, uint8_t out[CUT_SECTOR])
{
        size_t i;

        memcpy(out, file->durable + at, CUT_SECTOR);
        for (i = 0; i < file->piece_count; i++) {
                const struct piece *piece = &file->pieces[i];

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
static uint8_t *whole_sectors(const struct node *file, const struct reader *r, uint64_t from, uint64_t to)
{
        uint8_t *bytes = malloc(to - from);

        if (bytes == NULL)
                die("memory");
        sector_now(file, from, bytes);
        if (to - from > CUT_SECTOR)
                sector_now(file, to - CUT_SECTOR, bytes + (to - from) - CUT_SECTOR);
        if (r->data != NULL)
                memcpy(bytes + (r->entry.offset - from), r->data, r->entry.data_len);
        else
                memset(bytes + (r->entry.offset - from), 0, r->entry.data_len);
        return bytes;
}

static void take_write(const struct reader *r)
{
        struct node *file = nodes[r->entry.inode];
        uint64_t end = r->entry.offset + r->entry.data_len;
        uint64_t from = sector_down(r->entry.offset), to = sector_up(end);
        uint8_t *own = NULL;
        struct piece *piece;

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

static void take_size(const struct reader *r)
{
        struct node *file = nodes[r->entry.inode];
        struct piece *piece = piece_add(file, r->number, CUT_SIZE);

        make_room(file, sector_up(r->entry.offset));
        piece->offset = r->entry.offset;
        piece->cuts = r->entry.offset < file->size_now;
        file->size_now = r->entry.offset;
}

static void take(const struct reader *r)
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
                flush_range(nodes[r->entry.inode], r->entry.offset, r->entry.data_len);
                break;
        case CUT_SETTLE:
                for (i = 0; i < node_end; i++)
                        if (nodes[i] != NULL)
                                flush(nodes[i]);
                break;
        default: /* CUT_FSYNC, CUT_FSYNCDIR */
                flush(nodes[r->entry.inode]);
                break;
        }
}

static void print_path(uint64_t inode)
{
        if (inode == CUT_ROOT)
                return;
        if (nodes[inode]->folder != CUT_ROOT) {
                print_path(nodes[inode]->folder);
                printf("/");
        }
        printf("%s", nodes[inode]->label);
}

/* ---- what becomes of the pieces -------------------------------------------------------------------- */

enum mode { NONE, ALL, RANDOM, BUT, ONE };
enum fate { LOST, KEPT, TORN };
static const char *const mode_names[] = {"none", "all", "random", "but", "one"};
static const char *const fate_names[] = {"lost", "kept", "torn"};

static uint64_t mix(uint64_t a, uint64_t b)
{
        uint64_t z = a * 0x9e3779b97f4a7c15ull + b * 0xd1342543de82ef95ull + 0x632be59bd9b4e019ull;

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
}

static size_t count_pieces(void)
{
        size_t count = 0;
        uint64_t i;

        for (i = 0; i < node_end; i++)
                count += nodes[i] != NULL ? nodes[i]->piece_count : 0;
        return count;
}

/* of 100 */
static unsigned likelihood(const struct node *node, uint64_t seed)
{
        static const unsigned levels[] = {0, 10, 50, 50, 90, 100};

        return levels[mix(seed, ~node->top) % (sizeof(levels) / sizeof(levels[0]))];
}

static enum fate fate_of(const struct node *node, const struct piece *piece, enum mode mode, uint64_t seed, bool picked)
{
        unsigned likely;

        switch (mode) {
        case NONE:
                return LOST;
        case ALL:
                return KEPT;
        case BUT:
                return picked ? LOST : KEPT;
        case ONE:
                return picked ? KEPT : LOST;
        case RANDOM:
                break;
        }
        likely = likelihood(node, seed);
        if (piece->kind == CUT_WRITE && piece->len > CUT_SECTOR && likely > 0 && likely < 100 &&
            mix(seed + 1, piece->number) % 3 == 0)
                return TORN;
        return mix(seed, piece->number) % 100 < likely ? KEPT : LOST;
}

/* Some sectors of a write: each by itself, or all up to one. */
static void apply_torn(struct node *file, const struct piece *piece, uint64_t seed)
{
        uint64_t sectors = piece->len / CUT_SECTOR, i, whole = mix(seed + 2, piece->number);
        uint64_t upto = whole % 2 == 0 ? sectors : whole / 2 % sectors;

        for (i = 0; i < sectors; i++) {
                if (whole % 2 == 0 ? mix(seed + 3, piece->number * sectors + i) % 2 == 0 : i >= upto)
                        continue;
                apply_sector(file, piece, piece->offset + i * CUT_SECTOR);
                grow_durable(file, piece->end < piece->offset + (i + 1) * CUT_SECTOR ? piece->end
                                                                                     : piece->offset + (i + 1) * CUT_SECTOR);
        }
}

static void decide(struct node *node, struct piece *piece, enum mode mode, uint64_t seed, bool picked)
{
        enum fate fate = fate_of(node, piece, mode, seed, picked);
        static const char *const kinds[] = CUT_KIND_NAMES;

        printf("%s %u %s ", fate_names[fate], piece->number, kinds[piece->kind]);
        print_path(node->inode);
        if (node->is_folder)
                printf("/%s%s%s\n", piece->name, piece->new_name != NULL ? " " : "",
                       piece->new_name != NULL ? piece->new_name : "");
        else
                printf(" %llu %llu\n", (unsigned long long)piece->offset, (unsigned long long)piece->len);
        if (fate == KEPT)
                apply_whole(node, piece);
        else if (fate == TORN)
                apply_torn(node, piece, seed);
}

static void decide_all(enum mode mode, uint64_t seed)
{
        size_t total = count_pieces(), picked = total > 0 ? mix(seed, 0) % total : 0, at = 0, j;
        uint64_t i;

        for (i = 0; i < node_end; i++)
                for (j = 0; nodes[i] != NULL && j < nodes[i]->piece_count; j++)
                        decide(nodes[i], &nodes[i]->pieces[j], mode, seed, at++ == picked);
}

/* ---- the folders ----------------------------------------------------------------------------------- */

static bool all_zero(const uint8_t *bytes, size_t len)
{
        return bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0;
}

static void write_file(int folder, const char *name, const struct node *file)
{
        int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        uint64_t at, end;

        if (fd < 0 || ftruncate(fd, (off_t)file->durable_size) != 0)
                die(name);
        for (at = 0; at < file->durable_size; at = end) {
                end = at + PAGE < file->durable_size ? at + PAGE : file->durable_size;
                if (all_zero(file->durable + at, end - at))
                        continue;
                while (end < file->durable_size && end - at < (1u << 20))
                        end = end + PAGE < file->durable_size ? end + PAGE : file->durable_size;
                if (pwrite(fd, file->durable + at, end - at, (off_t)at) != (ssize_t)(end - at))
                        die(name);
        }
        close(fd);
}

static void write_folder(int parent, const char *name, const struct node *folder)
{
        int fd;
        size_t i;

        if (mkdirat(parent, name, 0700) != 0 && errno != EEXIST)
                die(name);
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                die(name);
        for (i = 0; i < folder->name_count; i++) {
                const struct node *node = nodes[folder->names[i].inode];

                if (node->is_folder)
                        write_folder(fd, folder->names[i].text, node);
                else
                        write_file(fd, folder->names[i].text, node);
        }
        close(fd);
}

/* ---- commands -------------------------------------------------------------------------------------- */

static int list(struct reader *r)
{
        static const char *const kinds[] = CUT_KIND_NAMES;

        while (next(r)) {
                take(r);
                printf("%u %s %llu ", r->number, kinds[r->entry.kind], (unsigned long long)r->entry.inode);
                print_path(r->entry.inode);
                printf(" %llu %llu\n", (unsigned long long)r->entry.offset, (unsigned long long)r->entry.data_len);
        }
        return 0;
}

static int image(struct reader *r, uint32_t cut, const char *mode_name, uint64_t seed, const char *folder)
{
        enum mode mode = NONE;

        while (mode < ONE && strcmp(mode_name, mode_names[mode]) != 0)
                mode++;
        if (strcmp(mode_name, mode_names[mode]) != 0) {
                fprintf(stderr, "cutimg: no mode '%s'\n", mode_name);
                return 2;
        }
        while (r->number < cut && next(r))
                take(r);
        if (r->number < cut) {
                fprintf(stderr, "cutimg: the log has %u entries only\n", r->number);
                return 1;
        }
        decide_all(mode, seed);
        write_folder(AT_FDCWD, folder, nodes[CUT_ROOT]);
        return 0;
}

int main(int argc, char **argv)
{
        struct reader r;
        int rv = 2;

        if (argc == 3 || argc == 7) {
                reader_open(&r, argv[1]);
                node_new(CUT_ROOT, 0, true, "");
        }
        if (argc == 3 && strcmp(argv[2], "list") == 0)
                rv = list(&r);
        else if (argc == 7 && strcmp(argv[2], "image") == 0)
                rv = image(&r, (uint32_t)strtoul(argv[3], NULL, 10), argv[4], strtoull(argv[5], NULL, 10), argv[6]);
        else
                fprintf(stderr, "usage: cutimg LOG list | cutimg LOG image N MODE SEED FOLDER\n");
        return fflush(stdout) != 0 ? 1 : rv;
}
