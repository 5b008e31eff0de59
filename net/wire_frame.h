/*
 * wire_frame.h - frames and greetings as bytes and back, and whether a greeting is acceptable. Pure
 * functions over the caller's memory: any thread, no I/O. Private to this folder.
 */
#ifndef MILLRACE_NET_WIRE_FRAME_H
#define MILLRACE_NET_WIRE_FRAME_H

#include "net/wire_format.h"

/* Fills in magic, zero fields, the CRCs of body and head, and writes NET_HEAD_SIZE bytes. */
void net_head_write(struct net_wire_head *head, const void *body, uint8_t out[NET_HEAD_SIZE]);
/*
 * Takes bytes that anybody may have sent. 0, or -EBADMSG: then nothing of *out may be believed. The
 * version is the caller's to judge.
 */
int net_head_read(const uint8_t bytes[NET_HEAD_SIZE], struct net_wire_head *out);
bool net_body_matches(const struct net_wire_head *head, const void *body);

/* Bytes of a whole greeting, head, body and MAC: what the write functions return. */
#define NET_HELLO_SIZE   (NET_HEAD_SIZE + (unsigned)sizeof(struct net_wire_hello) + NET_MAC_LEN)
#define NET_HELLO_MOST   (NET_HELLO_SIZE + (unsigned)sizeof(struct net_secrets))
#define NET_WELCOME_SIZE (NET_HEAD_SIZE + (unsigned)sizeof(struct net_wire_welcome) + NET_MAC_LEN)
#define NET_REFUSED_SIZE (NET_HEAD_SIZE + (unsigned)sizeof(struct net_wire_refused))

/* secret: NULL over TLS. mac: HELLO's, which WELCOME's covers. */
void net_hello_write(const struct net_wire_hello *hello, const uint8_t *secret, uint8_t out[NET_HELLO_SIZE]);
/* The same over TLS, with secrets where there are any. Returns the whole length. */
size_t net_hello_write_secrets(const struct net_wire_hello *hello, const struct net_secrets *secrets, uint8_t out[NET_HELLO_MOST]);
void net_welcome_write(const struct net_wire_welcome *welcome, const uint8_t *secret, const uint8_t mac[NET_MAC_LEN],
                       uint8_t out[NET_WELCOME_SIZE]);
void net_refused_write(const struct net_wire_refused *refused, uint8_t out[NET_REFUSED_SIZE]);
/* Bodies that anybody may have sent, of any version. 0, or -EBADMSG. */
int net_hello_read(const uint8_t *body, size_t len, struct net_wire_hello *out);
/* What such a body says of secrets; none: zeroes. -EBADMSG: more than there can be. */
int net_hello_secrets(const uint8_t *body, size_t len, struct net_secrets *out);
int net_welcome_read(const uint8_t *body, size_t len, struct net_wire_welcome *out);
int net_refused_read(const uint8_t *body, size_t len, struct net_wire_refused *out);
/* The MAC in a greeting's last bytes, and whether it is right, in constant time. */
const uint8_t *net_greeting_mac(const uint8_t *body, size_t len);
bool net_hello_proves(const uint8_t *body, size_t len, const uint8_t secret[NET_SECRET_LEN]);
bool net_welcome_proves(const uint8_t *body, size_t len, const uint8_t secret[NET_SECRET_LEN],
                        const uint8_t mac[NET_MAC_LEN]);

/* What a HELLO is judged by. */
struct net_self {
        uint8_t cluster[NET_CLUSTER_LEN];
        struct net_generation generation;
        uint16_t node;
        uint64_t boot;
        unsigned clock_s;
};

/* NET_REASON_NONE and the version to speak, or the first reason against it, with the numbers for its line. */
enum net_reason net_hello_judge(const struct net_self *self, const struct net_wire_hello *hello, int64_t wall_ms,
                                uint16_t *version, struct net_wire_refused *out);
/* The reason in words, never longer than size. Takes any number for a reason. */
void net_reason_text(const struct net_wire_refused *refused, char *text, size_t size);

#endif
