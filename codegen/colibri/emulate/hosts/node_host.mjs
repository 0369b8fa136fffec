// Run a WASI module in Node: standard streams and exit code are the module's, a trap is code 125.
import { readFileSync } from "node:fs";
import { WASI } from "node:wasi";

const TRAPPED = 125; // PORT_FAULT_EXIT in runtime_c/ports/fault.h

const wasi = new WASI({ version: "preview1", returnOnExit: true });
const module = new WebAssembly.Module(readFileSync(process.argv[2]));
const instance = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi.wasiImport });
try {
  process.exitCode = wasi.start(instance);
} catch (trap) {
  if (!(trap instanceof WebAssembly.RuntimeError)) {
    throw trap;
  }
  const place = /^\s+at (\S+) \(wasm:/m.exec(trap.stack ?? "");
  process.stderr.write(`!trap ${trap.message}${place ? ` in ${place[1]}` : ""}\n`);
  process.exitCode = TRAPPED;
}
