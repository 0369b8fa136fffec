/* fault.c: say where a Windows program died. */
#include "../fault.h"

#include <stdint.h>
#include <windows.h>

#include "../port.h"

/* a full stack leaves no room for the report unless some is kept. */
#define KEPT_BYTES 16384

static LONG CALLBACK on_exception(EXCEPTION_POINTERS *found)
{
    const EXCEPTION_RECORD *record = found->ExceptionRecord;

    port_fault_begin();
    port_fault_field("ntstatus", record->ExceptionCode);
    if (record->ExceptionCode == EXCEPTION_ACCESS_VIOLATION) {
        port_fault_field("address", (uintptr_t)record->ExceptionInformation[1]);
    }
#if defined(__x86_64__)
    port_fault_field("pc", (uintptr_t)found->ContextRecord->Rip);
    port_fault_field("sp", (uintptr_t)found->ContextRecord->Rsp);
#endif
    port_fault_end();
}

__attribute__((constructor)) static void watch_exceptions(void)
{
    ULONG kept = KEPT_BYTES;

    (void)SetThreadStackGuarantee(&kept);
    (void)SetUnhandledExceptionFilter(on_exception);
}
