/*
 * doctor_tls.c - see doctor_cluster.h: certificates, and the way to another node.
 *
 * A node is reached as far as TLS: nothing is said after that, so it drops the connection as one of a stranger, and the process
 * that this node may run keeps its own.
 */
#include "server/doctor_cluster.h"

#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define TRIES        3u
#define WAIT_MS      3000
#define ECHO_MS      500
#define SLOW_US      5000 /* a round trip between nodes of one site */
#define DAYS_MEND    7
#define DAYS_NOTE    60
#define UDP_HEADERS  28   /* of IPv4; IPv6 has 20 more */
#define SMALL_PACKET 64

/* ---- the own certificate --------------------------------------------------------------------- */

static X509 *read_certificate(const char *path)
{
        FILE *file = fopen(path, "re");
        X509 *certificate = file != NULL ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;

        if (file != NULL)
                fclose(file);
        return certificate;
}

static bool is_for_name(X509 *certificate, const char *name)
{
        const unsigned flags = X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS;

        return X509_check_host(certificate, name, 0, flags, NULL) == 1 || X509_check_ip_asc(certificate, name, flags) == 1;
}

static const char *openssl_why(void)
{
        const char *text = ERR_reason_error_string(ERR_peek_last_error());

        return text != NULL ? text : "it is no certificate in PEM";
}

/* As the other nodes do; *why: what they would say. */
static bool is_signed_by(const char *ca, X509 *certificate, const char **why)
{
        X509_STORE *store = X509_STORE_new();
        X509_STORE_CTX *context = X509_STORE_CTX_new();
        bool good = store != NULL && context != NULL && X509_STORE_load_file(store, ca) == 1 && X509_STORE_CTX_init(context, store, certificate, NULL) == 1;

        *why = good ? "" : openssl_why();
        if (good) {
                good = X509_verify_cert(context) == 1;
                *why = good ? "" : X509_verify_cert_error_string(X509_STORE_CTX_get_error(context));
        }
        X509_STORE_CTX_free(context);
        X509_STORE_free(store);
        return good;
}

static void find_expiry(const char *what, X509 *certificate)
{
        int days = 0, seconds = 0;

        if (ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(certificate)) != 1)
                srv_find(SRV_FOUND_MEND, what, "make another: millrace cluster cert", "its end makes no sense");
        else if (days < 0 || (days == 0 && seconds <= 0))
                srv_find(SRV_FOUND_MEND, what, "make another: millrace cluster cert, then SIGHUP", "has expired");
        else
                srv_find(days < DAYS_MEND ? SRV_FOUND_MEND : days < DAYS_NOTE ? SRV_FOUND_NOTE : SRV_FOUND_GOOD, what, "make another in time: millrace cluster cert, then SIGHUP", "is good for %d days", days);
}

/* Of each: while a CA is changed there are two. */
static void find_authorities(const char *path)
{
        FILE *file = fopen(path, "re");
        X509 *ca;

        while (file != NULL && (ca = PEM_read_X509(file, NULL, NULL, NULL)) != NULL) {
                find_expiry("cluster_ca", ca);
                X509_free(ca);
        }
        ERR_clear_error(); /* the last one found the file's end */
        if (file != NULL)
                fclose(file);
}

void srv_doctor_certificate(const struct srv_settings *s)
{
        X509 *own = read_certificate(s->cluster_cert);
        const char *why;

        if (own == NULL) {
                srv_find(SRV_FOUND_MEND, "cluster_cert", "millrace cluster cert node makes it", "%s: %s", s->cluster_cert, access(s->cluster_cert, R_OK) != 0 ? strerror(errno) : openssl_why());
        } else {
                find_expiry("cluster_cert", own);
                if (!is_for_name(own, s->node))
                        srv_find(SRV_FOUND_MEND, "  its name", "other nodes refuse it: make one for this node's name", "%s is not for the name %s", s->cluster_cert, s->node);
                else
                        srv_find(SRV_FOUND_GOOD, "  its name", NULL, "%s", s->node);
                if (!is_signed_by(s->cluster_ca, own, &why))
                        srv_find(SRV_FOUND_MEND, "  its CA", "all nodes need certificates of one CA, and that CA's as cluster_ca", "%s: %s", s->cluster_ca, why);
                else
                        srv_find(SRV_FOUND_GOOD, "  its CA", NULL, "%s has signed it", s->cluster_ca);
        }
        find_authorities(s->cluster_ca);
        X509_free(own);
}

