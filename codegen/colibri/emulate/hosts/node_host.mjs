// Run a module of Colibri in Node: standard streams and exit code are the module's, a trap is code 125.
// These are the three functions of WASI preview 1 that it imports: Node's own WASI is not in all versions.
import { readFileSync, readSync, writeSync } from "node:fs";

const TRAPPED = 125; // PORT_FAULT_EXIT in runtime_c/ports/fault.h
const REFUSED = 126;
const OK = 0;
const INPUT_OUTPUT_ERROR = 29; // errno io

class Exit {
  constructor(code) {
    this.code = code;
  }
}

let memory;

// Move bytes between a file and the pieces that an array of addresses and lengths names.
function transfer(move, fd, pieces, count, done) {
  const view = new DataView(memory.buffer);
  let total = 0;
  try {
    for (let at = pieces; at < pieces + 8 * count; at += 8) {
      const piece = new Uint8Array(memory.buffer, view.getUint32(at, true), view.getUint32(at + 4, true));
      const moved = piece.length === 0 ? 0 : move(fd, piece);
      total += moved;
      if (moved < piece.length) {
        break;
      }
    }
  } catch (error) {
    if (error.code === "EAGAIN") {
      return transfer(move, fd, pieces, count, done);
    }
    if (error.code !== "EOF") {
      return INPUT_OUTPUT_ERROR;
    }
  }
  view.setUint32(done, total, true);
  return OK;
}

const wasi = {
  fd_read: (...where) => transfer(readSync, ...where),
  fd_write: (...where) => transfer(writeSync, ...where),
  proc_exit: (code) => {
    throw new Exit(code);
  },
};

try {
  const module = new WebAssembly.Module(readFileSync(process.argv[2]));
  const { exports } = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi });
  memory = exports.memory;
  exports._start();
} catch (end) {
  if (end instanceof Exit) {
    process.exitCode = end.code;
  } else if (end instanceof WebAssembly.CompileError || end instanceof WebAssembly.LinkError) {
    process.stderr.write(`colibri host: the module cannot be loaded: ${end.message}\n`);
    process.exitCode = REFUSED;
  } else if (end instanceof WebAssembly.RuntimeError || end instanceof RangeError) {
    const place = /^\s+at (\S+) \(wasm:/m.exec(end.stack ?? "");
    process.stderr.write(`!trap ${end.message}${place ? ` in ${place[1]}` : ""}\n`);
    process.exitCode = TRAPPED;
  } else {
    throw end;
  }
}
