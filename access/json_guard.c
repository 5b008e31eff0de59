/*
 * What is looked at of a policy's JSON before and while it is read: nesting, length, lists. Called
 * while a policy is compiled; pure; rule A19.
 */
#include "builder.h"

size_t acc_json_depth(struct s3_str text)
{
        size_t depth = 0, deepest = 0;
        bool quoted = false;

        for (size_t i = 0; i < text.len; i++) {
                char c = text.data[i];

                if (quoted && c == '\\')
                        i++;
                else if (c == '"')
                        quoted = !quoted;
                else if (!quoted && (c == '{' || c == '['))
                        depth++;
                else if (!quoted && (c == '}' || c == ']') && depth > 0)
                        depth--;
                deepest = depth > deepest ? depth : deepest;
        }
        return deepest;
}

size_t acc_json_characters(struct s3_str text, bool spaces)
{
        size_t count = 0;

        for (size_t i = 0; i < text.len; i++)
                count += !acc_continues(text.data[i]) && (spaces || memchr(" \t\r\n", text.data[i], 4) == NULL);
        return count;
}

size_t acc_list_count(const json_t *value)
{
        return json_is_array(value) ? json_array_size(value) : 1;
}

json_t *acc_list_at(json_t *value, size_t i)
{
        return json_is_array(value) ? json_array_get(value, i) : value;
}

struct s3_str acc_json_text(const json_t *value)
{
        return (struct s3_str){json_string_value(value), json_string_length(value)};
}
