/*
 * net_cert.h - makes the certificates that nodes show one another: a CA of the cluster, and one
 * certificate for each node. Nodes may use certificates of another origin as well.
 *
 * Keys are on P-256. All files are made with mode 0600 and are never written over. Any thread; they
 * write files.
 */
#ifndef MILLRACE_NET_CERT_H
#define MILLRACE_NET_CERT_H

#include <stdbool.h>
#include <stddef.h>

#define NET_CERT_DAYS_CA   7300u
#define NET_CERT_DAYS_NODE 1825u

/*
 * FOLDER/ca.crt and FOLDER/ca.key. Errors: -EEXIST (one of them is there), those of open() and
 * write(); then why has a line for people and no file is left.
 */
int net_cert_make_ca(const char *folder, const char *cluster_name, unsigned days, char *why, size_t why_size);
#define NET_CERT_NAME_RULE "a node's name has letters, digits, - _ and . (not 'ca', and 63 at most), or is an address"
/* A name that net_cert_make_node() takes. */
bool net_cert_names_node(const char *name);
/*
 * FOLDER/NAME.crt and FOLDER/NAME.key, signed by FOLDER/ca.key. name: a host name or an IP address;
 * it becomes the certificate's only subject alternative name. days may be negative, for tests:
 * expired so long ago. Errors: -EINVAL (the name, or the CA's files), as above.
 */
int net_cert_make_node(const char *folder, const char *name, int days, char *why, size_t why_size);

#endif
