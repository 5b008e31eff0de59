/*
 * admin_auth.c - who may make admin calls: whoever signs with the root credentials.
 *
 * Called on the admin thread when the whole request is there. The signature is AWS Signature
 * Version 4 in headers, service "s3", the same that the S3 side takes, so that every client library
 * can make it. Presigned URLs are refused: nothing here should be handed around. The body must hash
 * to what was signed.
 *
 * A call that somebody overheard must be of no use to him. It names the listener it is meant for
 * (Host), so it does nothing at another one. It carries a random x-millrace-nonce that is signed,
 * so no two calls have one signature, and a signature is taken once: those answered are remembered
 * for as long as their date is taken. They are remembered in memory, so a call also names the start
 * of the daemon that it is meant for: a random x-millrace-start, which every answer of this
 * listener gives and a call signs. What another start may have answered is refused, whatever the
 * clocks say. Whoever does not know the start yet learns it from the refusal and sends the call
 * again.
 */
#include "server/admin_private.h"

#include <netdb.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define NONCE_LEAST 16u

static bool refuse_call(enum s3_auth_reason reason, const char **code, const char **message)
{
        enum s3_error error = s3_auth_error(reason);

        *code = s3_error_info(error)->code;
        *message = s3_auth_message(reason);
        return false;
}

static bool deny(const char *why, const char **code, const char **message)
{
        *code = "AccessDenied";
        *message = why;
        return false;
}

static bool body_matches(const struct admin_request *request, const struct s3_auth *auth)
{
        uint8_t hash[S3_SHA256_LEN];

        if (auth->payload != S3_PAYLOAD_SHA256)
                return false;
        if (EVP_Digest(request->body != NULL ? request->body : "", request->body_len, hash, NULL, EVP_sha256(), NULL) !=
            1)
                return false;
        return s3_equal_secret(hash, auth->payload_sha256, sizeof(hash));
}

/* ---- the host -------------------------------------------------------------------------------- */

static bool is_host(struct s3_str host, const char *name, bool v6, const char *port)
{
        char text[320];

        snprintf(text, sizeof(text), v6 ? "[%s]:%s" : "%s:%s", name, port);
        return s3_str_eq_nocase(host, s3_str_of(text));
}

/* A name that was set stands for every port, unless it has one. */
static bool is_listed(struct s3_str host, const struct srv_list *hosts)
{
        unsigned i;

        for (i = 0; i < hosts->count; i++) {
                struct s3_str name = s3_str_of(hosts->item[i]);

                if (s3_str_eq_nocase(host, name))
                        return true;
                if (host.len > name.len && host.data[name.len] == ':' &&
                    s3_str_eq_nocase((struct s3_str){host.data, name.len}, name))
                        return true;
        }
        return false;
}

/*
 * The address that the connection came to, however many the listener has; localhost, which a port
 * mapping may stand behind.
 */
static bool names_this_listener(const struct admin_request *request, struct s3_str host)
{
        char address[NI_MAXHOST], port[NI_MAXSERV], *plain = address;
        struct sockaddr_storage local;
        socklen_t len = sizeof(local);

        if (is_listed(host, request->admin->hosts))
                return true;
        if (getsockname(request->fd, (struct sockaddr *)&local, &len) != 0 ||
            getnameinfo((struct sockaddr *)&local, len, address, sizeof(address), port, sizeof(port),
                        NI_NUMERICHOST | NI_NUMERICSERV) != 0)
                return false;
        if (strncmp(address, "::ffff:", 7) == 0)
                plain += 7;
        return is_host(host, plain, strchr(plain, ':') != NULL, port) || is_host(host, "localhost", false, port) ||
               is_host(host, "127.0.0.1", false, port) || is_host(host, "::1", true, port);
}

/* ---- once ------------------------------------------------------------------------------------ */

static bool is_signed_header(const struct s3_auth *auth, const char *name)
{
        const char *at = auth->signed_headers;
        size_t len;

        for (; *at != '\0'; at += len + (at[len] == ';')) {
                len = strcspn(at, ";");
                if (len == strlen(name) && memcmp(at, name, len) == 0)
                        return true;
        }
        return false;
}

static bool has_nonce(const struct s3_request *request, const struct s3_auth *auth)
{
        struct s3_str nonce = s3_str_trim(s3_request_header(request, ADMIN_NONCE));

        return nonce.data != NULL && nonce.len >= NONCE_LEAST && is_signed_header(auth, ADMIN_NONCE);
}

