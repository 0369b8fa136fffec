"""Run a WASI module in Wasmtime: standard streams and exit code are the module's, a trap is code 125.

Started as a program of its own, so that a module that hangs can be ended like any other.
"""

import sys

import wasmtime

TRAPPED = 125  # PORT_FAULT_EXIT in runtime_c/ports/fault.h
REFUSED = 126


def main() -> int:
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    wasi = wasmtime.WasiConfig()
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    store.set_wasi(wasi)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    try:
        instance = linker.instantiate(store, wasmtime.Module.from_file(engine, sys.argv[1]))
    except wasmtime.WasmtimeError as error:
        print(f"colibri host: the module cannot be loaded: {str(error).splitlines()[0]}", file=sys.stderr)
        return REFUSED
    start = instance.exports(store)["_start"]
    assert isinstance(start, wasmtime.Func)
    try:
        start(store)
    except wasmtime.ExitTrap as end:
        return end.code
    except wasmtime.Trap as trap:
        functions = [frame.func_name or "?" for frame in trap.frames]
        place = f" in {functions[0]}" if functions else ""
        print(f"!trap {trap.message.splitlines()[-1].strip()}{place}", file=sys.stderr)
        return TRAPPED
    return 0


sys.exit(main())
