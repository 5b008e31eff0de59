/*
 * cutimg.c - what a power cut leaves of a cutfs, made into plain folders.
 *
 *   cutimg LOG list                        one line per entry: number, kind, inode, path, offset, bytes
 *   cutimg LOG image N MODE SEED FOLDER    FOLDER (made anew) as it is after a cut at N; prints what became of each volatile piece
 *
 * A piece is one write, one change of size, or one change of a name that nothing has made durable
 * yet. MODE says what becomes of them:
 *   none    all are lost             all     all are there (as after SIGKILL)
 *   random  each is there, lost, or torn by sectors; how likely is drawn for each folder of the root, so that drives differ
 *   but     all but one are there    one     all but one are lost
 * SEED decides, together with the number of the piece, so the same arguments give the same image.
 *
 * A write is kept by whole sectors as the file had them after it: a disk never gets a part of a
 * sector. A later piece may be there where an earlier one is not. Names and data go separate ways.
 */
#include "tests/power/cutmodel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096u

static void print_path(uint64_t inode)
{
        if (inode == CUT_ROOT)
                return;
        if (cut_nodes[inode]->folder != CUT_ROOT) {
                print_path(cut_nodes[inode]->folder);
                printf("/");
        }
        printf("%s", cut_nodes[inode]->label);
}

/* ---- what becomes of the pieces -------------------------------------------------------------- */

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

        for (i = 0; i < cut_node_end; i++)
                count += cut_nodes[i] != NULL ? cut_nodes[i]->piece_count : 0;
        return count;
}

/* of 100 */
static unsigned likelihood(const struct cut_node *node, uint64_t seed)
{
        static const unsigned levels[] = {0, 10, 50, 50, 90, 100};

        return levels[mix(seed, ~node->top) % (sizeof(levels) / sizeof(levels[0]))];
}

static enum fate fate_of(const struct cut_node *node, const struct cut_piece *piece, enum mode mode, uint64_t seed,
                         bool picked)
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
static void apply_torn(struct cut_node *file, const struct cut_piece *piece, uint64_t seed)
{
        uint64_t sectors = piece->len / CUT_SECTOR, i, whole = mix(seed + 2, piece->number);
        uint64_t upto = whole % 2 == 0 ? sectors : whole / 2 % sectors;

        for (i = 0; i < sectors; i++) {
                if (whole % 2 == 0 ? mix(seed + 3, piece->number * sectors + i) % 2 == 0 : i >= upto)
                        continue;
                cut_apply_sector(file, piece, piece->offset + i * CUT_SECTOR);
                cut_grow(file, piece->end < piece->offset + (i + 1) * CUT_SECTOR
                                       ? piece->end
                                       : piece->offset + (i + 1) * CUT_SECTOR);
        }
}

static void decide(struct cut_node *node, struct cut_piece *piece, enum mode mode, uint64_t seed, bool picked)
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
                cut_apply(node, piece);
        else if (fate == TORN)
                apply_torn(node, piece, seed);
}

static void decide_all(enum mode mode, uint64_t seed)
{
        size_t total = count_pieces(), picked = total > 0 ? mix(seed, 0) % total : 0, at = 0, j;
        uint64_t i;

        for (i = 0; i < cut_node_end; i++)
                for (j = 0; cut_nodes[i] != NULL && j < cut_nodes[i]->piece_count; j++)
                        decide(cut_nodes[i], &cut_nodes[i]->pieces[j], mode, seed, at++ == picked);
}

/* ---- the folders ----------------------------------------------------------------------------- */

static bool all_zero(const uint8_t *bytes, size_t len)
{
        return bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0;
}

static void write_file(int folder, const char *name, const struct cut_node *file)
{
        int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        uint64_t at, end;

        if (fd < 0 || ftruncate(fd, (off_t)file->durable_size) != 0)
                cut_die(name);
        for (at = 0; at < file->durable_size; at = end) {
                end = at + PAGE < file->durable_size ? at + PAGE : file->durable_size;
                if (all_zero(file->durable + at, end - at))
                        continue;
                while (end < file->durable_size && end - at < (1u << 20))
                        end = end + PAGE < file->durable_size ? end + PAGE : file->durable_size;
                if (pwrite(fd, file->durable + at, end - at, (off_t)at) != (ssize_t)(end - at))
                        cut_die(name);
        }
        close(fd);
}

static void write_folder(int parent, const char *name, const struct cut_node *folder)
{
        int fd;
        size_t i;

        if (mkdirat(parent, name, 0700) != 0 && errno != EEXIST)
                cut_die(name);
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                cut_die(name);
        for (i = 0; i < folder->name_count; i++) {
                const struct cut_node *node = cut_nodes[folder->names[i].inode];

                if (node->is_folder)
                        write_folder(fd, folder->names[i].text, node);
                else
                        write_file(fd, folder->names[i].text, node);
        }
        close(fd);
}

/* ---- commands -------------------------------------------------------------------------------- */

static int list(struct cut_reader *r)
{
        static const char *const kinds[] = CUT_KIND_NAMES;

        while (cut_next(r)) {
                cut_take(r);
                printf("%u %s %llu ", r->number, kinds[r->entry.kind], (unsigned long long)r->entry.inode);
                print_path(r->entry.inode);
                printf(" %llu %llu\n", (unsigned long long)r->entry.offset, (unsigned long long)r->entry.data_len);
        }
        return 0;
}

static int image(struct cut_reader *r, uint32_t cut, const char *mode_name, uint64_t seed, const char *folder)
{
        enum mode mode = NONE;

        while (mode < ONE && strcmp(mode_name, mode_names[mode]) != 0)
                mode++;
        if (strcmp(mode_name, mode_names[mode]) != 0) {
                fprintf(stderr, "cutimg: no mode '%s'\n", mode_name);
                return 2;
        }
        while (r->number < cut && cut_next(r))
                cut_take(r);
        if (r->number < cut) {
                fprintf(stderr, "cutimg: the log has %u entries only\n", r->number);
                return 1;
        }
        decide_all(mode, seed);
        write_folder(AT_FDCWD, folder, cut_nodes[CUT_ROOT]);
        return 0;
}

int main(int argc, char **argv)
{
        struct cut_reader r;
        int rv = 2;

        if (argc == 3 || argc == 7) {
                cut_reader_open(&r, argv[1]);
                cut_node_new(CUT_ROOT, 0, true, "");
        }
        if (argc == 3 && strcmp(argv[2], "list") == 0)
                rv = list(&r);
        else if (argc == 7 && strcmp(argv[2], "image") == 0)
                rv = image(&r, (uint32_t)strtoul(argv[3], NULL, 10), argv[4], strtoull(argv[5], NULL, 10), argv[6]);
        else
                fprintf(stderr, "usage: cutimg LOG list | cutimg LOG image N MODE SEED FOLDER\n");
        return fflush(stdout) != 0 ? 1 : rv;
}
