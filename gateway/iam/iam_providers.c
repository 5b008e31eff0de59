/*
 * iam_providers.c - IAM's actions about providers of OpenID Connect (rules J1, J10 and J11 in docs/design/sts.md).
 * Nothing here asks an issuer anything. On the request's loop.
 */
#include "gateway/iam/call.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/people/quotas.h"
#include "gateway/sts/issuers.h"

#define THUMBPRINT_LEN 40u
#define HOST_MAX       253u
#define LABEL_MAX      63u

/* ---- URLs ------------------------------------------------------------------------------------ */

static bool is_address(const char *host)
{
        unsigned char room[16];
        char inner[64];
        size_t len = strlen(host);

        if (inet_pton(AF_INET, host, room) == 1)
                return true;
        if (len < 4 || len >= sizeof(inner) || host[0] != '[' || host[len - 1] != ']')
                return false;
        memcpy(inner, host + 1, len - 2);
        inner[len - 2] = '\0';
        return inet_pton(AF_INET6, inner, room) == 1;
}

/* Labels of letters, digits and inner dashes. */
static bool is_host_name(const char *host)
{
        size_t label = 0;

        if (strlen(host) > HOST_MAX)
                return false;
        for (const char *p = host;; p++) {
                if (*p == '.' || *p == '\0') {
                        if (label == 0 || label > LABEL_MAX || p[-1] == '-')
                                return false;
                        if (*p == '\0')
                                return true;
                        label = 0;
                } else if (isalnum((unsigned char)*p) || (*p == '-' && label > 0)) {
                        label++;
                } else {
                        return false;
                }
        }
}

bool iam_provider_url_wrong(const char *url, const char **code, const char **message)
{
        char host[GW_PROVIDER_URL_MAX + 1];
        const char *place = gw_provider_place(url);
        size_t len = strcspn(place, "/?#");

        *code = "ValidationError";
        *message = "Invalid Open ID Connect Provider URL";
        if (place == url)
                return true;
        if (strncmp(url, "https://", 8) != 0) {
                *code = "InvalidInput";
                *message = "Invalid Open ID Connect Provider URL. The URL must begin with https://.";
                return true;
        }
        if (len == 0 || strlen(url) > GW_PROVIDER_URL_MAX)
                return true;
        snprintf(host, sizeof(host), "%.*s", (int)len, place);
        *code = "InvalidInput";
        *message = "Invalid Open ID Connect Provider URL.";
        return strpbrk(place, "?#") != NULL || !(is_address(host) || is_host_name(host));
}

/* What the operator has named is taken as it is: an issuer on a port, or on this machine. False: refused. */
static bool check_url(struct iam_call *call, const char *url)
{
        const char *code, *message;

        if (gw_issuer_find(call->req->loop->gw, url) != NULL || !iam_provider_url_wrong(url, &code, &message))
                return true;
        iam_fail(call, code, message);
        return false;
}

/* ---- lists in the form ----------------------------------------------------------------------- */

/* Case tells members apart. */
static struct gw_pair *name_of_set(struct gw_pair *list, unsigned count, const char *name)
{
        for (unsigned i = 0; i < count; i++)
                if (strcmp(list[i].name, name) == 0)
                        return &list[i];
        return NULL;
}

/* Of "NAME.member.N": N from 1; 0: it is none. */
static unsigned long list_place(const char *text, const char *name)
{
        size_t len = strlen(name);
        unsigned long n;
        char *end;

        if (strncmp(text + len, ".member.", 8) != 0 || text[len + 8] < '1' || text[len + 8] > '9')
                return 0;
        n = strtoul(text + len + 8, &end, 10);
        return *end == '\0' ? n : 0;
}

/*
 * Members in their order, each once. set->list has room for `most`. False: refused; over: so many are too many, and
 * the caller says so.
 */
