/*
 * settings.h - every setting of the daemon, in one table.
 *
 * The table below is the only list of settings: from it come the members of struct srv_settings,
 * the options of the command line, the keys of the configuration file, the sample file,
 * docs/configuration.md and the manual page. "tls_cert" is `tls_cert = F` in the file and
 * `--tls-cert F` on the command line.
 */
#ifndef MILLRACE_SERVER_SETTINGS_H
#define MILLRACE_SERVER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SRV_LIST_MAX  64u   /* entries of a setting that may be given more than once */
#define SRV_VALUE_MAX 4096u /* bytes of one value */
#define SRV_RDMA_LISTEN_MAX 8u

struct gw_networks;
struct gw_targets;

struct srv_error {
        char text[512]; /* one line that names what is at fault */
};

struct srv_list {
        unsigned count;
        char *item[SRV_LIST_MAX];
};

/* host "" and port 0 with set false: not given. Port 0: the system picks one. */
struct srv_address {
        bool set;
        char host[256]; /* without brackets; "" is every address */
        uint16_t port;
};

struct srv_ec {
        unsigned k, m; /* 0+0: by the number of drives */
};

/*
 * X(name, TYPE, default, least, most, argument, help)
 *
 * Numbers: 0 is also allowed, whatever least is, where it is the default (it means "choose"). Sizes
 * are in bytes, durations in milliseconds. A default is written as one would write it in the file.
 * CHOICE: argument lists the words; the value is the word's index.
 */
