/*
 * rdma_peer.c - the client's end of one RDMA session, for tests whose HTTP is spoken by another
 * program: commands on standard input, one line each, one line of answer each.
 *
 *   rdma_peer DRIVER                 a transport's shared object, or - for verbs
 *
 *   link ADDRESS PORT RIGHTS         0: all that the device has           ok MASK
 *   memory LEN                       filled with 0xee                     ok
 *   connect SIGNING_KEY CLIENT_NONCE SERVER_NONCE SESSION BOOT_ID RIGHTS ADDRESS PORT ENDPOINT REQUESTS MESSAGES RECEIVES     ok ACCESS_KEY SECRET
 *   grip OFFSET LEN READ REPLIES     a window of the memory               ok INDEX PLACE
 *   wait INDEX MS                    for its notice                       ok, or late
 *   close INDEX NO_NOTICE            ends the right                       ok
 *   save OFFSET LEN FILE             of the memory                        ok
 *   load OFFSET FILE                 into it                              ok LEN
 *   get INDEX ORDERED REPLIES FILE   a batch; FILE: lines BUCKET KEY FIRST LENGTH PLACE ROOM                        ok N, then N lines INDEX STATUS CODE CRC BYTES SIZE ETAG
 *   send INDEX BATCH FIRST ORDERED REPLIES DEADLINE FILE     one message of a batch, and does not wait; lines as above and SUFFIX IFMATCH VERSION, - for none     ok SENT
 *   results                          since they were last asked for, in the order in which they came     ok N MESSAGES, then N lines NUMBER and as above
 *   poll MS                          takes what comes in that time        ok, or late
 *   bench MESSAGES MS FILE           messages of up to 256 entries, lines as of send, of which so many are outstanding, over all memory     ok ENTRIES FAILED
 *   fence                                                                 ok
 *
 * What fails answers "error ERRNO".
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rdma_client.h"

#define GRIPS  4096u
#define PLENTY 20000u /* milliseconds */

static const struct rdx_transport *transport;
static struct rdx_client_domain *link_;
static struct rdx_client *client;
static struct rdx_memory *memory;
static uint8_t *bytes;
static size_t bytes_len;
static struct rdx_window_binding bindings[GRIPS];
static unsigned binding_count;
static bool closed[GRIPS];

/* Of the batch under way. */
static struct {
        unsigned got, messages;
        char line[RDX_BATCH_ENTRIES][256];
} batch;

/* While it is measured, results are counted only. */
static struct {
        bool on;
        uint64_t entries, failed;
} tally;

static int answer(int rv)
{
        if (rv == 0)
                puts("ok");
        else
                printf("error %d\n", -rv);
        return rv;
}

static void noticed(void *arg, uint64_t number)
{
}

static void take_result(void *arg, const struct rdx_client_result *result)
{
        struct rdx_reader reader = result->reader;
        struct rdx_result one;

        if (tally.on) {
                for (; rdx_reader_result(&reader, &one) == 1; tally.entries++)
                        tally.failed += one.code != 0;
                return;
        }
        batch.messages++;
        while (rdx_reader_result(&reader, &one) == 1 && batch.got < RDX_BATCH_ENTRIES)
                snprintf(batch.line[batch.got++], sizeof(batch.line[0]),
                         "%" PRIu64 " %u %u %u %08x %" PRIu64 " %" PRIu64 " %.*s", result->number, one.index,
                         one.status, one.code, one.crc32c, one.bytes, one.size, (int)one.etag.len,
                         one.etag.len > 0 ? one.etag.data : "");
}

static void do_link(char *line)
{
        char address[64], why[300] = "";
        unsigned port, rights;
        int rv;

        if (sscanf(line, "%63s %u %u", address, &port, &rights) != 3) {
                answer(-EINVAL);
                return;
        }
        rv = rdx_client_domain_open(transport, address, (uint16_t)port, rights, PLENTY, &link_, why, sizeof(why));
        if (rv != 0)
                answer(rv);
        else
                printf("ok %u\n", rdx_client_domain_rights(link_));
}