static bool take_members(struct iam_call *call, const char *name, unsigned most, struct gw_pairs *set, bool *over)
{
        size_t len = strlen(name);
        unsigned highest = 0, count = 0;

        *over = false;
        for (unsigned i = 0; i < call->form.count; i++) {
                const struct iam_pair *pair = &call->form.pair[i];
                unsigned long n;

                if (strncmp(pair->name, name, len) != 0 || (pair->name[len] == '\0' && *pair->value == '\0'))
                        continue;
                n = list_place(pair->name, name);
                if (n == 0) {
                        iam_fail(call, "ValidationError", 
                                 gw_printf(call->req, "%s is a list: %s.member.1 and so on.", name, name));
                        return false;
                }
                *over = *over || n > most;
                if (n > most)
                        continue;
                set->list[n - 1] = (struct gw_pair){.name = pair->value, .text = ""};
                highest = n > highest ? (unsigned)n : highest;
        }
        for (unsigned i = 0; i < highest && !*over; i++) {
                struct gw_pair one = set->list[i];

                if (one.name == NULL) {
                        iam_fail(call, "ValidationError", gw_printf(call->req, "%s lacks a member.", name));
                        return false;
                }
                if (name_of_set(set->list, count, one.name) == NULL)
                        set->list[count++] = one;
        }
        set->count = count;
        return true;
}

static bool list_room(struct iam_call *call, struct gw_pairs *set, unsigned most)
{
        *set = (struct gw_pairs){0, gw_alloc(call->req, most * sizeof(struct gw_pair))};
        if (set->list != NULL)
                return true;
        iam_refuse(call, -ENOMEM);
        return false;
}

static void refuse_clients(struct iam_call *call)
{
        iam_fail(call, "LimitExceeded",
                 gw_printf(call->req, "Cannot exceed quota for ClientIdsPerOpenIdConnectProvider: %u", GW_CLIENTS_MAX));
}

/* As the parameter ClientID. */
static bool take_clients(struct iam_call *call, struct gw_pairs *set)
{
        char message[IAM_MESSAGE_SIZE];
        bool over;

        if (!list_room(call, set, GW_CLIENTS_MAX) || !take_members(call, "ClientIDList", GW_CLIENTS_MAX, set, &over))
                return false;
        if (over) {
                refuse_clients(call);
                return false;
        }
        for (unsigned i = 0; i < set->count; i++)
                if (iam_param_check(IAM_P_CLIENT, set->list[i].name, message, sizeof(message)) != 0) {
                        iam_fail(call, "ValidationError", gw_copy(call->req, s3_str_of(message)));
                        return false;
                }
        return true;
}

/* In small letters, as AWS keeps them; it does not ask whether they are hexadecimal. NULL: it is none. */
static const char *thumbprint_of(struct iam_call *call, const char *text)
{
        char *copy = gw_copy(call->req, s3_str_of(text));

        for (char *p = copy; p != NULL && *p != '\0'; p++) {
                if (*p < '!' || *p > '~')
                        return NULL;
                *p = (char)tolower((unsigned char)*p);
        }
        return strlen(text) == THUMBPRINT_LEN ? copy : NULL;
}

static bool take_thumbprints(struct iam_call *call, struct gw_pairs *set)
{
        unsigned kept = 0;
        bool over;

        if (!list_room(call, set, THUMBPRINTS_MAX) ||
            !take_members(call, "ThumbprintList", THUMBPRINTS_MAX, set, &over))
                return false;
        if (over) {
                iam_fail(call, "InvalidInput", "Thumbprint list must contain fewer than 5 entries.");
                return false;
        }
        for (unsigned i = 0; i < set->count; i++) {
                const char *one = thumbprint_of(call, set->list[i].name);

                if (one == NULL) {
                        iam_fail(call, "InvalidInput", "Thumbprint must be exactly 40 characters.");
                        return false;
                }
                if (name_of_set(set->list, kept, one) == NULL) /* two that differ by case are one */
                        set->list[kept++].name = one;
        }
        set->count = kept;
        return true;
}

/* ---- finding --------------------------------------------------------------------------------- */