#define SRV_SETTINGS(X)                                                                                                \
        X(drive, LIST, "", 0, 0, "DIR",                                                                                \
          "Folder of one drive; once for each drive of the store. Drives are recognised by what stands on them, "      \
          "in whatever order and under whatever path they come.")                                                      \
        X(format, BOOL, "no", 0, 0, NULL,                                                                              \
          "Make a new store of the given folders if all of them are empty. Otherwise nothing is formatted, so it may " \
          "stay on the command line of a container. A node of a cluster: yes by default, for empty folders that a pool has.")                                                                  \
        X(upgrade, BOOL, "no", 0, 0, NULL,                                                                             \
          "Take over a store of an older layout, for good: builds that know only the older one refuse it afterwards. " \
          "Without it such a store is refused, and nothing is touched.")                                               \
        X(ec, EC, "", 0, 0, "K+M",                                                                                     \
          "Erasure code of a new store: K shards of data and M of parity. Used when formatting. Default by number of " \
          "drives: 1: none; 2: 1+1; 3: 2+1; 4-5: 2+2; 6-7: 4+2; 8-11: 6+2; 12 or more: 8+3.")                          \
        X(cluster, STRING, "", 0, 63, "NAME",                                                                          \
          "Name of the cluster that this machine is a node of: letters, digits, - _ and . . Empty: a store of one "    \
          "machine, which needs none of the settings of clusters.")                                                    \
        X(node, STRING, "", 0, 63, "NAME",                                                                             \
          "Name of this node in its cluster, which its certificate is for: letters, digits, - _ and . . It stays. The " \
          "node gets a number when it joins, which is never given to another.")                                        \
        X(rack, INT, "0", 1, 65535, "N",                                                                               \
          "Rack that the node stands in: shards of an object are spread over racks first. Give one to all nodes or "   \
          "to none. 0: the node is a rack of its own.")                                                                \
        X(etcd, LIST, "", 0, 0, "URL",                                                                                 \
          "Address of a member of etcd, which keeps the cluster's configuration: http://HOST:PORT or https. Once for " \
          "each member.")                                                                                              \
        X(etcd_ca, STRING, "", 0, 0, "FILE", "Certificates in PEM that etcd is known by, instead of the system's.")    \
        X(etcd_cert, STRING, "", 0, 0, "FILE", "Certificate in PEM that is shown to etcd. With etcd_key.")             \
        X(etcd_key, STRING, "", 0, 0, "FILE", "Private key of etcd_cert in PEM.")                                      \
        X(etcd_user, STRING, "", 0, 0, "NAME", "User that etcd is asked as. With etcd_password_file.")                 \
        X(etcd_password_file, STRING, "", 0, 0, "FILE", "File with the user's password alone, mode 0600.")             \
        X(cluster_listen, ADDRESS, "", 0, 0, "ADDR:PORT",                                                              \
          "Address at which other nodes reach the drives of this one: an address of this machine, as the others are "  \
          "told it. While this node leads, its leader process has the port after it.")                                 \
        X(cluster_ca, STRING, "", 0, 0, "FILE",                                                                        \
          "Certificate in PEM of the authority that has signed the nodes' certificates (millrace cluster cert). "      \
          "Default: ca.crt beside the settings file.")                                                                 \
        X(cluster_cert, STRING, "", 0, 0, "FILE",                                                                      \
          "Certificate of this node in PEM. Default: NODE.crt beside the settings file, by the node's name.")          \
        X(cluster_key, STRING, "", 0, 0, "FILE", "Private key of cluster_cert in PEM. Default: NODE.key, likewise.")   \
        X(cluster_tls, CHOICE, "all", 0, 0, "control|all",                                                             \
          "Which connections between nodes are encrypted. control: those for bulk data are plain TCP, with checksums, " \
          "and only nodes that have shown a certificate may open one. Those within a node are plain in any case. "      \
          "The same on all nodes.")                                                                                    \
        X(new_pool_nodes, LIST, "", 0, 0, "NAME",                                                                      \
          "With --init-cluster: name of a node whose empty folders the new cluster is made of; once for each, or a list " \
          "with commas.")                                                                                              \
        X(new_pools, INT, "0", 0, 16, "N",                                                                             \
          "With --init-cluster: so many pools, among which the folders of each node are dealt. 0: one, or as many as were " \
          "begun by a run that was cut off.")                                                                           \
        X(init_more, BOOL, "no", 0, 0, NULL,                                                                           \
          "With --init-cluster: there is a cluster already, which gets further pools of folders that are in none.")    \
        X(init_ask, BOOL, "no", 0, 0, NULL,                                                                            \
          "With --init-cluster: show what would be made, and ask on the terminal before it is; without one nothing is made.") \
        X(reseed_without, LIST, "", 0, 0, "N|slot:N",                                                                  \
          "With --reseed-cluster: a node, or a slot of the pool, that is given up: what only it knows is lost, and its "  \
          "drives are never used again. Once for each, or a list with commas.")                                        \
        X(reseed_yes, BOOL, "no", 0, 0, NULL, "With --reseed-cluster: write etcd; else it is shown what would be written.") \
        X(adopt_yes, BOOL, "no", 0, 0, NULL, "With --adopt-store: do it; else it is shown what would be done.")          \
        X(listen, ADDRESS, "127.0.0.1:9000", 0, 0, "ADDR:PORT",                                                        \
          "Address of the S3 listener: TLS when tls_cert is given, else plain HTTP. *:PORT is every address, "         \
          "[::1]:PORT is IPv6, port 0 lets the system choose.")                                                        \
        X(plain_listen, ADDRESS, "", 0, 0, "ADDR:PORT",                                                                \
          "A second S3 listener that always speaks plain HTTP, for instance on a trusted network beside TLS.")         \
        X(admin, ADDRESS, "127.0.0.1:9001", 0, 0, "ADDR:PORT",                                                         \
          "Address of the admin listener: health, metrics and signed admin calls. Plain HTTP unless admin_tls is yes: " \
          "keep it on a trusted network.")                                                                             \
        X(tls_cert, STRING, "", 0, 0, "FILE",                                                                          \
          "Certificate in PEM, followed by its chain. With tls_key. Read again on SIGHUP.")                            \
        X(tls_key, STRING, "", 0, 0, "FILE", "Private key of tls_cert in PEM. Read again on SIGHUP.")                  \
        X(tls_priorities, STRING, GW_TLS_PRIORITIES, 1, 1024, "LIST",                                                  \
          "Versions, key exchanges, ciphers and signatures that TLS may agree on, as a priority string of GnuTLS. The " \
          "default is TLS 1.2 and 1.3 with forward secrecy and authenticated encryption, and nothing else.")           \
        X(admin_host, LIST, "", 0, 0, "HOST[:PORT]",                                                                   \
          "Name under which the admin listener is reached where it is neither localhost nor the address that the "     \
          "connection came to, for instance behind a port mapping or a proxy: signed admin calls for other hosts are " \
          "refused. Once for each.")                                                                                   \
        X(admin_tls, BOOL, "no", 0, 0, NULL, "TLS on the admin listener, too, with tls_cert and tls_key.")             \
        X(root_credentials, STRING, "", 0, 0, "FILE",                                                                  \
          "File with the root credentials (access_key = ..., secret_key = ...), mode 0600. Read again on SIGHUP. "     \
          "Default: the file CREDENTIALS on each drive, sealed with the key in key_file. MILLRACE_ROOT_ACCESS_KEY and " \
          "MILLRACE_ROOT_SECRET_KEY in the "                                                                           \
          "environment come before any file.")                                                                         \
        X(key_file, STRING, "", 0, 0, "FILE",                                                                          \
          "File with the key that seals the credentials on the drives and the secrets of users, mode 0600, made when a store " \
          "is formatted. It must not lie on a drive; without it they are lost, so back it up. Default: /etc/millrace/key for root, and where it exists or " \
          "can be made, else millrace/key in $XDG_CONFIG_HOME or ~/.config. MILLRACE_KEY in the environment (64 hex " \
          "digits) comes before any file.")                                                                            \
        X(read_only, BOOL, "no", 0, 0, NULL,                                                                           \
          "Serve, and refuse every change with 403 AccessDenied: no objects, uploads or buckets are made, overwritten or " \
          "deleted. Repairs and scrubs go on. While it is yes, millrace admin read-only off is refused; while it is no, that " \
          "command and millrace admin read-only on decide.")                                                           \
        X(region, STRING, "us-east-1", 1, 64, "NAME", "Region that requests must be signed for.")                      \
        X(domain, STRING, "", 0, 0, "LIST",                                                                            \
          "Comma-separated domains under which BUCKET.DOMAIN addresses a bucket (virtual-host style).")                \
        X(website_domain, STRING, "", 0, 0, "LIST",                                                                    \
          "Comma-separated domains under which BUCKET.DOMAIN is the bucket's website, and no S3 endpoint: pages for "    \
          "browsers, as the bucket's website configuration and policy say. None: no websites there.")                  \
        X(website_host, STRING, "", 0, 0, "LIST",                                                                      \
          "Comma-separated hosts, each the website of the bucket that has the host's whole name; .example.com stands for " \
          "all names under it. Name no host here by which S3 is reached.")                                             \
        X(presign_v2, BOOL, "no", 0, 0, NULL,                                                                          \
          "Take URLs presigned with Signature Version 2 (AWSAccessKeyId, Expires, Signature), too, that expire within "  \
          "seven days. AWS has ended that version: sign with version 4 where a client can.")                             \
        X(loops, INT, "0", 1, 256, "N", "Event loops, one thread each. 0: one for each processor.")                    \
        X(memory, SIZE, "0", 32ll << 20, 1ll << 42, "SIZE",                                                            \
          "Memory for transfers of large objects, all loops together, of a node all its processes. 0: 128 MiB, or 32 "  \
          "MiB a loop where that is more, 64 of a node.")                                                              \
        X(cache, SIZE, "32MiB", 0, 1ll << 42, "SIZE", "Memory for the read cache of small objects.")                   \
        X(upload_memory, SIZE, "256MiB", 1ll << 20, 1ll << 40, "SIZE",                                                 \
          "Memory that small uploads and XML bodies may hold, all loops together.")                                    \
        X(answer_memory, SIZE, "64MiB", 1ll << 20, 1ll << 40, "SIZE",                                                  \
          "Memory that answers may hold until clients have read them (pages of listings, objects up to 1 MiB), all "   \
          "loops together. What does not fit is answered with 503 SlowDown.")                                          \
        X(inline_max, SIZE, "128KiB", 0, 128ll << 10, "SIZE",                                                          \
          "New objects up to this size are stored inside their log record, on as many drives as the code has parity "  \
          "shards and one more; larger ones, and all parts of uploads, as shards. 0: only empty objects, which have "  \
          "nothing to shard. What is stored stays as it is, and readable, when this changes.")                         \
        X(log_file_size, SIZE, "0", 4ll << 20, 4ll << 30, "SIZE",                                                      \
          "Size of one file of a drive's log. 0: by the size of its file system: 64 MiB up to 4 TiB, then as much as "  \
          "keeps a drive at 65,536 files, up to 1 GiB.")                                                               \
        X(segment_size, SIZE, "0", 4ll << 20, 64ll << 30, "SIZE",                                                      \
          "Size of one data segment of a drive. 0: by the size of its file system: 256 MiB up to 4 TiB, then as much "  \
          "as keeps a drive at 16,384 segments, up to 4 GiB.")                                                         \
        X(memtable_size, SIZE, "32MiB", 1ll << 20, 16ll << 30, "SIZE",                                                 \
          "Memory of each drive for entries that are in its log and not yet in its index. At the bound PUTs wait. The "\
          "old name tail_size is accepted, too.")                                                                      \
        X(full_reserve, SIZE, "0", 1ll << 20, 1ll << 44, "SIZE",                                                       \
          "PUTs are refused when a file system has less than this free. 0: 1 GiB or 5 %, whichever is smaller; at "    \
          "least two segments where they are larger than 512 MiB.")                                                    \
        X(drive_wait, DURATION, "15s", 1000, 86400000, "TIME",                                                         \
          "How long a start waits for drives that it can do without: then it serves with those that are there. The "   \
          "others come in when they have been opened.")                                                                \
        X(heal_rate, SIZE, "0", 1ll << 20, 1ll << 40, "SIZE",                                                          \
          "Bytes a second of upkeep while clients use the store: shards written that objects lack, and 512 for each "  \
          "name compared. 8 times as much when they have not for half a second, a quarter while one waits for "        \
          "buffers. 0: as much as fills a drive in 20 hours with what the fullest one holds, times the number of "     \
          "drives that are being filled or emptied, at least 64 MiB.")                                                 \
        X(scrub_period, DURATION, "30d", 0, 31536000000ll, "TIME",                                                     \
          "Time in which all data of each drive is read once, to find damage before it is needed, and to repair it. "  \
          "The rate follows from it, and from what a drive holds. 0: drives are not read through.")                    \
        X(scrub_rate, SIZE, "64MiB", 0, 1ll << 40, "SIZE",                                                             \
          "The most bytes a second that the scrub reads from each drive, so also when it catches up. 0: no scrub.")    \
        X(scrub_interval, DURATION, "14d", 60000, 31536000000ll, "TIME",                                               \
          "From the start of one walk of the scrub through all names to the start of the next, if it is over by then. " \
          "It compares the copies of names, reads small objects, and asks drives for the shards they should hold.")    \
        X(reclaim_rate, SIZE, "64MiB", 1ll << 20, 1ll << 40, "SIZE",                                                   \
          "Bytes a second that each drive reads and writes to move what lives out of mostly dead files, while "        \
          "requests are served; four times that while none are, and more as the file system fills.")                   \
        X(max_connections, INT, "20000", 16, 1000000, "N",                                                             \
          "Connections that may be open at once, all loops together.")                                                 \
        X(max_unsigned_connections, INT, "0", 1, 1000000, "N",                                                         \
          "Connections without any valid signature yet that one address (of IPv6: one network of 64 bits) may have open. " \
          "The oldest of them is closed for the next. 0: a quarter of max_connections, at least 16.")                  \
        X(proxy, LIST, "", 0, 0, "NETWORK",                                                                            \
          "Address or network (10.1.0.0/16, 2001:db8::/48) of proxies, whose connections max_unsigned_connections does " \
          "not count. Once for each, or a list with commas.")                                                          \
        X(oidc_issuer, LIST, "", 0, 0, "URL",                                                                          \
          "Issuer of web identities (OpenID Connect) that this server may ask for keys; https, or http to this "       \
          "machine. Behind a blank may stand the URL of its keys, which it is asked for otherwise. It is a provider "  \
          "of the first account, and of each that makes it one in IAM. Once for each.")                                \
        X(oidc_audience, LIST, "", 0, 0, "ID",                                                                         \
          "Audience (client id) that tokens of these issuers may be made for, where the first account has no "         \
          "provider of its own for them. Once for each.")                                                              \
        X(oidc_ca_file, STRING, "", 0, 0, "FILE",                                                                      \
          "Certificates in PEM that issuers are known by, instead of the system's.")                                   \
        X(idle_timeout, DURATION, "60s", 1000, 86400000, "TIME",                                                       \
          "A connection on which no byte moves is closed after "                                                       \
          "this.")                                                                                                     \
        X(request_timeout, DURATION, "30s", 1000, 3600000, "TIME", "Time a client has to send the head of a request.") \
        X(min_rate, SIZE, "16KiB", 1, 1ll << 40, "SIZE",                                                               \
          "Bytes a second that uploads and downloads must keep up while others wait for memory.")                      \
        X(drain_timeout, DURATION, "30s", 0, 86400000, "TIME",                                                         \
          "How long SIGTERM waits for requests that are being served.")                                                \
        X(access_log, STRING, "", 0, 0, "FILE",                                                                        \
          "Access log, one JSON object a line. - is standard error; empty: none. Opened again on SIGHUP.")             \
        X(bucket_log_interval, DURATION, "5m", 1000, 86400000, "TIME",                                                  \
          "How long at most access logs of buckets (PutBucketLogging) are gathered in memory before they are written to " \
          "their target bucket. They are written before that at 1 MiB, and when the daemon stops.")                    \
        X(log_level, CHOICE, "info", 0, 0, "error|warning|info",                                                       \
          "Which of the daemon's own messages appear on standard error.")                                              \
        X(rdma_listen, LIST, "", 0, 0, "ADDR:PORT",                                                                    \
          "Address of an interface with RDMA on which sessions are connected; once for each, at most 8. The device is the one " \
          "that has the address. None: no RDMA. Where there is no such device the daemon says so and serves without.") \
        X(rdma_token_gid, LIST, "", 0, 0, "GID",                                                                       \
          "Client whose memory requests with x-amz-rdma-token on the listener of listen may name (see rdma-protocol.md): "  \
          "its GID as an IPv6 address, or an IPv4 address. Once for each, or a list with commas. None: such requests are "  \
          "declined.")                                                                                                 \
        X(rdma_token_gid_plain, LIST, "", 0, 0, "GID", "The same for the listener of plain_listen.")                   \
        X(rdma_token_key, STRING, "ffeeddcc", 1, 16, "HEX",                                                            \
          "Access key of the clients' targets, which a token does not carry: both ends must have the same.")           \
        X(rdma_sessions, INT, "256", 1, 4096, "N", "RDMA sessions that may be open at once.")                          \
        X(rdma_sessions_per_key, INT, "64", 1, 4096, "N", "RDMA sessions that one access key may have open.")          \
        X(rdma_session_life, DURATION, "1h", 10000, 86400000, "TIME", "Longest life of an RDMA session.")              \
        X(rdma_requests, INT, "64", 1, 1024, "N", "Requests outstanding on one RDMA session.")                         \
        X(rdma_writes, INT, "256", 1, 4096, "N", "RDMA writes in flight on one device, shared by all loops.")          \
        X(test_rdma_driver, STRING, "", 0, 0, "FILE", NULL) /* a transport without hardware, loaded in place of verbs */ \
        X(lead, STRING, "", 0, 0, "SPEC", NULL) /* of a node's leader process, by its node process: node_leader.h */   \
        X(test_faults, STRING, "", 0, 0, "SPEC", NULL)                                                                 \
        X(test_forecast_speed, INT, "1", 1, 1000000, "N", NULL) /* seconds that a second counts as where growth is measured */ \
        X(test_day_seconds, INT, "86400", 1, 86400, "N", NULL) /* seconds that lifecycle rules take for a day */     \
        X(test_give_back, DURATION, "60s", 100, 60000, "TIME", NULL) /* that a node waits before it hands a pool over to whose turn it is */ \
        X(test_md5_lanes, INT, "0", 1, 16, "N", NULL) /* to measure against: MD5 of so many streams at once at most */

