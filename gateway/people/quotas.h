/*
 * quotas.h - how many there can be, and how large: AWS's quotas, but for those that say so. people_change.c keeps
 * them; GetAccountSummary tells them.
 */
#ifndef GATEWAY_PEOPLE_QUOTAS_H
#define GATEWAY_PEOPLE_QUOTAS_H

#define ACCOUNTS_MAX       10000u  /* ours */
#define USERS_MAX          500000u /* ours: AWS has 5,000 */
#define GROUPS_MAX         300u
#define ROLES_MAX          5000u
#define POLICIES_MAX       5000u
#define PROVIDERS_MAX      100u
#define THUMBPRINTS_MAX    5u /* of a provider; GW_CLIENTS_MAX are its clients */
#define KEYS_OF_USER_MAX   2u
#define GROUPS_OF_USER_MAX 10u
#define ATTACHED_MAX       20u
#define TAGS_MAX           50u
#define VERSIONS_MAX       5u
#define POLICY_CHARS       6144u /* without white space, as the next */
#define INLINE_USER_CHARS  2048u /* all of one user together */
#define INLINE_GROUP_CHARS 5120u
#define INLINE_ROLE_CHARS  10240u

#endif
