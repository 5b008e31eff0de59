/*
 * The condition keys that are known by name. Called when a policy is compiled; pure.
 */
#include "compiled.h"

static const struct s3_str key_names[ACC_KEY_COUNT] = {
#define KEY_NAME(id, name) [ACC_KEY_##id] = {name, sizeof(name) - 1},
        ACC_KEYS(KEY_NAME)
#undef KEY_NAME
};

struct s3_str acc_key_name(enum acc_key_id id)
{
        return id < ACC_KEY_COUNT ? key_names[id] : (struct s3_str){NULL, 0};
}

struct acc_key acc_key_find(struct s3_str name)
{
        struct acc_key key = {.id = ACC_KEY_OTHER, .name = name};

        for (int id = ACC_KEY_OTHER + 1; id < ACC_KEY_COUNT; id++) {
                struct s3_str known = key_names[id];

                if (known.data[known.len - 1] != '/') {
                        if (!s3_str_eq_nocase(name, known))
                                continue;
                } else {
                        if (name.len <= known.len || !s3_str_starts_nocase(name, known))
                                continue;
                        key.tag = (struct s3_str){name.data + known.len, name.len - known.len};
                }
                key.id = (enum acc_key_id)id;
                break;
        }
        return key;
}