#define SRV_TYPE_STRING   char *
#define SRV_TYPE_LIST     struct srv_list
#define SRV_TYPE_BOOL     bool
#define SRV_TYPE_INT      uint64_t
#define SRV_TYPE_SIZE     uint64_t
#define SRV_TYPE_DURATION uint64_t
#define SRV_TYPE_ADDRESS  struct srv_address
#define SRV_TYPE_EC       struct srv_ec
#define SRV_TYPE_CHOICE   unsigned

enum srv_setting_type {
        SRV_STRING,
        SRV_LIST,
        SRV_BOOL,
        SRV_INT,
        SRV_SIZE,
        SRV_DURATION,
        SRV_ADDRESS,
        SRV_EC,
        SRV_CHOICE
};

enum srv_setting_id {
#define SRV_SETTING_ENUM(name, type, ...) SRV_SETTING_##name,
        SRV_SETTINGS(SRV_SETTING_ENUM)
#undef SRV_SETTING_ENUM
                SRV_SETTING_COUNT
};

/* Where a value comes from; a later one overrides an earlier one. */
enum srv_source { SRV_FROM_DEFAULT, SRV_FROM_FILE, SRV_FROM_COMMAND_LINE };

/* owner: the main thread until loops start; not changed after that, read by all. */
struct srv_settings {
#define SRV_SETTING_MEMBER(name, type, ...) SRV_TYPE_##type name;
        SRV_SETTINGS(SRV_SETTING_MEMBER)
#undef SRV_SETTING_MEMBER
        enum srv_source source[SRV_SETTING_COUNT];
        /* No setting: the number that the name `node` has in its cluster; 0: it is not known yet. owner: the main thread */
        uint16_t number;
};

