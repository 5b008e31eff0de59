/*
 * resident.c - see resident.h. Asked by LMDB for each page that a reader on a loop is about to
 * touch (pages.c).
 *
 * Most windows are wholly mapped, and asking for all 64 pages of one costs no more than for one. A
 * page that was written after its window was asked for counts as missing there, so 'missing' is
 * asked for once more before it is believed.
 */
#include "engine/drive/resident.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Asked for a page of our own: which one does not matter. */
static bool kernel_tells(const void *own)
{
        uintptr_t page = (uintptr_t)own / ENG_PAGE_BYTES * ENG_PAGE_BYTES;
        unsigned char there;

        return mincore((void *)page, ENG_PAGE_BYTES, &there) == 0;
}

int eng_resident_open(struct eng_resident *resident)
{
        resident->windows = calloc(ENG_WINDOWS, sizeof(*resident->windows));
        if (resident->windows == NULL)
                return -ENOMEM;
        resident->blind = !kernel_tells(resident->windows);
        return 0;
}

void eng_resident_close(struct eng_resident *resident)
{
        free(resident->windows);
        resident->windows = NULL;
}

void eng_resident_forget(struct eng_resident *resident)
{
        memset(resident->windows, 0, ENG_WINDOWS * sizeof(*resident->windows));
}

static struct eng_resident_window *window_at(const struct eng_resident *resident, uint64_t page)
{
        return &resident->windows[page / ENG_WINDOW_PAGES % ENG_WINDOWS];
}

static bool is_of(const struct eng_resident_window *window, uint64_t page)
{
        return window->number == page / ENG_WINDOW_PAGES + 1;
}

/* Empty, if it was another's. */
static struct eng_resident_window *window_of(struct eng_resident *resident, uint64_t page)
{
        struct eng_resident_window *window = window_at(resident, page);

        if (!is_of(window, page))
                *window = (struct eng_resident_window){.number = page / ENG_WINDOW_PAGES + 1};
        return window;
}

void eng_resident_mark(struct eng_resident *resident, uint64_t page, uint64_t count)
{
        struct eng_resident_window *window;

        for (; count > 0; page++, count--) {
                window = window_of(resident, page);
                window->read |= 1ull << page % ENG_WINDOW_PAGES;
                window->pages |= 1ull << page % ENG_WINDOW_PAGES;
        }
}

static bool known(const struct eng_resident *resident, uint64_t page, bool strict)
{
        const struct eng_resident_window *window = window_at(resident, page);

        return is_of(window, page) && ((strict ? window->read : window->pages) >> page % ENG_WINDOW_PAGES & 1) != 0;
}

/*
 * Of at most a window's pages: a bit for each that is in memory. What cannot be said is taken for
 * missing.
 */
static uint64_t ask_kernel(const uint8_t *at, unsigned count)
{
        unsigned char each[ENG_WINDOW_PAGES];
        uint64_t pages = 0;
        unsigned i;

        assert(count <= ENG_WINDOW_PAGES);
        if (mincore((void *)at, (size_t)count * ENG_PAGE_BYTES, each) != 0)
                return 0;
        for (i = 0; i < count; i++)
                pages |= (uint64_t)(each[i] & 1) << i;
        return pages;
}

/* The page alone, and what is known of its window is left as it is. */
static bool resident_is_there(const uint8_t *at)
{
        return ask_kernel(at, 1) != 0;
}

/* Where the map ends within the window only the page itself can be asked for. */
static bool resident_look(struct eng_resident *resident, const uint8_t *at, uint64_t page)
{
        uint64_t before = page % ENG_WINDOW_PAGES, pages = ask_kernel(at - before * ENG_PAGE_BYTES, ENG_WINDOW_PAGES);
        struct eng_resident_window *window = window_of(resident, page);

        window->pages = pages | window->read;
        if ((pages >> before & 1) != 0)
                return true;
        if (pages != 0 || !resident_is_there(at))
                return false;
        window->pages |= 1ull << before;
        return true;
}

uint64_t eng_resident_ask(struct eng_resident *resident, const void *at, uint64_t page, uint64_t count, bool strict)
{
        const uint8_t *bytes = at;
        uint64_t i;

        if (resident->blind && !resident->deaf)
                return count;
        for (i = 0; i < count; i++, bytes += ENG_PAGE_BYTES) {
                if (known(resident, page + i, strict))
                        continue;
                if (resident->deaf || !(strict ? resident_is_there(bytes) : resident_look(resident, bytes, page + i)))
                        break;
        }
        return i;
}
