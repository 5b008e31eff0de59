/*
 * iam_call.c - see iam_call.h. Answers are XML of 16 MiB at most; what the daemon sends is data, so elements that are
 * missing or of another shape read as empty.
 */
#include "iam_call.h"

#include <errno.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <stdlib.h>
#include <string.h>

#include "command_admin.h"
#include "s3.h"

#define IAM_VERSION "2010-05-08"
#define DEPTH_MAX   12u
#define PAGES_MAX   100000u

struct cli_iam cli_iam(struct cli_call *call, const char *action)
{
        struct cli_iam iam = {.call = call, .action = action};

        cli_iam_add(&iam, "Action", action);
        cli_iam_add(&iam, "Version", IAM_VERSION);
        return iam;
}

void cli_iam_add(struct cli_iam *iam, const char *name, const char *value)
{
        if (value == NULL || iam->count == CLI_IAM_PAIRS_MAX)
                return;
        iam->pairs[2 * iam->count] = name;
        iam->pairs[2 * iam->count + 1] = value;
        iam->pairs[2 * ++iam->count] = NULL;
}

/* ---- XML as JSON ----------------------------------------------------------------------------- */

static const char *element_name(const xmlNode *node)
{
        return (const char *)node->name;
}

static xmlNode *first_element(xmlNode *node)
{
        while (node != NULL && node->type != XML_ELEMENT_NODE)
                node = node->next;
        return node;
}

static json_t *element_json(xmlNode *node, unsigned depth)
{
        xmlNode *child = first_element(node->children);
        bool list = child != NULL && strcmp(element_name(child), "member") == 0;
        json_t *out, *value;
        xmlChar *text;

        if (child == NULL || depth == DEPTH_MAX) {
                text = xmlNodeGetContent(node);
                out = json_string(text != NULL ? (const char *)text : "");
                xmlFree(text);
                return out;
        }
        out = list ? json_array() : json_object();
        for (; child != NULL; child = first_element(child->next)) {
                value = element_json(child, depth + 1);
                if (list)
                        json_array_append_new(out, value);
                else
                        json_object_set_new(out, element_name(child), value);
        }
        return out;
}

/* The child of the root that has this name, or whose name ends so. NULL: none. */
static xmlNode *child_of_root(xmlDoc *doc, const char *end)
{
        xmlNode *root = xmlDocGetRootElement(doc), *child = root != NULL ? first_element(root->children) : NULL;
        size_t len = strlen(end), name;

        for (; child != NULL; child = first_element(child->next)) {
                name = strlen(element_name(child));
                if (name >= len && strcmp(element_name(child) + name - len, end) == 0)
                        return child;
        }
        return NULL;
}

static void refused(const struct cli_iam *iam, int status, const json_t *error, char code[64])
{
        const char *why = cli_json_text(error, "Code"), *message = cli_json_text(error, "Message");

        if (code != NULL)
                snprintf(code, 64, "%s", *why != '\0' ? why : "Unknown");
        else
                cli_error("%s: HTTP %d%s%s%s%s", iam->action, status, *why != '\0' ? ": " : "", why,
                          *message != '\0' ? ": " : "", message);
}

int cli_iam_ask(const struct cli_iam *iam, json_t **out, char code[64])
{
        struct mr_reply reply;
        struct mr_error err;
        xmlNode *node;
        json_t *error;
        xmlDoc *doc;

        *out = NULL;
        if (code != NULL)
                code[0] = '\0';
        if (mr_iam(iam->call->client, "iam", iam->pairs, &reply, &err) != 0)
                return cli_failed(iam->action, &err);
        doc = xmlReadMemory(reply.body, (int)reply.body_len, NULL, NULL,
                            XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
        node = child_of_root(doc, reply.status == 200 ? "Result" : "Error");
        if (reply.status == 200 && doc != NULL) {
                *out = node != NULL ? element_json(node, 0) : json_object();
                if (json_is_string(*out)) { /* an empty result */
                        json_decref(*out);
                        *out = json_object();
                }
        } else {
                error = node != NULL ? element_json(node, 0) : NULL;
                refused(iam, reply.status, error, code);
                json_decref(error);
        }
        xmlFreeDoc(doc);
        explicit_bzero(reply.body, reply.body_len);
        mr_reply_free(&reply);
        return *out != NULL ? CLI_OK : CLI_FAILED;
}

json_t *cli_iam_members(const json_t *result, const char *list)
{
        json_t *members = json_object_get(result, list);

        return json_is_array(members) ? members : NULL;
}

int cli_iam_pages(const struct cli_iam *iam, const char *list, cli_iam_fn fn, void *arg)
{
        struct cli_iam page = *iam;
        json_t *result = NULL, *before = NULL, *member;
        int status = CLI_OK;
        bool more = true;
        size_t i;

        for (unsigned n = 0; more && status == CLI_OK && n < PAGES_MAX; n++) {
                page.count = iam->count;
                cli_iam_add(&page, "Marker", before != NULL ? cli_json_text(before, "Marker") : NULL);
                status = cli_iam_ask(&page, &result, NULL);
                json_decref(before); /* the marker was its text */
                before = result;
                if (status != CLI_OK)
                        break;
                json_array_foreach(cli_iam_members(result, list), i, member)
                {
                        status = fn(arg, member);
                        if (status != CLI_OK)
                                break;
                }
                more = strcmp(cli_json_text(result, "IsTruncated"), "true") == 0;
        }
        json_decref(before);
        return status;
}

char *cli_iam_document(const json_t *object, const char *name)
{
        struct s3_str text = s3_str_of(cli_json_text(object, name));
        char *out = malloc(text.len + 1);
        int n = out != NULL ? s3_percent_decode(text, false, out, text.len) : -ENOMEM;

        if (n < 0) {
                free(out);
                return NULL;
        }
        out[n] = '\0';
        return out;
}
