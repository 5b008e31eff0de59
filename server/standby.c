/*
 * standby.c - see standby.h.
 *
 * A thread of libmicrohttpd's own for each address: there is nothing to compute, and connections, time and memory
 * are bounded by it. A body is read and thrown away where it is small, so that a client which sends it before it
 * looks for an answer finds that.
 */
#include "server/standby.h"

#include "server/certificate_pair.h"

#include "loop.h"
#include "s3.h"

#include <errno.h>
#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SB_CONNECTIONS_MAX 512u
#define SB_OF_ONE_MAX      256u
#define SB_TIMEOUT_S       10u
#define SB_POOL_BYTES      (16u << 10)
#define SB_DISCARD_MAX     (1u << 20)
#define SB_ADDRESSES       3u

/* An address. */
struct spot {
        struct srv_standby *standby;
        const struct srv_listener *listener; /* count 0: there is none */
        bool tls, admin;
        struct MHD_Daemon *daemon;
};

struct srv_standby {
        const struct srv_settings *settings;
        struct srv_pem pem;
        struct spot spots[SB_ADDRESSES];
        pthread_mutex_t lock;
        char text[512], leader[280]; /* under lock */
};

/* One request. */
struct visit_state {
        size_t discarded;
};

/* ---- what is said ---------------------------------------------------------------------------- */

static int page_of_s3(const char *url, const char *text, const char *request_id, char **page, size_t *len)
{
        struct s3_xml xml;

        s3_xml_init(&xml, 64u << 10);
        s3_xml_error(&xml, S3_ERR_SERVICE_UNAVAILABLE, text, s3_str_of(url), request_id, (struct s3_str){"", 0});
        return s3_xml_take(&xml, page, len);
}

/* An error as calls of the admin API have it; a line for those who look at health. */
static int page_of_admin(const char *url, const char *text, char **page, size_t *len)
{
        json_t *error = strncmp(url, "/admin/", 7) == 0 ? json_pack("{s:s, s:s}", "error", "Waits", "message", text) : NULL;

        *page = error != NULL ? json_dumps(error, JSON_COMPACT) : malloc(600);
        if (*page != NULL && error == NULL)
                snprintf(*page, 600, "%s\n", text);
        json_decref(error);
        *len = *page != NULL ? strlen(*page) : 0;
        return *page != NULL ? 0 : -ENOMEM;
}

static enum MHD_Result say(const struct spot *spot, struct MHD_Connection *connection, const char *url)
{
        struct srv_standby *standby = spot->standby;
        bool alive = spot->admin && strcmp(url, "/health/live") == 0;
        char text[512], leader[280], request_id[17], *page;
        struct MHD_Response *response;
        uint8_t random[8];
        enum MHD_Result rv;
        size_t len;

        pthread_mutex_lock(&standby->lock);
        memcpy(text, standby->text, sizeof(text));
        memcpy(leader, standby->leader, sizeof(leader));
        pthread_mutex_unlock(&standby->lock);
        lp_random(random, sizeof(random));
        s3_hex_encode(random, sizeof(random), request_id);
        if ((spot->admin ? page_of_admin(url, alive ? "alive" : text, &page, &len) : page_of_s3(url, text, request_id, &page, &len)) != 0)
                return MHD_NO;
        response = MHD_create_response_from_buffer(len, page, MHD_RESPMEM_MUST_FREE);
        if (response == NULL) {
                free(page);
                return MHD_NO;
        }
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, !spot->admin ? "application/xml" : *page == '{' ? "application/json" : "text/plain");
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
        if (!alive)
                MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
        if (*leader != '\0')
                MHD_add_response_header(response, "x-millrace-leader", leader);
        if (!spot->admin)
                MHD_add_response_header(response, "x-amz-request-id", request_id);
        rv = MHD_queue_response(connection, alive ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, response);
        MHD_destroy_response(response);
        return rv;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* It waits for a word before it sends its body, or sends a long one: it is told now. */
static bool is_long(struct MHD_Connection *connection)
{
        const char *expect = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT);
        const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

        return expect != NULL || (length != NULL && strtoull(length, NULL, 10) > SB_DISCARD_MAX);
}

static enum MHD_Result standby_handle(void *arg, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
                                      const char *data, size_t *data_len, void **context)
{
        struct visit_state *visit = *context;

        if (visit == NULL) {
                visit = calloc(1, sizeof(*visit));
                *context = visit;
                if (visit == NULL)
                        return MHD_NO;
                return is_long(connection) ? say(arg, connection, url) : MHD_YES;
        }
        if (*data_len > 0) {
                visit->discarded += *data_len;
                *data_len = 0;
                return visit->discarded <= SB_DISCARD_MAX ? MHD_YES : MHD_NO;
        }
        return say(arg, connection, url);
}