static void do_memory(char *line)
{
        bytes_len = strtoull(line, NULL, 10);
        bytes = aligned_alloc(4096, (bytes_len + 4095) & ~(size_t)4095);
        if (bytes == NULL) {
                answer(-ENOMEM);
                return;
        }
        memset(bytes, 0xee, bytes_len);
        answer(rdx_client_domain_memory(link_, bytes, bytes_len, -1, 0, &memory));
}

static void do_connect(char *line)
{
        static const struct rdx_client_events events = {.noticed = noticed, .result = take_result};
        char key[65], client_nonce[33], server_nonce[33], session[33], boot[17], address[64];
        unsigned rights, port, endpoint;
        struct rdx_grant grant = {0};
        int rv;

        if (sscanf(line, "%64s %32s %32s %32s %16s %u %63s %u %u %u %u %u", key, client_nonce, server_nonce, session,
                   boot, &rights, address, &port, &endpoint, &grant.requests, &grant.messages, &grant.receives) != 12 ||
            !rdx_unhex(key, strlen(key), grant.signing_key, RDX_KEY_LEN) ||
            !rdx_unhex(client_nonce, strlen(client_nonce), grant.client_nonce, RDX_NONCE_LEN) ||
            !rdx_unhex(server_nonce, strlen(server_nonce), grant.server_nonce, RDX_NONCE_LEN) ||
            !rdx_unhex(session, strlen(session), grant.session, RDX_ID_LEN) ||
            !rdx_unhex(boot, strlen(boot), grant.boot, RDX_BOOT_LEN)) {
                answer(-EINVAL);
                return;
        }
        grant.rights = (enum rdx_rights)rights;
        grant.address = address;
        grant.port = (uint16_t)port;
        grant.endpoint = (uint16_t)endpoint;
        rv = rdx_client_connect(link_, &grant, &events, PLENTY, &client);
        if (rv != 0)
                answer(rv);
        else
                printf("ok %s %s\n", rdx_client_access_key(client), rdx_client_secret(client));
}

static void do_binding(char *line)
{
        char place[RDX_PLACE_TEXT + 1];
        uint64_t offset, len;
        unsigned read, replies;
        int rv;

        if (sscanf(line, "%" SCNu64 " %" SCNu64 " %u %u", &offset, &len, &read, &replies) != 4 || binding_count == GRIPS) {
                answer(-EINVAL);
                return;
        }
        rv = rdx_window_binding_open(client, memory, offset, len, read != 0, replies, &bindings[binding_count]);
        if (rv != 0) {
                answer(rv);
                return;
        }
        rdx_window_span_print(&bindings[binding_count].place, place);
        printf("ok %u %s %" PRIu64 "\n", binding_count, place, bindings[binding_count].number);
        binding_count++;
}

static void do_wait(char *line)
{
        unsigned index, ms;
        int rv = 0;

        if (sscanf(line, "%u %u", &index, &ms) != 2 || index >= binding_count) {
                answer(-EINVAL);
                return;
        }
        while (rv == 0 && !rdx_window_binding_noticed(&bindings[index]))
                rv = rdx_client_wait(client, ms);
        if (rv == -ETIMEDOUT)
                puts("late");
        else
                answer(rv);
}

static void do_close(char *line)
{
        unsigned index, none;

        if (sscanf(line, "%u %u", &index, &none) != 2 || index >= binding_count || closed[index]) {
                answer(-EINVAL);
                return;
        }
        closed[index] = true;
        answer(rdx_window_binding_close(&bindings[index], none != 0));
}

static void do_save(char *line)
{
        uint64_t offset, len;
        char path[1024];
        FILE *file;
        bool good;

        if (sscanf(line, "%" SCNu64 " %" SCNu64 " %1023s", &offset, &len, path) != 3 || offset + len > bytes_len ||
            (file = fopen(path, "wb")) == NULL) {
                answer(-EINVAL);
                return;
        }
        good = fwrite(bytes + offset, 1, len, file) == len;
        good = fclose(file) == 0 && good;
        answer(good ? 0 : -EIO);
}

static void do_load(char *line)
{
        uint64_t offset;
        char path[1024];
        FILE *file;

        if (sscanf(line, "%" SCNu64 " %1023s", &offset, path) != 2 || offset > bytes_len ||
            (file = fopen(path, "rb")) == NULL) {
                answer(-EINVAL);
                return;
        }
        printf("ok %zu\n", fread(bytes + offset, 1, bytes_len - offset, file));
        fclose(file);
}

