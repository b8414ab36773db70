#include "core/text/condition.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"

void sr_condition_free(sr_condition *c) {
    if (c == NULL) return;
    sr_condition_free(c->left);
    sr_condition_free(c->right);
    sr_free(c->name);
    sr_free(c->text);
    sr_free(c);
}

const json_t *sr_record_member(const json_t *record, const char *name) {
    const json_t *whole = json_object_get(record, name);
    if (whole != NULL) return whole;
    const char *dot = strchr(name, '.');
    if (dot == NULL) return NULL;
    const json_t *part = json_object_getn(record, name, (size_t)(dot - name));
    return part != NULL ? sr_record_member(part, dot + 1) : NULL;
}

/* A value as text; NULL for a list or an object. */
static const char *text_of(char *room, size_t size, const json_t *value) {
    if (json_is_string(value)) return json_string_value(value);
    if (json_is_boolean(value)) return json_is_true(value) ? "true" : "false";
    if (json_is_integer(value))
        snprintf(room, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value)) {
        int n = snprintf(room, size, "%.14g", json_real_value(value));
        if (strspn(room, "-0123456789") == (size_t)n) strcat(room, ".0"); /* as Lua has it */
    } else {
        return NULL;
    }
    return room;
}

static bool is_so(sr_compare compare, bool equal, bool less) {
    switch (compare) {
    case SR_EQUAL:
        return equal;
    case SR_UNEQUAL:
        return !equal;
    case SR_LESS:
        return less;
    case SR_AT_MOST:
        return less || equal;
    case SR_MORE:
        return !less && !equal;
    case SR_AT_LEAST:
        return !less;
    default:
        return false;
    }
}

bool sr_condition_compares(const sr_condition *c, const char *text, const double *number) {
    if (c->numeric && number != NULL && c->compare != SR_CONTAINS)
        return is_so(c->compare, *number == c->number, *number < c->number);
    if (text == NULL) return c->compare == SR_UNEQUAL;
    if (c->compare == SR_CONTAINS) return strstr(text, c->text) != NULL;
    int order = strcmp(text, c->text);
    return is_so(c->compare, order == 0, order < 0);
}

static bool compares(const sr_condition *c, const json_t *value) {
    char room[64];
    double number = json_number_value(value);
    return sr_condition_compares(c, text_of(room, sizeof room, value),
                                 json_is_number(value) ? &number : NULL);
}

bool sr_condition_holds(const char **missing, const sr_condition *c, const json_t *record) {
    *missing = NULL;
    if (c->kind == SR_WHERE_HAS || c->kind == SR_WHERE_COMPARE) {
        const json_t *value = sr_record_member(record, c->name);
        if (c->kind == SR_WHERE_HAS)
            return value != NULL && !json_is_null(value) && !json_is_false(value);
        *missing = value == NULL ? c->name : NULL;
        return value != NULL && compares(c, value);
    }
    bool left = sr_condition_holds(missing, c->left, record);
    if (*missing != NULL) return false;
    if (c->kind == SR_WHERE_NOT) return !left;
    if (left == (c->kind == SR_WHERE_OR)) return left; /* the right side is not looked at */
    return sr_condition_holds(missing, c->right, record);
}
