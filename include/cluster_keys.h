/*
 * cluster_keys.h - what a cluster keeps in etcd: names of keys, and their values as JSON. Functions over values;
 * any thread. Every value is outside data.
 *
 *   PREFIX = /millrace/CLUSTER/
 *   format           {"cluster_id": 32 hex digits, "generation": N, "random": 16 hex digits}
 *   nodes/N          {"name", "address", "s3", "admin", "version", "rack", "state": "in" | "draining" | "gone",
 *                    "boot", "drives": [32 hex digits, ...], "room"}
 *   boots/N          {"boot": N, "claim": 32 hex digits}
 *   pools/P/config   {"store_id": 32 hex digits, "number": N, "epoch": base64 of the body of an EPOCH record}
 *   pools/P/leader   {"node": N, "boot": N, "claim": 32 hex digits}
 *   names            {"NAME": N, ...}: the number of each node that ever joined. None is ever removed
 *   switches         a text of the daemon's
 *   reseed/request   as format; reseed/nodes/N: cluster_reseed.h
 *
 * Fields that a build does not know are left alone by who reads, and lost by who writes.
 */
#ifndef MILLRACE_CLUSTER_KEYS_H
#define MILLRACE_CLUSTER_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CL_NAME_MAX  64u  /* of a cluster, and of a node, with the final 0 */
#define CL_KEY_NAME_MAX   128u /* with the final 0 */
#define CL_JSON_MAX (16u << 10)
#define CL_EPOCH_MAX 8192u /* bytes of an epoch's body */
#define CL_NODE_LAST 1023u
#define CL_POOL_LAST 62u
#define CL_PARTIES_MAX 1024u /* that one process can meet: NET_PEERS_MAX */
#define CL_PARTIES_OF_NODE(pools) ((pools) + 2u) /* its process, its gateway, and a leader of each pool */
#define CL_POOL_HOMES 63u /* no pool: parties of it are nodes' gateways */
#define CL_ID        16u
#define CL_DRIVES_MAX 64u
#define CL_SWITCHES_MAX 256u
#define CL_NAMES_MAX 256u

/*
 * The number by which net/ knows the leader process of a pool on a node, whose terms have it, too; with
 * CL_POOL_HOMES the node's gateway, which is a home of all pools. That of the node process is the node's.
 */
static inline uint16_t cl_party(unsigned node, unsigned pool)
{
        return (uint16_t)(pool * (CL_NODE_LAST + 1) + node);
}

/* 0: a node process. */
static inline unsigned cl_party_pool(uint16_t party)
{
        return party / (CL_NODE_LAST + 1);
}

/* Letters, digits, '-', '_' and '.', from a letter or digit on. */
bool cl_name_is_sound(const char *name);

enum cl_key_kind { CL_KEY_FORMAT, CL_KEY_NODE, CL_KEY_BOOT, CL_KEY_CONFIG, CL_KEY_LEADER, CL_KEY_SWITCHES, CL_KEY_RESEED, CL_KEY_REPORT, CL_KEY_NAMES };
/* number: the node's or pool's; the others have none. Returns the length. */
size_t cl_key_name(const char *cluster, enum cl_key_kind key, unsigned number, char out[CL_KEY_NAME_MAX]);
/* What all keys of the cluster begin with. Returns the length. */
size_t cl_key_prefix(const char *cluster, char out[CL_KEY_NAME_MAX]);
/* The other way round. False: it is none of these, or its number is out of range. */
bool cl_key_parse(const char *cluster, const void *key, size_t len, enum cl_key_kind *kind, unsigned *number);

struct cl_format {
        uint8_t cluster_id[CL_ID];
        uint64_t generation, random;
};
enum cl_node_state { CL_NODE_IN, CL_NODE_DRAINING, CL_NODE_GONE };
struct cl_node {
        char name[CL_NAME_MAX];
        char address[256], s3[256]; /* "HOST:PORT" of its drive server, and of its gateway */
        char admin[256];            /* likewise; "": a build before did not say */
        char version[32];           /* of its millraced; "" likewise */
        uint64_t room;              /* bytes of the file systems that the folders in `drives` are on */
        uint16_t rack;
        enum cl_node_state state;
        uint64_t boot; /* of the process that entered it */
        /* Ids that it has given to folders which are no drives yet: what a new pool may be made of. No "drives": none. */
        unsigned drive_count;
        uint8_t drives[CL_DRIVES_MAX][CL_ID];
};
struct cl_boot {
        uint64_t boot; /* below 2^24: object ids have it */
        uint8_t claim[CL_ID]; /* random, as an owner's */
};
struct cl_config {
        uint8_t store_id[CL_ID];
        uint64_t number; /* the epoch's */
        size_t epoch_len;
        _Alignas(8) uint8_t epoch[CL_EPOCH_MAX];
};
struct cl_owner {
        uint16_t node;
        uint64_t boot;
        uint8_t claim[CL_ID]; /* random: each attempt has another, by which it knows its own value (R1) */
};

/* Which number each name has; both are unique. */
struct cl_names {
        unsigned count;
        struct {
                char name[CL_NAME_MAX];
                uint16_t number;
        } at[CL_NAMES_MAX];
};
/* 0: none. */
uint16_t cl_names_number(const struct cl_names *names, const char *name);
/* NULL: none. */
const char *cl_names_name(const struct cl_names *names, uint16_t number);
/* False: there is no room, or name or number are there already. */
bool cl_names_add(struct cl_names *names, const char *name, uint16_t number);

/* 2 x len lower-case digits. False: anything else. */
bool cl_hex_read(const char *text, uint8_t *out, size_t len);
/* 16 of them, as a number: 64 bits do not fit in one of JSON. */
bool cl_hex64_read(const char *text, uint64_t *out);

/* Each writes at most CL_JSON_MAX bytes into out, and returns the length; 0: no memory. */
size_t cl_format_write(const struct cl_format *format, char out[CL_JSON_MAX]);
size_t cl_node_write(const struct cl_node *node, char out[CL_JSON_MAX]);
size_t cl_boot_write(const struct cl_boot *boot, char out[CL_JSON_MAX]);
size_t cl_config_write(const struct cl_config *config, char out[CL_JSON_MAX]);
size_t cl_owner_write(const struct cl_owner *owner, char out[CL_JSON_MAX]);
/* 0: also if it is too long. */
size_t cl_names_write(const struct cl_names *names, char out[CL_JSON_MAX]);
/* Each: 0, -EBADMSG, or -ENOMEM. */
int cl_format_read(const void *value, size_t len, struct cl_format *out);
int cl_node_read(const void *value, size_t len, struct cl_node *out);
int cl_boot_read(const void *value, size_t len, struct cl_boot *out);
int cl_config_read(const void *value, size_t len, struct cl_config *out);
int cl_owner_read(const void *value, size_t len, struct cl_owner *out);
int cl_names_read(const void *value, size_t len, struct cl_names *out);

#endif
