/* status.c: texts of the status codes. */
#include "colibri.h"

const char *colibri_status_text(colibri_status status)
{
    switch (status) {
#define X(name, value, text) \
    case name:               \
        return text;
        COLIBRI_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}
