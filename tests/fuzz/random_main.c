// A fuzz target without libFuzzer: each seed as it is, then seeds that were changed at random, in whatever build (ASan's, in `make check`)
// links it. libFuzzer finds deeper paths, by their coverage; this needs no compiler and no objects of its own.
//
//   fuzz_NAME RUNS SEED [FILE|FOLDER ...]     prints 'N runs' at the end; a finding ends the process as the sanitizers do, the input that is
//                                             being run lies in the file that MILLRACE_FUZZ_INPUT names
// The same RUNS, SEED and files give the same inputs.
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEEDS_MAX = 512, INPUT_MAX = 65536, CHANGES_MAX = 8 };

struct input {
        uint8_t *data;
        size_t size;
};

static struct input seeds[SEEDS_MAX];
static size_t n_seeds;
static uint64_t state;
static struct shown { // what is being run, in a file that outlives the process
        uint64_t size;
        uint8_t data[INPUT_MAX];
} *shown;

static uint64_t next_random(void)
{
        state += 0x9e3779b97f4a7c15ULL; // splitmix64
        uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
}

static size_t below(size_t n)
{
        return n == 0 ? 0 : (size_t)(next_random() % n);
}

static int add_file(const char *path)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
                return -1;
        }
        uint8_t *data = malloc(INPUT_MAX);
        ssize_t n = data != NULL ? read(fd, data, INPUT_MAX) : -1;
        close(fd);
        if (n < 0 || n_seeds == SEEDS_MAX) {
                free(data);
                return -1;
        }
        seeds[n_seeds++] = (struct input){data, (size_t)n};
        return 0;
}

static int add(const char *path)
{
        struct stat st;
        if (stat(path, &st) != 0) {
                return -1;
        }
        if (!S_ISDIR(st.st_mode)) {
                return add_file(path);
        }
        struct dirent **entries;
        int n = scandir(path, &entries, NULL, alphasort), rc = n < 0 ? -1 : 0;
        for (int i = 0; i < n; i++) {
                char below_it[4096];
                snprintf(below_it, sizeof(below_it), "%s/%s", path, entries[i]->d_name);
                if (rc == 0 && stat(below_it, &st) == 0 && S_ISREG(st.st_mode)) {
                        rc = add_file(below_it);
                }
                free(entries[i]);
        }
        if (n >= 0) {
                free(entries);
        }
        return rc;
}

// Takes n bytes out at `at`, and puts m bytes of `from` there.
static size_t replace_part(uint8_t *data, size_t size, size_t at, size_t n, const uint8_t *from, size_t m)
{
        if (m > INPUT_MAX - (size - n)) {
                m = INPUT_MAX - (size - n);
        }
        memmove(data + at + m, data + at + n, size - at - n);
        if (m > 0) {
                memcpy(data + at, from, m);
        }
        return size - n + m;
}

static size_t change(uint8_t *data, size_t size)
{
        static const uint8_t odd[][4] = {{0}, {0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 0x80}, {0xff, 0xff, 0xff, 0x7f}, {'%', '0', '0'}, {'*', '?', '$', '{'}};
        const struct input *other = &seeds[below(n_seeds)];
        size_t at = below(size + 1), left = size - at, n = below(left < 32 ? left + 1 : 33);
        switch (below(7)) {
        case 0:
                if (left > 0) {
                        data[at] ^= (uint8_t)(1U << below(8));
                }
                return size;
        case 1:
                if (left > 0) {
                        data[at] = (uint8_t)next_random();
                }
                return size;
        case 2:
                return replace_part(data, size, at, n, NULL, 0);
        case 3: { // a piece of another seed
                size_t from = below(other->size + 1), m = below(other->size - from + 1);
                return replace_part(data, size, at, n, other->data + from, m);
        }
        case 4: { // a piece of its own once more
                uint8_t piece[64];
                size_t m = left < sizeof(piece) ? left : sizeof(piece);
                memcpy(piece, data + at, m);
                return replace_part(data, size, below(size + 1), 0, piece, m);
        }
        case 5:
                return replace_part(data, size, at, n < 4 ? n : 4, odd[below(sizeof(odd) / sizeof(*odd))], 1 + below(4));
        default:
                return at; // cut off
        }
}

static void run_one(const uint8_t *data, size_t size)
{
        uint8_t *exact = malloc(size > 0 ? size : 1); // ends where the input ends, so that reading on is noticed
        if (exact == NULL) {
                exit(2);
        }
        memcpy(exact, data, size);
        if (shown != NULL) {
                shown->size = size;
                memcpy(shown->data, data, size);
        }
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
}

static int show_in(const char *path)
{
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || ftruncate(fd, sizeof(*shown)) != 0) {
                return -1;
        }
        shown = mmap(NULL, sizeof(*shown), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        return shown == MAP_FAILED ? -1 : 0;
}

int main(int argc, char **argv)
{
        static uint8_t data[INPUT_MAX];
        const char *path = getenv("MILLRACE_FUZZ_INPUT");
        if (argc < 3 || (path != NULL && show_in(path) != 0)) {
                fprintf(stderr, "usage: %s RUNS SEED [FILE|FOLDER ...]\n", argv[0]);
                return 2;
        }
        unsigned long long runs = strtoull(argv[1], NULL, 10);
        state = strtoull(argv[2], NULL, 10);
        for (int i = 3; i < argc; i++) {
                if (add(argv[i]) != 0) {
                        fprintf(stderr, "%s: can't be read, or there are more than %d seeds\n", argv[i], SEEDS_MAX);
                        return 2;
                }
        }
        if (n_seeds == 0) {
                seeds[n_seeds++] = (struct input){calloc(1, 1), 0};
        }
        for (size_t i = 0; i < n_seeds; i++) {
                run_one(seeds[i].data, seeds[i].size);
        }
        for (unsigned long long i = 0; i < runs; i++) {
                const struct input *seed = &seeds[below(n_seeds)];
                size_t size = seed->size;
                memcpy(data, seed->data, size);
                for (size_t n = 1 + below(CHANGES_MAX); n > 0; n--) {
                        size = change(data, size);
                }
                run_one(data, size);
        }
        printf("%llu runs\n", n_seeds + runs);
        return 0;
}