/* ---- the way to a node ----------------------------------------------------------------------- */

/* The address that a text "HOST:PORT" names first. To be given back with freeaddrinfo(). */
static struct addrinfo *resolve_node(const char *address, int type)
{
        const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = type};
        struct addrinfo *found = NULL;
        struct srv_address parts;
        const char *why;
        char port[8];

        if (srv_parse_address(address, &parts, &why) != 0 || !parts.set)
                return NULL;
        snprintf(port, sizeof(port), "%u", (unsigned)parts.port);
        return getaddrinfo(parts.host, port, &hints, &found) == 0 ? found : NULL;
}

/* A connected descriptor, and the time that it took; negative errno. */
static int connect_node(const struct addrinfo *to, uint64_t *took_ns)
{
        int fd = socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rv = 0;
        const struct timeval wait = {.tv_sec = WAIT_MS / 1000};
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        uint64_t begun = lp_clock();
        socklen_t len = sizeof(rv);

        if (fd < 0)
                return -errno;
        if (connect(fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS)
                rv = errno;
        else if (poll(&ready, 1, WAIT_MS) != 1)
                rv = ETIMEDOUT;
        else
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &rv, &len);
        *took_ns = lp_clock() - begun;
        if (rv != 0) {
                close(fd);
                return -rv;
        }
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
        return fd;
}

/* Whether both ends take each other's certificate, as far as this end can tell. */
static void find_handshake(const struct srv_settings *s, const struct cl_member *member, int fd)
{
        SSL_CTX *context = SSL_CTX_new(TLS_client_method());
        struct pollfd refusal = {.fd = fd, .events = POLLIN}; /* it comes soon, if it comes */
        SSL *ssl = NULL;
        bool ready = context != NULL && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 && SSL_CTX_load_verify_file(context, s->cluster_ca) == 1 &&
                     SSL_CTX_use_certificate_chain_file(context, s->cluster_cert) == 1 && SSL_CTX_use_PrivateKey_file(context, s->cluster_key, SSL_FILETYPE_PEM) == 1;
        char byte;

        if (ready)
                ssl = SSL_new(context);
        if (ssl != NULL) {
                SSL_set_verify(ssl, SSL_VERIFY_NONE, NULL); /* what is amiss is told apart below */
                SSL_set_fd(ssl, fd);
        }
        if (ssl == NULL) {
                srv_find(SRV_FOUND_MEND, "  TLS", NULL, "not tried: this node's own files cannot be used: %s", openssl_why());
        } else if (SSL_connect(ssl) != 1) {
                srv_find(SRV_FOUND_MEND, "  TLS", "is millraced of a cluster at that address?", "no TLS there: %s", openssl_why());
        } else {
                X509 *certificate = SSL_get1_peer_certificate(ssl);
                long judged = SSL_get_verify_result(ssl);

                if (judged != X509_V_OK)
                        srv_find(SRV_FOUND_MEND, "  TLS", "all nodes need certificates of one CA", "its certificate: %s", X509_verify_cert_error_string(judged));
                else if (certificate == NULL || !is_for_name(certificate, member->node.name))
                        srv_find(SRV_FOUND_MEND, "  TLS", "another node is at that address, or it has another's certificate", "its certificate is not for %s", member->node.name);
                else if (poll(&refusal, 1, ECHO_MS) == 1 && SSL_read(ssl, &byte, 1) <= 0 && ERR_peek_last_error() != 0 && ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_SSL)
                        srv_find(SRV_FOUND_MEND, "  TLS", "its log says why", "it refuses this node's certificate: %s", openssl_why());
                else
                        srv_find(SRV_FOUND_GOOD, "  TLS", NULL, "its certificate is for %s, by our CA, and it takes ours", member->node.name);
                X509_free(certificate);
        }
        ERR_clear_error();
        SSL_free(ssl);
        SSL_CTX_free(context);
}