/* One message of all entries; answers when the LAST result is here. */
static void do_get(char *line)
{
        static char bucket[RDX_BATCH_ENTRIES][64], key[RDX_BATCH_ENTRIES][512];
        static struct rdx_entry entries[RDX_BATCH_ENTRIES];
        struct rdx_client_batch how = {.batch = 1};
        unsigned index, ordered, replies, count = 0, sent, i;
        char path[1024];
        FILE *file;
        int rv;

        if (sscanf(line, "%u %u %u %1023s", &index, &ordered, &replies, path) != 4 || index >= binding_count ||
            (file = fopen(path, "r")) == NULL) {
                answer(-EINVAL);
                return;
        }
        memset(entries, 0, sizeof(entries));
        while (count < RDX_BATCH_ENTRIES &&
               fscanf(file, "%63s %511s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, bucket[count], key[count],
                      &entries[count].range_first, &entries[count].range_length, &entries[count].offset,
                      &entries[count].length) == 6) {
                entries[count].bucket = (struct rdx_bytes){bucket[count], strlen(bucket[count])};
                entries[count].key = (struct rdx_bytes){key[count], strlen(key[count])};
                count++;
        }
        fclose(file);
        batch.got = batch.messages = 0;
        how.ordered = ordered != 0;
        how.replies = (uint16_t)replies;
        rv = rdx_client_batch(client, &bindings[index], &how, entries, count, &sent);
        while (rv == 0 && !rdx_window_binding_noticed(&bindings[index]))
                rv = rdx_client_wait(client, PLENTY);
        if (rv != 0 || sent != count) {
                answer(rv != 0 ? rv : -ENOSPC);
                return;
        }
        printf("ok %u\n", batch.got);
        for (i = 0; i < batch.got; i++)
                puts(strchr(batch.line[i], ' ') + 1);
}

static struct rdx_bytes optional(const char *text)
{
        return strcmp(text, "-") == 0 ? (struct rdx_bytes){0} : (struct rdx_bytes){text, strlen(text)};
}

/* The file's next entry, of which text keeps the strings. */
static bool read_entry(FILE *file, char text[4][1100], struct rdx_entry *out)
{
        unsigned suffix;

        *out = (struct rdx_entry){0};
        if (fscanf(file, "%1099s %1099s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %u %1099s %1099s", text[0],
                   text[1], &out->range_first, &out->range_length, &out->offset, &out->length, &suffix, text[2],
                   text[3]) != 9)
                return false;
        out->suffix = suffix != 0;
        out->bucket = optional(text[0]);
        out->key = optional(text[1]);
        out->if_match = optional(text[2]);
        out->version_id = optional(text[3]);
        return true;
}

static void do_send(char *line)
{
        static char text[RDX_MESSAGE_ENTRIES][4][1100];
        static struct rdx_entry entries[RDX_MESSAGE_ENTRIES];
        struct rdx_client_batch how = {0};
        unsigned index, first, ordered, replies, count = 0, sent = 0;
        char path[1024];
        FILE *file;
        int rv;

        if (sscanf(line, "%u %u %u %u %u %u %1023s", &index, &how.batch, &first, &ordered, &replies, &how.deadline_ms,
                   path) != 7 ||
            index >= binding_count || (file = fopen(path, "r")) == NULL) {
                answer(-EINVAL);
                return;
        }
        while (count < RDX_MESSAGE_ENTRIES && read_entry(file, text[count], &entries[count]))
                count++;
        fclose(file);
        how.first = (uint16_t)first;
        how.ordered = ordered != 0;
        how.replies = (uint16_t)replies;
        rv = rdx_client_batch(client, &bindings[index], &how, entries, count, &sent);
        if (rv != 0)
                answer(rv);
        else
                printf("ok %u\n", sent);
}

