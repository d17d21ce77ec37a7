// The record of a job and its transitions: no I/O, no clock. Each transition
// takes a record and gives the next one; the caller writes it.

import { iso } from "./values.mjs";

/** How many ended attempts a record remembers. */
const KEPT_ATTEMPTS = 10;
const MAX_REASON = 4096;
const MAX_LOGGED_REASON = 512;
export const LEASE_EXPIRED = "worker lease expired";

const STATES = ["waiting", "retry_waiting", "leased", "succeeded", "failed", "cancelled"];
const ENDED = ["succeeded", "failed", "cancelled"];

/** Members that belong to single states: a change of state removes them all and sets what the new one has. */
const STATE_MEMBERS = [
  "available_at", "worker_id", "lease_expires_at", "item_seq", "progress", "output_ref", "reason", "finished_at",
];

/** Members that a record has and a spec must not have. */
export const RECORD_MEMBERS = [
  "key_order", "waiting_on", "attempt", "fence", "state", "worker_id", "lease_expires_at", "item_seq",
  "progress", "output_ref", "reason", "finished_at", "created_at", "updated_at", "attempts_log",
];

/**
 * A JSON object whose members keep the very text they were read with. A record
 * must be written back as it was but for what a transition changes, and JSON.parse
 * would round `key_order` and the large numbers of a payload.
 */
export class JobRecord {
  /** @type {Map<string, string>} */
  #members;

  /** @param {Map<string, string>} [members] the JSON text of each */
  constructor(members = new Map()) {
    this.#members = members;
  }

  /** @param {string} text */
  static parse(text) {
    return new JobRecord(members(text));
  }

  /**
   * Reads a record and refuses one that nothing can safely be done with.
   * @param {string} text
   * @param {string} id what its key says
   */
  static decode(text, id) {
    const r = JobRecord.parse(text);
    if (r.get("id") !== id) throw new Error(`the record names itself ${r.raw("id")}`);
    if (!STATES.includes(r.state)) throw new Error(`state ${r.raw("state")} is unknown`);
    if (r.state === "leased" && !(r.get("worker_id") && r.time("lease_expires_at"))) {
      throw new Error("a leased record needs worker_id and lease_expires_at");
    }
    for (const name of ["attempt", "fence", "max_attempts"]) {
      if (!(r.count(name) >= 0)) throw new Error(`${name} is not a number`);
    }
    return r;
  }

  /** @param {string} name @returns {any} undefined if it is not there */
  get(name) {
    const raw = this.#members.get(name);
    return raw === undefined ? undefined : JSON.parse(raw) ?? undefined;
  }

  /** @param {string} name */
  raw(name) {
    return this.#members.get(name);
  }

  /** @param {string} name @returns {number} 0 if it is not there */
  count(name) {
    return this.get(name) ?? 0;
  }

  /** @param {string} name @returns {number} ms since 1970, 0 if it is not there */
  time(name) {
    const text = this.get(name);
    const ms = text === undefined ? 0 : Date.parse(text);
    if (Number.isNaN(ms)) throw new Error(`${name} ${text} is not a time`);
    return ms;
  }

