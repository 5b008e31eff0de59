/*
 * media.c - guesses the Content-Type that `put` stores: common endings only, so that browsers show
 * what is shown in them. Any thread.
 */
#include "media.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const struct {
        const char *ending, *type;
} types[] = {
        {"txt", "text/plain"},
        {"md", "text/markdown"},
        {"html", "text/html"},
        {"htm", "text/html"},
        {"css", "text/css"},
        {"csv", "text/csv"},
        {"js", "text/javascript"},
        {"json", "application/json"},
        {"jsonl", "application/jsonl"},
        {"xml", "application/xml"},
        {"pdf", "application/pdf"},
        {"zip", "application/zip"},
        {"gz", "application/gzip"},
        {"zst", "application/zstd"},
        {"tar", "application/x-tar"},
        {"parquet", "application/vnd.apache.parquet"},
        {"jpg", "image/jpeg"},
        {"jpeg", "image/jpeg"},
        {"png", "image/png"},
        {"gif", "image/gif"},
        {"webp", "image/webp"},
        {"svg", "image/svg+xml"},
        {"mp3", "audio/mpeg"},
        {"flac", "audio/flac"},
        {"wav", "audio/wav"},
        {"mp4", "video/mp4"},
        {"webm", "video/webm"},
};

const char *cli_media_type(const char *name)
{
        const char *slash = strrchr(name, '/');
        const char *dot = strrchr(slash != NULL ? slash : name, '.');

        if (dot == NULL)
                return NULL;
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
                if (strcasecmp(types[i].ending, dot + 1) == 0)
                        return types[i].type;
        return NULL;
}
