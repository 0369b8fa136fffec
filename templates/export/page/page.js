const $ = (id) => document.getElementById(id);
const SHOWN = 6; // candidates of a token
const SLICE = 10; // milliseconds of work between two frames

const frame = () => new Promise(requestAnimationFrame);

// ---- the model ------------------------------------------------------------------------------------------------------

const compiled = WebAssembly.compile(Uint8Array.from(atob($("module").textContent), (c) => c.charCodeAt(0)));
let model = null;

// The most likely tokens with their probabilities, and the one that was taken.
function weighed(scores, taken) {
  const most = scores.reduce((left, right) => Math.max(left, right));
  const parts = Array.from(scores, (score) => Math.exp(score - most));
  const sum = parts.reduce((left, right) => left + right);
  const order = Array.from(parts.keys()).sort((left, right) => parts[right] - parts[left] || left - right);
  const shown = order.slice(0, SHOWN);
  if (!shown.includes(taken)) {
    shown[SHOWN - 1] = taken;
  }
  return shown.map((token) => ({ token, part: parts[token] / sum, taken: token === taken }));
}

// ---- writing --------------------------------------------------------------------------------------------------------

const tokens = []; // what is on the paper: token, text, what was weighed
let running = null;
let chosen = -1;

async function write() {
  const begin = $("prompt").value;
  const prompt = encode(begin);
  stop();
  const run = (running = {});
  tokens.length = 0;
  chosen = -1;
  $("begin").textContent = begin;
  $("text").replaceChildren();
  $("speed").textContent = "–";
  $("choices").replaceChildren();
  if (prompt.length === 0 || prompt.length > facts.context) {
    const why = prompt.length ? `it has ${prompt.length} tokens, and ${facts.context} fit` : "type how it begins";
    finish(run, `Nothing written: ${why}.`);
    return;
  }
  document.body.classList.add("writing");
  $("write").textContent = "Stop";
  model ??= await instantiate(await compiled);
  const push = decoder();
  const options = { count: Number($("count").value), temperature: Number($("daring").value) };
  const words = model.generate(prompt, options);
  let spent = 0;
  while (running === run) {
    const began = performance.now();
    const next = words.next();
    spent += performance.now() - began;
    if (next.done) {
      break;
    }
    tokens.push({ token: next.value, text: push(next.value), choices: weighed(model.outputs, next.value) });
    show(tokens.length - 1);
    $("speed").textContent = Math.round((prompt.length + tokens.length - 1) / (spent / 1000)).toLocaleString("en");
    await frame();
  }
  finish(run, `${tokens.length} tokens. Point at a word, or press ← and →.`);
}

function show(index) {
  const span = document.createElement("span");
  span.className = "token";
  span.dataset.index = index;
  span.textContent = tokens[index].text;
  $("text").append(span);
  choices(index);
}

function stop() {
  running = null;
}

function finish(run, text) {
  if (running !== null && running !== run) {
    return; // another one has begun
  }
  running = null;
  document.body.classList.remove("writing");
  $("write").textContent = "Write";
  $("about").textContent = text;
}

// ---- what it weighed ------------------------------------------------------------------------------------------------

const visible = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "⏎") || "∅";

function choices(index) {
  const rows = tokens[index].choices.map(({ token, part, taken }) => {
    const row = document.createElement("li");
    const [bar, word, share] = ["bar", "word", "part"].map((name) => {
      const span = document.createElement("span");
      span.className = name;
      return span;
    });
    bar.style.width = `${100 * part}%`;
    word.textContent = visible(decode([token]));
    share.textContent = `${(100 * part).toFixed(1)} %`;
    word.classList.toggle("taken", taken);
    row.append(bar, word, share);
    return row;
  });
  $("choices").replaceChildren(...rows);
}

function choose(index) {
  if (index < 0 || index >= tokens.length) {
    return;
  }
  $("text").children[chosen]?.classList.remove("chosen");
  chosen = index;
  $("text").children[index].classList.add("chosen");
  choices(index);
  $("about").textContent = `Token ${index + 1} of ${tokens.length}.`;
}

// ---- the same bits --------------------------------------------------------------------------------------------------

// The golden inputs of `colibri test`: its digest is over status and bits of every answer.
async function check() {
  const own = await instantiate(await compiled);
  own.verify();
  const pieces = [];
  const answer = (status, bytes) => pieces.push(new Uint8Array(Int32Array.of(status).buffer), bytes);
  let until = performance.now() + SLICE;
  for (const [op, words] of golden.requests) {
    for (const one of op === "S" ? words.map((word) => [word]) : [words]) {
      const answered = own.ask(op, one);
      if (op !== "I") {
        answer(...answered);
      }
      if (performance.now() > until) {
        await frame();
        until = performance.now() + SLICE;
      }
    }
  }
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return sha256(whole);
}

async function judge() {
  const say = (verdict, name, proof) => {
    $("verdict").textContent = verdict;
    $("verdict").className = name;
    $("proof").textContent = proof;
  };
  try {
    const digest = await check();
    const [found, wanted] = [digest, golden.digest].map((whole) => whole.slice(0, 16));
    if (digest === golden.digest) {
      say("✓ equal", "equal", `${golden.outputs.toLocaleString("en")} outputs, digest ${found}: as on every board`);
    } else {
      say("✗ different", "different", `digest ${found}, the reference has ${wanted}`);
    }
  } catch (error) {
    say("✗ failed", "different", error.message);
  }
}

// Write, or say why not: a browser may lack what the module needs.
function begin() {
  const failed = (error) => {
    running = null;
    finish(null, error.message);
  };
  return write().catch(failed);
}

// ---- hands ----------------------------------------------------------------------------------------------------------

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (running) {
    stop();
  } else {
    begin();
  }
});
for (const offer of document.querySelectorAll(".offer")) {
  offer.addEventListener("click", () => {
    $("prompt").value = offer.dataset.prompt;
    begin();
  });
}
$("count").addEventListener("input", () => ($("count-text").textContent = $("count").value));
$("daring").addEventListener("input", () => {
  const value = Number($("daring").value);
  $("daring-text").textContent = value ? value.toFixed(2) : "none: the same words on every machine";
});
$("text").addEventListener("pointerover", (event) => choose(Number(event.target.dataset.index ?? -1)));
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    stop();
  } else if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && event.target.tagName !== "INPUT") {
    const last = chosen < 0 ? tokens.length : chosen;
    choose(event.key === "ArrowLeft" ? last - 1 : chosen + 1);
    event.preventDefault();
  }
});

begin().then(judge);