bool iam_provider_who(struct iam_call *call)
{
        static const char start[] = "arn:aws:iam::", kind[] = ":oidc-provider/";
        const char *arn = call->in.value[IAM_P_PROVIDER], *account = arn + sizeof(start) - 1, *rest;
        size_t len;

        call->canned = NULL;
        len = strncmp(arn, start, sizeof(start) - 1) == 0 ? strcspn(account, ":") : 0;
        rest = account + len;
        if (len == 0 || *rest == '\0' || strchr(rest, '/') == NULL)
                iam_fail(call, "ValidationError", gw_printf(call->req, "Invalid ARN: %s", arn));
        else if (len != GW_ACCOUNT_ID_LEN || strncmp(account, call->account, len) != 0)
                iam_fail(call, "AccessDenied",
                         gw_printf(call->req, "User: arn:aws:iam::%s:%s%s is not authorized to perform this action on "
                                              "resource: %s",
                                   call->account, *call->caller != '\0' ? "user/" : "root", call->caller, arn));
        else if (strncmp(rest, kind, sizeof(kind) - 1) != 0)
                iam_fail(call, "ValidationError", "Invalid resource type in ARN");
        else if (gw_entity_of_arn(arn, &call->who) != 0)
                iam_fail(call, "ValidationError", gw_printf(call->req, "Invalid ARN: %s", arn));
        else
                return true;
        return false;
}

const struct gw_entity *iam_find_provider(struct iam_call *call)
{
        const struct gw_entity *provider;
        int rv;

        if (!iam_provider_who(call))
                return NULL;
        rv = gw_people_find(call->req->loop, &call->who, &provider, &call->generation);
        if (rv == 0)
                return provider;
        if (rv == -ENOENT)
                iam_fail(call, "NoSuchEntity",
                         gw_printf(call->req, "OpenIDConnect Provider not found for arn %s",
                                   call->in.value[IAM_P_PROVIDER]));
        else
                iam_refuse(call, rv);
        return NULL;
}

static struct gw_entity *edit_provider(struct iam_call *call)
{
        const struct gw_entity *provider = iam_find_provider(call);

        return provider != NULL ? iam_edit(call, provider) : NULL;
}

/* ---- showing --------------------------------------------------------------------------------- */

static void show_arn(struct s3_xml *xml, const struct gw_entity *provider, const char *element)
{
        char arn[IAM_ARN_SIZE];

        if (gw_entity_arn(provider, arn, sizeof(arn)))
                s3_xml_textz(xml, element, arn);
}

static void show_names(struct s3_xml *xml, const struct gw_pairs *set, const char *element)
{
        s3_xml_open(xml, element);
        for (unsigned i = 0; i < set->count; i++)
                s3_xml_textz(xml, "member", set->list[i].name);
        s3_xml_close(xml, element);
}

static int show_created_provider(struct iam_call *call, struct s3_xml *xml)
{
        const struct gw_entity *provider;
        int rv = iam_found(call, &provider);

        if (rv != 0)
                return rv;
        show_arn(xml, provider, "OpenIDConnectProviderArn");
        iam_show_tags(xml, &provider->sets[GW_SET_TAGS]);
        return 0;
}

static int show_provider(struct iam_call *call, struct s3_xml *xml)
{
        const struct gw_entity *provider;
        int rv = iam_found(call, &provider);

        if (rv != 0)
                return rv;
        s3_xml_textz(xml, "Url", gw_provider_place(provider->url));
        show_names(xml, &provider->sets[GW_SET_CLIENTS], "ClientIDList");
        show_names(xml, &provider->sets[GW_SET_THUMBPRINTS], "ThumbprintList");
        iam_show_date(xml, "CreateDate", provider->created_ms);
        iam_show_tags(xml, &provider->sets[GW_SET_TAGS]);
        return 0;
}

