/* status.c: texts of the status codes. */
#include "colibri.h"

const char *colibri_status_text(colibri_status status)
{
    switch (status) {
#define COLIBRI_X(name, value, text) \
    case name:                       \
        return text;
        COLIBRI_STATUS_LIST(COLIBRI_X)
#undef COLIBRI_X
    }
    return "unknown status";
}
