// SHA-256 (FIPS 180-4) of bytes, in hexadecimal: what a browser brings is not there on every kind of address.
function sha256(bytes) {
  const primes = [];
  for (let n = 2; primes.length < 64; n++) {
    if (primes.every((prime) => n % prime)) {
      primes.push(n);
    }
  }
  const bits = (value) => Math.floor((value % 1) * 2 ** 32) | 0;
  const constants = primes.map((prime) => bits(Math.cbrt(prime)));
  const hash = Int32Array.from(primes.slice(0, 8), (prime) => bits(Math.sqrt(prime)));
  const padded = new Uint8Array(((bytes.length + 72) >> 6) << 6);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, bytes.length << 3);
  const turn = (word, by) => (word >>> by) | (word << (32 - by));
  const words = new Int32Array(64);
  for (let block = 0; block < padded.length; block += 64) {
    for (let i = 0; i < 64; i++) {
      if (i < 16) {
        words[i] = view.getInt32(block + 4 * i);
        continue;
      }
      const [x, y] = [words[i - 15], words[i - 2]];
      const low = turn(x, 7) ^ turn(x, 18) ^ (x >>> 3);
      const high = turn(y, 17) ^ turn(y, 19) ^ (y >>> 10);
      words[i] = words[i - 16] + low + words[i - 7] + high;
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let i = 0; i < 64; i++) {
      const choice = (e & f) ^ (~e & g);
      const first = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + choice + constants[i] + words[i];
      const second = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (hash[i] += word));
  }
  return Array.from(hash, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}
