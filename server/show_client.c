/*
 * show_client.c - see show_client.h. A program that is given a daemon's settings has this one read them: nobody else knows their
 * defaults, and how credentials are kept. Nothing is changed. Main thread; blocking.
 */
#include "server/show_client.h"

#include "server/credentials.h"

#include <string.h>

/* An address that stands for all of a machine's is asked at the one that other nodes know, or at the loopback. */
static void print_address(FILE *out, const char *name, const struct srv_settings *s, const struct srv_address *address, bool tls)
{
        struct srv_address at = *address;
        char text[sizeof(at.host) + 16];

        if (srv_address_is_every(&at) && s->cluster_listen.set && !srv_address_is_every(&s->cluster_listen))
                memcpy(at.host, s->cluster_listen.host, sizeof(at.host));
        else if (srv_address_is_every(&at))
                strcpy(at.host, "127.0.0.1");
        srv_address_text(&at, text, sizeof(text));
        fprintf(out, "%s = %s://%s\n", name, tls ? "https" : "http", text);
}

int srv_show_client(const struct srv_settings *s, FILE *out, struct srv_error *error)
{
        const struct srv_address *s3 = s->plain_listen.set ? &s->plain_listen : &s->listen;
        struct srv_credentials credentials = {.access_key = ""};
        int rv;

        print_address(out, "endpoint", s, s3, s3 == &s->listen && *s->tls_cert != '\0');
        print_address(out, "admin", s, &s->admin, s->admin_tls);
        fprintf(out, "region = %s\n", s->region);
        rv = srv_credentials_find(s, &credentials, error);
        if (rv == 0)
                fprintf(out, "access_key = %s\nsecret_key = %s\n", credentials.access_key, credentials.secret_key);
        explicit_bzero(&credentials, sizeof(credentials));
        return rv;
}
