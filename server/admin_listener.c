/*
 * admin_listener.c - the admin listener's HTTP: from libmicrohttpd to srv_admin_answer() and back.
 *
 * libmicrohttpd runs a thread of its own for it (not one of the loops, so that health and metrics
 * are answered while loops are busy, and a slow scrape costs nobody anything). Connections, time,
 * headers and bodies are bounded (I9). Strangers that trickle bytes into many connections keep
 * nobody out: a call is answered as soon as it is there, so the oldest connection makes room for
 * the next. An answer ends its connection: whatever comes behind a request is never taken for
 * another. A head that another HTTP implementation may read as other requests (smuggling) is
 * refused (gateway_head.h). Uses poll, not epoll: the library's internal epoll loop stalls at some
 * numbers of ready connections.
 */
#include "server/admin_private.h"

#include "gateway.h"
#include "gateway_head.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CONNECTIONS_MAX 128u
#define CONNECTIONS_KEPT       64u /* beyond these the oldest goes; at the bounds newer ones would be turned away */
#define CONNECTIONS_OF_ONE_MAX 96u /* from one address: leaves room for the others */
#define TIMEOUT_S       15u
#define POOL_BYTES      (32u << 10)
#define DISCARD_MAX     (1u << 20) /* of a body that is too large, before the connection is closed */

/* ---- requests -------------------------------------------------------------------------------- */

/*
 * The raw target is given here only: the handler gets it decoded, and a signature covers it as it
 * was sent.
 */
static void *begin_request(void *arg, const char *target, struct MHD_Connection *connection)
{
        struct admin_request *request = calloc(1, sizeof(*request));

        if (request == NULL)
                return NULL;
        request->admin = arg;
        request->target_at = target;
        request->target = strdup(target);
        return request;
}

static void end_call(void *arg, struct MHD_Connection *connection, void **context, enum MHD_RequestTerminationCode code)
{
        struct admin_request *request = *context;

        if (request == NULL)
                return;
        free(request->target);
        free(request->body);
        free(request);
        *context = NULL;
}

static enum MHD_Result send_admin_answer(const struct admin_request *request, struct MHD_Connection *connection,
                                         struct admin_answer answer)
{
        struct MHD_Response *response;
        enum MHD_Result rv;

        response = MHD_create_response_from_buffer(answer.len, answer.body, MHD_RESPMEM_MUST_FREE);
        if (response == NULL) {
                free(answer.body);
                return MHD_NO;
        }
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.type);
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
        MHD_add_response_header(response, ADMIN_START, request->admin->start);
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
        if (answer.allow != NULL)
                MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer.allow);
        rv = MHD_queue_response(connection, answer.status, response);
        MHD_destroy_response(response);
        return rv;
}

/*
 * MHD_NO closes the connection: libmicrohttpd can answer only after the body, and this one does not
 * end.
 */
static enum MHD_Result take_body(struct admin_request *request, const char *data, size_t len)
{
        size_t taken;

        if (request->body == NULL)
                request->body = malloc(ADMIN_BODY_MAX);
        if (request->body == NULL)
                return MHD_NO;
        taken = len < ADMIN_BODY_MAX - request->body_len ? len : ADMIN_BODY_MAX - request->body_len;
        memcpy(request->body + request->body_len, data, taken);
        request->body_len += taken;
        request->discarded += len - taken;
        return request->discarded <= DISCARD_MAX ? MHD_YES : MHD_NO;
}

static struct admin_answer too_large(void)
{
        return srv_admin_error(413, "EntityTooLarge", "the body of this request is too large");
}

static enum MHD_Result refuse_head(const struct admin_request *request, struct MHD_Connection *connection,
                                   enum s3_error error, const char *message)
{
        const struct s3_error_info *info = s3_error_info(error);

        return send_admin_answer(request, connection,
                                 srv_admin_error(info->status, info->code, message != NULL ? message : info->message));
}

/*
 * Before any of it has come. A body of moderate length, which the client sends without asking, is read to its end first: else
 * the kernel resets the connection, and the answer is lost with it.
 */
