// Times, durations and references as they stand in a record.

/** The largest output that goes into the record itself, in bytes. */
export const MAX_INLINE_OUTPUT = 8192;

/** @param {number} ms */
export const iso = (ms) => new Date(ms).toISOString();

/** The reference of an output that is kept in the record. @param {string | Uint8Array} output */
export function dataURI(output) {
  if (typeof output === "string") {
    const escaped = encodeURIComponent(output.toWellFormed());
    if (escaped.length <= 2 * Buffer.byteLength(output)) return `data:text/plain;charset=utf-8,${escaped}`;
  }
  const media = typeof output === "string" ? "text/plain;charset=utf-8" : "application/octet-stream";
  return `data:${media};base64,${Buffer.from(output).toString("base64")}`;
}

/** The bytes of a data: URI. @param {string} ref @returns {Buffer} */
export function readDataURI(ref) {
  const match = /^data:([^,]*?)(;base64)?,(.*)$/s.exec(ref);
  if (!match) throw new Error(`${ref.slice(0, 80)} is not a data: URI`);
  if (match[2]) return Buffer.from(match[3], "base64");
  return Buffer.from(match[3].replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16))), "latin1");
}

const UNITS = { ns: 1e-6, us: 1e-3, "µs": 1e-3, "μs": 1e-3, ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** Reads a Go duration such as 1m30s. @param {string} text @returns {number} ms */
export function duration(text) {
  if (text === "0") return 0;
  const parts = [...text.matchAll(/(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)/gy)];
  if (parts.length === 0 || parts.map((p) => p[0]).join("") !== text) throw new Error(`${text} is not a duration such as 1m30s`);
  return parts.reduce((sum, [, n, unit]) => sum + Number(n) * UNITS[/** @type {keyof UNITS} */ (unit)], 0);
}

/** The wait after the given failed attempt, in ms. @param {number} attempt counts from 1 */
export function backoff(attempt, { initial = 1000, max = 300_000, factor = 2, jitter = 0.2 } = {}) {
  const base = Math.min(max, initial * factor ** Math.max(0, attempt - 1));
  return Math.max(1, Math.trunc(base * (1 + jitter * (2 * Math.random() - 1))));
}