struct srv_setting_info {
        const char *name;
        enum srv_setting_type type;
        const char *default_text;
        int64_t least, most; /* numbers; 0, 0: no bound. Strings: length */
        const char *argument;
        const char *help; /* NULL: hidden, for tests */
        size_t offset;    /* in struct srv_settings */
};

extern const struct srv_setting_info srv_setting_infos[SRV_SETTING_COUNT];

/* What the command line asks for. */
enum srv_action {
        SRV_RUN,
        SRV_HELP,
        SRV_VERSION,
        SRV_PRINT_SAMPLE_CONFIG,
        SRV_PRINT_SETTINGS_MARKDOWN,
        SRV_PRINT_SETTINGS_MAN,
        SRV_PRINT_METRICS_MARKDOWN,
        SRV_SHOW_CREDENTIALS, /* from here on with settings */
        SRV_ROTATE_CREDENTIALS,
        SRV_ROTATE_KEY,
        SRV_SHOW_CLIENT,
        SRV_INIT_CLUSTER,
        SRV_RESEED_CLUSTER,
        SRV_ADOPT_STORE,
        SRV_DOCTOR_CLUSTER
};

/* ---- settings.c ------------------------------------------------------------------------------ */

/*
 * All settings at their defaults. 0 or -ENOMEM; to be given back with srv_settings_free() in both
 * cases.
 */