static uint64_t now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int bench_message(struct rdx_window_binding *binding, const struct rdx_entry *entries, unsigned count)
{
        struct rdx_client_batch how = {.replies = (uint16_t)((count + RDX_RESULT_SHARE - 1) / RDX_RESULT_SHARE)};
        unsigned sent;
        int rv = rdx_window_binding_open(client, memory, 0, bytes_len, false, how.replies, binding);

        return rv == 0 ? rdx_client_batch(client, binding, &how, entries, count, &sent) : rv;
}

/* How fast it is, with as little of a client as can be. */
static void do_bench(char *line)
{
        static char text[RDX_MESSAGE_ENTRIES][4][1100];
        static struct rdx_entry entries[RDX_MESSAGE_ENTRIES];
        struct rdx_window_binding binding[64] = {0};
        unsigned messages, ms, count = 0, i, out = 0;
        uint64_t end;
        char path[1024];
        FILE *file;
        int rv = 0;

        if (sscanf(line, "%u %u %1023s", &messages, &ms, path) != 3 || messages > 64 ||
            (file = fopen(path, "r")) == NULL) {
                answer(-EINVAL);
                return;
        }
        while (count < RDX_MESSAGE_ENTRIES && read_entry(file, text[count], &entries[count]))
                count++;
        fclose(file);
        memset(&tally, 0, sizeof(tally));
        tally.on = true;
        end = now_ms() + ms;
        for (i = 0; i < messages && rv == 0; i++, out++)
                rv = bench_message(&binding[i], entries, count);
        while (rv == 0 && out > 0) {
                rv = rdx_client_wait(client, PLENTY);
                for (i = 0; i < messages && rv == 0; i++) {
                        if (binding[i].client == NULL || !rdx_window_binding_noticed(&binding[i]))
                                continue;
                        rv = rdx_window_binding_close(&binding[i], false);
                        memset(&binding[i], 0, sizeof(binding[i]));
                        if (rv == 0 && now_ms() < end)
                                rv = bench_message(&binding[i], entries, count);
                        else
                                out--;
                }
        }
        tally.on = false;
        if (rv != 0)
                answer(rv);
        else
                printf("ok %" PRIu64 " %" PRIu64 "\n", tally.entries, tally.failed);
}

static void do_results(char *line)
{
        unsigned i;

        printf("ok %u %u\n", batch.got, batch.messages);
        for (i = 0; i < batch.got; i++)
                puts(batch.line[i]);
        batch.got = batch.messages = 0;
}

static void do_poll(char *line)
{
        int rv = rdx_client_wait(client, (unsigned)strtoul(line, NULL, 10));

        if (rv == -ETIMEDOUT)
                puts("late");
        else
                answer(rv);
}

static void do_fence(char *line)
{
        rdx_client_fence(client);
        answer(0);
}

static const struct {
        const char *name;
        void (*run)(char *line);
} commands[] = {
        {"link", do_link},   {"memory", do_memory},   {"connect", do_connect}, {"grip", do_binding},   {"wait", do_wait},
        {"close", do_close}, {"save", do_save},       {"load", do_load},       {"get", do_get},     {"fence", do_fence},
        {"send", do_send},   {"results", do_results}, {"poll", do_poll},       {"bench", do_bench},
};

static void run(char *line)
{
        char *rest = line + strcspn(line, " \n");
        unsigned i;

        if (*rest != '\0')
                *rest++ = '\0';
        for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
                if (strcmp(line, commands[i].name) == 0) {
                        commands[i].run(rest);
                        return;
                }
        answer(-ENOSYS);
}

int main(int argc, char **argv)
{
        char line[4096];
        unsigned i;
        int rv = 0;

        if (argc != 2)
                return 2;
        transport = rdx_verbs();
        if (strcmp(argv[1], "-") != 0)
                rv = rdx_transport_load(argv[1], &transport);
        if (rv != 0) {
                answer(rv);
                return 1;
        }
        while (fgets(line, sizeof(line), stdin) != NULL) {
                run(line);
                fflush(stdout);
        }
        if (client != NULL) {
                rdx_client_fence(client);
                for (i = 0; i < binding_count; i++)
                        if (!closed[i])
                                rdx_window_binding_close(&bindings[i], true);
                rdx_client_close(client);
        }
        if (memory != NULL)
                rdx_memory_close(memory);
        rdx_client_domain_close(link_);
        free(bytes);
        return 0;
}