static bool names_this_start(const struct srv_admin *admin, const struct s3_request *request, const struct s3_auth *auth)
{
        return s3_str_eq(s3_str_trim(s3_request_header(request, ADMIN_START)), s3_str_of(admin->start)) &&
               is_signed_header(auth, ADMIN_START);
}

/*
 * Remembers it; false: it was there, or there is no room (*full). An old one gives way only to
 * another, and the oldest first: should the clock be set back, most of them are still known.
 */
static bool is_first(struct srv_admin *admin, const struct s3_auth *auth, int64_t now_ms, bool *full)
{
        struct admin_seen *bucket, *room = NULL;
        char signature[S3_SIGNATURE_LEN];
        unsigned i, at = 0;

        for (i = 0; i < S3_SIGNATURE_LEN; i++) /* hex digits, of either case */
                signature[i] = (char)(auth->signature[i] | 0x20);
        for (i = 0; i < 6; i++)
                at = at * 16 + (unsigned)(signature[i] <= '9' ? signature[i] - '0' : signature[i] - 'a' + 10);
        bucket = admin->seen[at % ADMIN_SEEN_BUCKETS];
        *full = false;
        for (i = 0; i < ADMIN_SEEN_DEPTH; i++) {
                if (memcmp(bucket[i].signature, signature, S3_SIGNATURE_LEN) == 0)
                        return false;
                if (bucket[i].until_ms < now_ms && (room == NULL || bucket[i].until_ms < room->until_ms))
                        room = &bucket[i];
        }
        *full = room == NULL;
        if (room == NULL)
                return false;
        room->until_ms = auth->time_ms + S3_SKEW_MS + 1000;
        memcpy(room->signature, signature, S3_SIGNATURE_LEN);
        return true;
}

/* The signature is good: is the call meant for us, and now? */
static bool is_meant(struct admin_request *request, const struct s3_request *parts, const struct s3_auth *auth,
                     const char **code, const char **message)
{
        bool full;

        if (!names_this_listener(request, s3_str_trim(s3_request_header(parts, "host"))))
                return deny("The Host of this call is not this listener: see the setting admin_host.", code, message);
        if (!has_nonce(parts, auth))
                return deny("This call needs the header x-millrace-nonce, of 16 random characters or more, signed.", code,
                            message);
        if (!names_this_start(request->admin, parts, auth))
                return deny("This call is not meant for this start of the daemon: send it again, with the header x-millrace-start "
                            "as this answer has it, signed.",
                            code, message);
        if (is_first(request->admin, auth, lp_wall_ms(), &full))
                return true;
        return deny(full ? "Too many admin calls." : "This call was answered before: it is taken once.", code, message);
}

/* ---- who ------------------------------------------------------------------------------------- */

static void signing_key(struct srv_admin *admin, const struct s3_auth *auth, bool *known, struct s3_signing_key *key)
{
        pthread_mutex_lock(&admin->lock);
        *known = strcmp(auth->access_key, admin->credentials.access_key) == 0;
        s3_signing_key_derive(s3_str_of(admin->credentials.secret_key), auth->scope_date, auth->region, auth->service,
                              key);
        pthread_mutex_unlock(&admin->lock);
}

bool srv_admin_authorised(struct admin_request *request, const char **code, const char **message)
{
        struct s3_request signed_parts = {
                .method = s3_str_of(request->method),
                .path = request->parts.path,
                .query = request->parts.query,
                .headers = request->headers,
                .header_count = request->header_count,
        };
        struct s3_signing_key key;
        enum s3_auth_reason reason;
        struct s3_auth auth;
        bool known;

        reason = s3_auth_parse(&signed_parts, &auth);
        if (reason != S3_AUTH_OK)
                return refuse_call(reason, code, message);
        if (auth.kind != S3_AUTH_HEADER)
                return deny("This call must be signed, in its headers, with the root credentials.", code, message);
        signing_key(request->admin, &auth, &known, &key);
        reason = s3_auth_verify(&signed_parts, &auth, &key, request->admin->region, lp_wall_ms());
        explicit_bzero(&key, sizeof(key));
        if (!known) {
                *code = s3_error_info(S3_ERR_INVALID_ACCESS_KEY_ID)->code;
                *message = s3_error_info(S3_ERR_INVALID_ACCESS_KEY_ID)->message;
                return false;
        }
        if (reason != S3_AUTH_OK)
                return refuse_call(reason, code, message);
        if (!body_matches(request, &auth))
                return deny("The body is not the one that was signed.", code, message);
        return is_meant(request, &signed_parts, &auth, code, message);
}