int srv_settings_init(struct srv_settings *settings);
void srv_settings_free(struct srv_settings *settings);

/* -1: there is no setting of that name. Names that settings had before count, too. */
int srv_setting_find(const char *name);

/*
 * Takes one value. A source that comes earlier than the one that set it is ignored; the same source
 * twice is an error unless the setting is a list. shown_as is what error texts call it, e.g.
 * "--listen" or "millrace.conf:3: listen". 0, -EINVAL or -ENOMEM.
 */
int srv_settings_set(struct srv_settings *settings, enum srv_setting_id id, enum srv_source source, const char *value,
                     const char *shown_as, struct srv_error *error);

/* What no single value shows: a drive is given, certificate and key come together. */
int srv_settings_check(const struct srv_settings *settings, struct srv_error *error);

/* The configuration file at path. */
int srv_settings_read_file(struct srv_settings *settings, const char *path, struct srv_error *error);

/*
 * The file that the command line names, then the command line. *action from SRV_HELP to before
 * SRV_SHOW_CREDENTIALS: settings are not to be used. 0, -EINVAL, -ENOMEM, or of the file.
 */
int srv_settings_load(struct srv_settings *settings, int argc, const char *const argv[], enum srv_action *action,
                      struct srv_error *error);

/* ---- settings_value.c ------------------------------------------------------------------------ */