  names() {
    return [...this.#members.keys()];
  }

  /** @param {{[name: string]: any}} changes undefined removes a member */
  with(changes) {
    const next = new Map(this.#members);
    for (const [name, value] of Object.entries(changes)) {
      if (value === undefined) next.delete(name);
      else next.set(name, JSON.stringify(value));
    }
    return new JobRecord(next);
  }

  /** @param {string} name @param {string} raw JSON text */
  withRaw(name, raw) {
    return new JobRecord(new Map(this.#members).set(name, raw));
  }

  toString() {
    return `{${[...this.#members].map(([name, raw]) => `${JSON.stringify(name)}:${raw}`).join(",")}}`;
  }

  get state() { return this.get("state"); }
  get ended() { return ENDED.includes(this.state); }
  get waits() { return this.state === "waiting" || this.state === "retry_waiting"; }
  get waitingOn() { return this.get("waiting_on") ?? []; }
  get lane() { return this.get("priority") || 3; }
}

/** One token of JSON; what is between two tokens is white space. */
const TOKEN = /\s*("[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:,]|[^\s"{}[\]:,]+)/y;

/**
 * Splits the text of a JSON object into the texts of its members.
 * @param {string} text
 * @returns {Map<string, string>}
 */
function members(text) {
  const whole = JSON.parse(text); // from here on the text is known to be JSON
  if (whole === null || typeof whole !== "object" || Array.isArray(whole)) throw new Error("not a JSON object");
  let at = 0;
  const next = () => {
    TOKEN.lastIndex = at;
    const token = /** @type {RegExpExecArray} */ (TOKEN.exec(text))[1];
    at = TOKEN.lastIndex;
    return token;
  };
  const found = new Map();
  next(); // {
  for (let name = next(); name !== "}"; name = next()) {
    if (name === ",") name = next();
    next(); // :
    let token = next();
    const start = at - token.length;
    for (let depth = 0; ; token = next()) {
      if (token === "{" || token === "[") depth++;
      if (token === "}" || token === "]") depth--;
      if (depth === 0) break;
    }
    found.set(JSON.parse(name), text.slice(start, at));
  }
  return found;
}

/**
 * Why a record may not be claimed now, or undefined if it may.
 * @param {JobRecord} r @param {number} now
 * @returns {undefined | "ended" | "blocked" | "held" | "early" | "spent"}
 */
export function refusal(r, now) {
  if (r.waitingOn.length > 0) return "blocked";
  if (r.ended) return "ended";
  if (r.state === "leased" && now < r.time("lease_expires_at")) return "held";
  if (r.waits && now < r.time("available_at")) return "early";
  if (r.count("attempt") >= r.count("max_attempts")) return "spent";
}

/**
 * @param {JobRecord} r one that refusal has nothing against
 * @param {{worker: string, now: number, lease: number, seq: number}} claim
 */
export function claim(r, { worker, now, lease, seq }) {
  const log = closed(r, "expired", LEASE_EXPIRED, now).get("attempts_log") ?? [];
  const attempt = r.count("attempt") + 1;
  const fence = r.count("fence") + 1;
  return enter(r, "leased", now, {
    attempt, fence, worker_id: worker, lease_expires_at: iso(now + lease), item_seq: seq,
    attempts_log: [...log, { number: attempt, fence, worker, started: iso(now) }],
  });
}

/** @param {JobRecord} r @param {{now: number, lease: number, progress?: any}} renewal */
export function renew(r, { now, lease, progress }) {
  const next = r.with({ lease_expires_at: iso(now + lease), updated_at: iso(now) });
  return progress === undefined ? next : next.with({ progress });
}

/** @param {JobRecord} r @param {string} outputRef @param {number} now */
export function complete(r, outputRef, now) {
  return enter(closed(r, "succeeded", "", now), "succeeded", now, { output_ref: outputRef, finished_at: iso(now) });
}

/**
 * Ends an attempt: the job waits for its next one, or has failed if none is left.
 * @param {JobRecord} r @param {string} reason @param {number} now @param {number} delay ms
 * @param {"failed" | "expired"} [outcome]
 */
export function fail(r, reason, now, delay, outcome = "failed") {
  if (r.count("attempt") >= r.count("max_attempts")) return discard(r, reason, now, outcome);
  return enter(closed(r, outcome, reason, now), "retry_waiting", now, {
    reason: cut(reason, MAX_REASON), available_at: iso(now + delay),
  });
}

/** Ends the job as failed, whatever attempts are left. @param {JobRecord} r @param {string} reason @param {number} now */
export function discard(r, reason, now, outcome = "failed") {
  return enter(closed(r, outcome, reason, now), "failed", now, {
    reason: cut(reason, MAX_REASON), finished_at: iso(now),
  });
}

/** Ends an attempt whose lease ran out. @param {JobRecord} r @param {number} now */
export const expire = (r, now) => fail(r, LEASE_EXPIRED, now, 0, "expired");

/** Gives the job back at no charge. @param {JobRecord} r @param {number} now */
export function release(r, now) {
  return enter(closed(r, "released", "", now), "waiting", now, {
    attempt: Math.max(0, r.count("attempt") - 1), available_at: iso(now),
  });
}

/** @param {JobRecord} r @param {string} reason @param {number} now */
export function cancel(r, reason, now) {
  return enter(closed(r, "cancelled", reason, now), "cancelled", now, {
    reason: cut(reason, MAX_REASON), finished_at: iso(now),
  });
}

/** @param {JobRecord} r @param {string} state @param {number} now @param {{[name: string]: any}} set */
function enter(r, state, now, set) {
  const gone = Object.fromEntries(STATE_MEMBERS.map((name) => [name, undefined]));
  if (!state.endsWith("waiting")) gone.waiting_on = undefined;
  return r.with({ ...gone, state, updated_at: iso(now), ...set });
}

/**
 * Says how the attempt that runs has ended, if one runs.
 * @param {JobRecord} r @param {string} outcome @param {string} reason @param {number} now
 */
function closed(r, outcome, reason, now) {
  const log = [...(r.get("attempts_log") ?? [])];
  const last = log.at(-1);
  if (r.state === "leased" && last?.fence === r.count("fence") && !last.outcome) {
    log[log.length - 1] = { ...last, ended: iso(now), outcome, ...(reason && { reason: cut(reason, MAX_LOGGED_REASON) }) };
  }
  return log.length === 0 ? r : r.with({ attempts_log: log.slice(-KEPT_ATTEMPTS) });
}

/** Shortens a text to at most n bytes of UTF-8 and keeps its end. @param {string} text @param {number} n */
function cut(text, n) {
  const bytes = new TextEncoder().encode(text); // what is not a character becomes U+FFFD
  if (bytes.length <= n) return new TextDecoder().decode(bytes);
  let from = bytes.length - (n - 4);
  while ((bytes[from] & 0xc0) === 0x80) from++;
  return `... ${new TextDecoder().decode(bytes.subarray(from))}`;
}