static bool refuses_body(const struct gw_framing *framing)
{
        return !framing->chunked && framing->content_length > ADMIN_BODY_MAX &&
               (framing->expects_continue || framing->content_length > ADMIN_BODY_MAX + DISCARD_MAX);
}

/* The head is in. Answered: it, or the body that it announces, is refused. */
static enum MHD_Result take_call_head(struct admin_request *request, struct MHD_Connection *connection,
                                      const char *method, const char *version)
{
        struct gw_raw_head head = {.connection = connection,
                                   .target = request->target_at,
                                   .target_len = strlen(request->target),
                                   .method = method,
                                   .version = version,
                                   .headers = request->headers};
        struct s3_authority authority;
        struct gw_framing framing;
        const char *message = NULL;
        enum s3_error error;

        if (!gw_head_fields(connection, request->headers, ADMIN_HEADERS_MAX, &request->header_count))
                return refuse_head(request, connection, S3_ERR_REQUEST_HEADERS_TOO_LARGE, NULL);
        head.header_count = request->header_count;
        error = gw_head_check(&head, &framing, &message);
        if (error == S3_OK)
                error = s3_target_split(s3_str_of(request->target), &request->parts);
        if (error == S3_OK)
                error = s3_authority_of_request(&request->parts, request->headers, request->header_count,
                                                framing.http10, &authority, &message);
        if (error != S3_OK)
                return refuse_head(request, connection, error, message);
        if (refuses_body(&framing))
                return send_admin_answer(request, connection, too_large());
        return MHD_YES;
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *data_len, void **context)
{
        struct admin_request *request = *context;
        enum MHD_Result rv;

        if (request == NULL || request->target == NULL)
                return MHD_NO;
        if (!request->started) {
                request->started = true;
                return take_call_head(request, connection, method, version);
        }
        if (*data_len > 0) {
                rv = take_body(request, data, *data_len);
                *data_len = 0;
                return rv;
        }
        if (request->discarded > 0)
                return send_admin_answer(request, connection, too_large());
        request->method = method;
        request->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        return send_admin_answer(request, connection, srv_admin_answer(request));
}

/* The library sees its end, and closes it. */
static void cut_oldest(struct srv_admin *admin)
{
        struct admin_conn *oldest = TAILQ_FIRST(&admin->conns);

        TAILQ_REMOVE(&admin->conns, oldest, entry);
        admin->conn_count--;
        oldest->cut = true;
        shutdown(oldest->fd, SHUT_RDWR);
}

static struct admin_conn *add_connection(struct srv_admin *admin, struct MHD_Connection *connection)
{
        struct admin_conn *conn = calloc(1, sizeof(*conn));

        if (conn == NULL) /* it is served, and left to its time limit */
                return NULL;
        if (admin->conn_count >= CONNECTIONS_KEPT)
                cut_oldest(admin);
        conn->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        TAILQ_INSERT_TAIL(&admin->conns, conn, entry);
        admin->conn_count++;
        return conn;
}

/* Opened, before its handshake and on the thread that will make it, or closed. */
static void on_admin_connection(void *arg, struct MHD_Connection *connection, void **context,
                                enum MHD_ConnectionNotificationCode code)
{
        struct srv_admin *admin = arg;
        struct admin_conn *conn = *context;