/* 0, or -EINVAL with the reason ("is not a size like 64MiB") in *why. */
int srv_parse_bool(const char *text, bool *out, const char **why);
int srv_parse_int(const char *text, uint64_t *out, const char **why);
int srv_parse_size(const char *text, uint64_t *out, const char **why);
int srv_parse_duration(const char *text, uint64_t *out, const char **why); /* milliseconds */
int srv_parse_address(const char *text, struct srv_address *out, const char **why);
int srv_parse_ec(const char *text, struct srv_ec *out, const char **why);
/* choices: words with | between them. */
int srv_parse_choice(const char *text, const char *choices, unsigned *out, const char **why);
/* The way a person would write it: 64MiB, 30s. size: at least 32 bytes. */
void srv_format_size(uint64_t bytes, char *out, size_t size);
void srv_format_duration(uint64_t ms, char *out, size_t size);
/* "192.0.2.1:9000", "[::1]:9000", "*:9000" */
void srv_address_text(const struct srv_address *address, char *out, size_t size);

/* ---- settings_cluster.c ---------------------------------------------------------------------- */

/* What a node needs is there. init: what --init-cluster needs. */
int srv_cluster_check(const struct srv_settings *settings, enum srv_action action, struct srv_error *error);
/*
 * What a cluster's node does not say: files beside the settings file (config; NULL: there is none), and that empty folders may be
 * formatted. Without a cluster nothing. -ENOMEM, -ENAMETOOLONG.
 */