static void standby_ended(void *arg, struct MHD_Connection *connection, void **context, enum MHD_RequestTerminationCode code)
{
        free(*context);
        *context = NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int spot_begin(struct spot *spot)
{
        const struct srv_standby *standby = spot->standby;
        unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ITC | (spot->tls ? MHD_USE_TLS : 0);
        struct MHD_OptionItem with_tls[] = {
                {MHD_OPTION_HTTPS_PRIORITIES, (intptr_t)0, (void *)(uintptr_t)standby->settings->tls_priorities},
                {MHD_OPTION_HTTPS_MEM_CERT, (intptr_t)0, standby->pem.cert},
                {MHD_OPTION_HTTPS_MEM_KEY, (intptr_t)0, standby->pem.key},
                {MHD_OPTION_END, 0, NULL},
        };
        struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};

        if (spot->listener->count == 0 || spot->daemon != NULL)
                return 0;
        spot->daemon = MHD_start_daemon(flags, 0, NULL, NULL, standby_handle, spot, MHD_OPTION_LISTEN_SOCKET, spot->listener->fds[0],
                                        MHD_OPTION_CONNECTION_LIMIT, SB_CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT, SB_OF_ONE_MAX,
                                        MHD_OPTION_CONNECTION_TIMEOUT, SB_TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SB_POOL_BYTES,
                                        MHD_OPTION_NOTIFY_COMPLETED, standby_ended, spot, MHD_OPTION_ARRAY, spot->tls ? with_tls : none, MHD_OPTION_END);
        return spot->daemon != NULL ? 0 : -ENOMEM;
}

int srv_standby_begin(struct srv_standby *standby)
{
        unsigned i;
        int rv = 0;

        for (i = 0; i < SB_ADDRESSES; i++)
                if (spot_begin(&standby->spots[i]) != 0)
                        rv = -ENOMEM;
        return rv;
}

void srv_standby_end(struct srv_standby *standby)
{
        unsigned i;

        for (i = 0; i < SB_ADDRESSES; i++) {
                struct spot *spot = &standby->spots[i];

                if (spot->daemon == NULL)
                        continue;
                MHD_quiesce_daemon(spot->daemon); /* the socket stays open */
                MHD_stop_daemon(spot->daemon);
                spot->daemon = NULL;
        }
}

int srv_standby_new(const struct srv_settings *settings, const struct srv_listener *s3, const struct srv_listener *plain, const struct srv_listener *admin,
                    struct srv_standby **out, struct srv_error *error)
{
        struct srv_standby *standby = calloc(1, sizeof(*standby));
        bool tls = *settings->tls_cert != '\0';
        int rv = 0;

        if (standby == NULL)
                return srv_fail(error, -ENOMEM, "out of memory");
        standby->settings = settings;
        pthread_mutex_init(&standby->lock, NULL);
        standby->spots[0] = (struct spot){.standby = standby, .listener = s3, .tls = tls};
        standby->spots[1] = (struct spot){.standby = standby, .listener = plain};
        standby->spots[2] = (struct spot){.standby = standby, .listener = admin, .admin = true, .tls = tls && settings->admin_tls};
        if (tls)
                rv = srv_tls_read(settings, &standby->pem, error);
        if (rv != 0) {
                srv_standby_free(standby);
                return rv;
        }
        *out = standby;
        return 0;
}

void srv_standby_say(struct srv_standby *standby, const char *text, const char *leader)
{
        pthread_mutex_lock(&standby->lock);
        snprintf(standby->text, sizeof(standby->text), "%s", text);
        snprintf(standby->leader, sizeof(standby->leader), "%s", leader);
        pthread_mutex_unlock(&standby->lock);
}

void srv_standby_reload(struct srv_standby *standby)
{
        bool begun = standby->spots[0].daemon != NULL;
        struct srv_error error;
        struct srv_pem pem;

        if (*standby->settings->tls_cert == '\0')
                return;
        if (srv_tls_read(standby->settings, &pem, &error) != 0) {
                srv_tls_forget(&pem);
                return; /* the leader process, or the next reload, says it */
        }
        srv_standby_end(standby);
        srv_tls_forget(&standby->pem);
        standby->pem = pem;
        if (begun)
                srv_standby_begin(standby);
}

void srv_standby_free(struct srv_standby *standby)
{
        if (standby == NULL)
                return;
        srv_standby_end(standby);
        srv_tls_forget(&standby->pem);
        pthread_mutex_destroy(&standby->lock);
        free(standby);
}