        if (code == MHD_CONNECTION_NOTIFY_STARTED) {
                gw_tls_serve(admin->tls);
                *context = add_connection(admin, connection);
                return;
        }
        if (conn != NULL && !conn->cut) {
                TAILQ_REMOVE(&admin->conns, conn, entry);
                admin->conn_count--;
        }
        free(conn);
        *context = NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void free_admin(struct srv_admin *admin)
{
        explicit_bzero(&admin->credentials, sizeof(admin->credentials));
        pthread_mutex_destroy(&admin->lock);
        pthread_mutex_destroy(&admin->verify.lock);
        pthread_cond_destroy(&admin->verify.answered);
        free(admin->pings);
        free(admin->seen);
        free(admin);
}

static struct MHD_Daemon *start_daemon(struct srv_admin *admin, const struct srv_admin_options *options)
{
        bool tls = options->tls != NULL;
        unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ITC | (tls ? MHD_USE_TLS : 0);
        struct MHD_OptionItem with_tls[] = {
                {MHD_OPTION_HTTPS_PRIORITIES, (intptr_t)0, (void *)(uintptr_t)options->tls_priorities},
                {MHD_OPTION_HTTPS_CERT_CALLBACK, (intptr_t)0, gw_tls_callback()},
                {MHD_OPTION_END, 0, NULL},
        };
        struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};

        return MHD_start_daemon(flags, 0, NULL, NULL, handle, admin, MHD_OPTION_LISTEN_SOCKET, options->fd,
                                MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
                                CONNECTIONS_OF_ONE_MAX, MHD_OPTION_CONNECTION_TIMEOUT, TIMEOUT_S,
                                MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_URI_LOG_CALLBACK,
                                begin_request, admin, MHD_OPTION_NOTIFY_COMPLETED, end_call, admin,
                                MHD_OPTION_NOTIFY_CONNECTION, on_admin_connection, admin, MHD_OPTION_ARRAY,
                                tls ? with_tls : none, MHD_OPTION_END);
}

int srv_admin_start(const struct srv_admin_options *options, const struct srv_credentials *credentials,
                    struct srv_admin **out)
{
        uint8_t start[ADMIN_START_LEN / 2];
        struct srv_admin *admin;

        if (strlen(options->region) > S3_REGION_MAX)
                return -EINVAL;
        admin = calloc(1, sizeof(*admin));
        if (admin == NULL)
                return -ENOMEM;
        admin->source = options->source;
        admin->since = lp_clock();
        admin->source.link = options->link;
        admin->tls = options->tls;
        admin->hosts = options->hosts;
        admin->settings = options->settings;
        strcpy(admin->region, options->region);
        lp_random(start, sizeof(start));
        s3_hex_encode(start, sizeof(start), admin->start);
        admin->credentials = *credentials;
        TAILQ_INIT(&admin->conns);
        pthread_mutex_init(&admin->lock, NULL);
        srv_admin_verify_init(&admin->verify, options->source.store);
        admin->pings = calloc(options->source.loop_count, sizeof(*admin->pings));
        admin->seen = calloc(ADMIN_SEEN_BUCKETS, sizeof(*admin->seen));
        admin->ask_leader = options->ask_leader;
        admin->ask_arg = options->ask_arg;
        admin->link = options->link;
        admin->pool = options->pool;
        admin->sessions = options->sessions;
        admin->sessions_arg = options->sessions_arg;
        if (admin->pings != NULL && admin->seen != NULL && options->fd >= 0)
                admin->daemon = start_daemon(admin, options);
        if (admin->pings == NULL || admin->seen == NULL || (options->fd >= 0 ? admin->daemon == NULL : srv_admin_far_start(admin) != 0)) {
                free_admin(admin);
                return -ENOMEM;
        }
        *out = admin;
        return 0;
}

void srv_admin_credentials_set(struct srv_admin *admin, const struct srv_credentials *credentials)
{
        pthread_mutex_lock(&admin->lock);
        admin->credentials = *credentials;
        pthread_mutex_unlock(&admin->lock);
}

void srv_admin_leads(struct srv_admin *admin, uint32_t leads)
{
        atomic_store(&admin->leads, leads);
}

void srv_admin_draining(struct srv_admin *admin)
{
        atomic_store(&admin->draining, true);
}

void srv_admin_stop(struct srv_admin *admin)
{
        if (admin->daemon != NULL)
                MHD_stop_daemon(admin->daemon);
        admin->daemon = NULL;
        srv_admin_far_stop(admin->far);
        admin->far = NULL;
}

void srv_admin_free(struct srv_admin *admin)
{
        if (admin != NULL)
                free_admin(admin);
}