int srv_cluster_defaults(struct srv_settings *settings, const char *config, struct srv_error *error);
/* It names no address of a machine, but all that this one has. */
bool srv_address_is_every(const struct srv_address *address);
/* That this node stands in: the one given, or one of its own. */
uint16_t srv_cluster_rack(const struct srv_settings *settings);

/* ---- settings_token.c ------------------------------------------------------------------------ */

/* rdma_token_gid or rdma_token_gid_plain: name is which, for the error. */
int srv_token_gids(const struct srv_list *list, const char *name, struct gw_targets *out, struct srv_error *error);
int srv_token_key(const char *text, uint64_t *out, struct srv_error *error);
/* Of all settings of tokens: they are good, and what they need is there. */
int srv_token_check(const struct srv_settings *settings, struct srv_error *error);

/* ---- settings_network.c ---------------------------------------------------------------------- */

/* Of the setting proxy. 0 or -EINVAL. */
int srv_networks(const struct srv_list *list, const char *name, struct gw_networks *out, struct srv_error *error);
/* Issuers of web identities; strings live in *room (to be given back with free()) and the settings. -EINVAL, -ENOMEM. */
struct gw_oidc;
int srv_oidc(const struct srv_settings *settings, struct gw_oidc *out, char **room, struct srv_error *error);

/* ---- settings_show.c ------------------------------------------------------------------------- */

/*
 * The value that is in force, as a file would have it, in memory of the caller's; a secret is "*".
 * NULL: no memory.
 */
char *srv_setting_show(const struct srv_settings *settings, enum srv_setting_id id);
const char *srv_source_name(enum srv_source source);
/* All that are not at their defaults, secrets too, as a file that srv_settings_read_file() takes. 0 or -EIO. */
int srv_settings_write(const struct srv_settings *settings, FILE *out);

/* ---- settings_print.c ------------------------------------------------------------------------ */

void srv_print_help(FILE *out);
void srv_print_sample_config(FILE *out);
void srv_print_settings_markdown(FILE *out);
void srv_print_settings_man(FILE *out);

/* Sets error->text; returns rv. */
int srv_fail(struct srv_error *error, int rv, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