/*
 * Whether a datagram of so many bytes arrives: the machine there answers that nobody listens at that port. Errors: -ETIMEDOUT: no
 * answer; -EMSGSIZE: too large for the way there, as this machine knows.
 */
static int echo_packet(const struct addrinfo *to, size_t size)
{
        int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), probe = IP_PMTUDISC_PROBE, rv = -ETIMEDOUT;
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        char *bytes = calloc(1, size), back[16];

        if (fd < 0 || bytes == NULL || connect(fd, to->ai_addr, to->ai_addrlen) != 0) {
                rv = -errno;
        } else {
                if (to->ai_family == AF_INET)
                        setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe));
                else
                        setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof(probe));
                if (send(fd, bytes, size, 0) < 0 && errno != ECONNREFUSED)
                        rv = -errno;
                else if (poll(&ready, 1, ECHO_MS) == 1 && recv(fd, back, sizeof(back), MSG_DONTWAIT) < 0 && errno == ECONNREFUSED)
                        rv = 0;
        }
        if (fd >= 0)
                close(fd);
        free(bytes);
        return rv;
}

static void find_packets(const struct addrinfo *to, int fd)
{
        bool four = to->ai_family == AF_INET;
        int mtu = 0, rv;
        socklen_t len = sizeof(mtu);

        if (getsockopt(fd, four ? IPPROTO_IP : IPPROTO_IPV6, four ? IP_MTU : IPV6_MTU, &mtu, &len) != 0 || mtu < 576) {
                srv_find(SRV_FOUND_NOTE, "  MTU", NULL, "not known");
                return;
        }
        if (mtu > 65535)
                mtu = 65535;
        if (echo_packet(to, SMALL_PACKET) != 0) {
                srv_find(SRV_FOUND_NOTE, "  MTU", "let ICMP through between nodes, then it can be told whether large packets arrive", "%d here; that machine does not say what arrives", mtu);
                return;
        }
        rv = echo_packet(to, (size_t)mtu - UDP_HEADERS - (four ? 0 : 20));
        if (rv == 0)
                srv_find(SRV_FOUND_GOOD, "  MTU", NULL, "packets of %d bytes arrive", mtu);
        else
                srv_find(SRV_FOUND_MEND, "  MTU", "give both interfaces, and all switches between them, the same MTU: large transfers hang", "packets of %d bytes do not arrive: %s", mtu, strerror(-rv));
}

void srv_doctor_node(const struct srv_settings *s, const struct cl_member *member)
{
        struct addrinfo *to = resolve_node(member->node.address, SOCK_STREAM);
        uint64_t took = 0, best = UINT64_MAX;
        int fd = -1;
        unsigned i;

        if (to == NULL) {
                srv_find(SRV_FOUND_MEND, "other node", NULL, "%s: its address %s cannot be resolved", member->node.name, member->node.address);
                return;
        }
        for (i = 0; i < TRIES && (i == 0 || fd >= 0); i++) {
                if (fd >= 0)
                        close(fd);
                fd = connect_node(to, &took);
                best = fd >= 0 && took < best ? took : best;
        }
        if (fd < 0) {
                srv_find(SRV_FOUND_MEND, "other node", "is millraced running there, and does no firewall keep the port shut?", "%s at %s: %s", member->node.name, member->node.address, strerror(-fd));
        } else {
                srv_find(best / 1000 < SLOW_US ? SRV_FOUND_GOOD : SRV_FOUND_NOTE, "other node", "every change waits for several round trips: nodes belong at one site",
                         "%s at %s: a connection takes %.2f ms", member->node.name, member->node.address, (double)best / 1e6);
                find_packets(to, fd);
                find_handshake(s, member, fd);
                close(fd);
        }
        freeaddrinfo(to);
}