/* All of them: there are few, and AWS's answer has no pages. */
static void providers_listed(void *arg, int rv, const struct gw_listed *names, unsigned count, bool more,
                             const char *last)
{
        struct iam_call *call = arg;
        const struct gw_entity *provider;
        struct s3_xml xml;

        if (!gw_back(call->req))
                return;
        if (rv != 0) {
                iam_refuse(call, rv);
                return;
        }
        iam_answer_begin(call, &xml, true);
        s3_xml_open(&xml, "OpenIDConnectProviderList");
        for (unsigned i = 0; i < count; i++) {
                struct gw_entity_name who = iam_who(call, GW_PROVIDER, names[i].name);

                if (gw_people_find(call->req->loop, &who, &provider, NULL) != 0)
                        continue; /* gone meanwhile */
                s3_xml_open(&xml, "member");
                show_arn(&xml, provider, "Arn");
                s3_xml_close(&xml, "member");
        }
        s3_xml_close(&xml, "OpenIDConnectProviderList");
        iam_answer_end(call, &xml, true);
}

/* ---- actions --------------------------------------------------------------------------------- */

void iam_run_create_provider(struct iam_call *call)
{
        const char *url = call->in.value[IAM_P_URL];
        struct gw_entity provider = {.url = url, .created_ms = lp_wall_ms()};
        char name[GW_PROVIDER_NAME];

        if (!check_url(call, url) || !take_clients(call, &provider.sets[GW_SET_CLIENTS]) ||
            !take_thumbprints(call, &provider.sets[GW_SET_THUMBPRINTS]))
                return;
        gw_provider_name(gw_provider_place(url), name);
        call->who = provider.who = iam_who(call, GW_PROVIDER, name);
        provider.sets[GW_SET_TAGS] = (struct gw_pairs){call->in.tag_count, call->in.tags};
        iam_create(call, &provider, show_created_provider);
}

void iam_run_get_provider(struct iam_call *call)
{
        if (iam_find_provider(call) != NULL)
                iam_answer(call, show_provider);
}

void iam_run_list_providers(struct iam_call *call)
{
        struct gw_people_query query = {.kind = GW_PROVIDER, .max = GW_LIST_MAX};
        int rv;

        snprintf(query.account, sizeof(query.account), "%s", call->account);
        rv = gw_people_list(call->req->loop, &query, providers_listed, call);
        if (rv != 0)
                iam_refuse(call, rv);
}

void iam_run_add_client(struct iam_call *call)
{
        const char *client = call->in.value[IAM_P_CLIENT];
        struct gw_entity *provider = edit_provider(call);
        struct gw_pairs *set;

        if (provider == NULL)
                return;
        set = &provider->sets[GW_SET_CLIENTS];
        if (name_of_set(set->list, set->count, client) != NULL) {
                iam_answer(call, NULL);
        } else if (set->count >= GW_CLIENTS_MAX) {
                refuse_clients(call);
        } else {
                set->list[set->count++] = (struct gw_pair){.name = client, .text = ""};
                iam_replace(call, provider, NULL);
        }
}

void iam_run_remove_client(struct iam_call *call)
{
        struct gw_entity *provider = edit_provider(call);
        struct gw_pairs *set;
        struct gw_pair *there;

        if (provider == NULL)
                return;
        set = &provider->sets[GW_SET_CLIENTS];
        there = name_of_set(set->list, set->count, call->in.value[IAM_P_CLIENT]);
        if (there == NULL) {
                iam_answer(call, NULL);
                return;
        }
        iam_pair_drop(set, there);
        iam_replace(call, provider, NULL);
}

void iam_run_thumbprints(struct iam_call *call)
{
        struct gw_pairs set;
        struct gw_entity *provider;

        if (!take_thumbprints(call, &set))
                return;
        if (set.count == 0) {
                iam_fail(call, "InvalidInput", "Thumbprint list must contain at least one entry.");
                return;
        }
        provider = edit_provider(call);
        if (provider == NULL)
                return;
        provider->sets[GW_SET_THUMBPRINTS] = set;
        iam_replace(call, provider, NULL);
}
