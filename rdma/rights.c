/*
 * rights.c - the schemes of rights by their names in the protocol. Any thread.
 */
#include "rdma_transport.h"

#include <string.h>

static const struct {
        const char *name;
        enum rdx_rights rights;
} schemes[] = {
        {"window2", RDX_RIGHTS_WINDOW2},
        {"window1", RDX_RIGHTS_WINDOW1},
        {"region", RDX_RIGHTS_REGION},
};

#define SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

const char *rdx_rights_name(enum rdx_rights rights)
{
        for (size_t i = 0; i < SCHEMES; i++)
                if (schemes[i].rights == rights)
                        return schemes[i].name;
        return "";
}

unsigned rdx_rights_named(const char *name)
{
        for (size_t i = 0; i < SCHEMES; i++)
                if (strcmp(name, schemes[i].name) == 0)
                        return schemes[i].rights;
        return 0;
}
