// What a runner writes to the fabric and reads from it: records by
// compare-and-set, items, pointers of keys, the server's clock.

import { setTimeout as sleep } from "node:timers/promises";
import { headers, nuid } from "@nats-io/transport-node";
import { JetStreamApiError, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { JobRecord, cancel } from "./record.mjs";
import { duration, iso } from "./values.mjs";

const CONFLICT = [10071, 10164];
/** Answers of status 503 that do not pass by themselves. */
const LASTING = [10023, 10077];
/** How long one try waits for its answer. */
const ANSWER_WAIT = 2000;
const MAX_ROUNDS = 32;
const CLOCK_EVERY = 30_000;
const CLOCK_SAMPLES = 3;
const CLOCK_STEP = 1000;
const DAY = 24 * 3_600_000;

/** How long a record is kept after its end, in ms. */
export const RETENTION = { succeeded: 7 * DAY, cancelled: 7 * DAY, failed: 30 * DAY };
export const SHORTEST_RETENTION = Math.min(...Object.values(RETENTION));
/** Longer than any record, so that none outlives what supersedes it. */
const POINTER_TTL = 2 * Math.max(...Object.values(RETENTION));

/**
 * @typedef {object} Entry a key as the stream's leader has it
 * @property {number} revision 0 if there is nothing, not even a marker
 * @property {boolean} exists false if there is nothing, or the marker of a value that is gone
 * @property {string} text
 * @property {string} write the mark of the write that made it
 *
 * @typedef {{record: JobRecord, revision: number}} Saved a record and the revision it is stored at
 * @typedef {{lease: number, concurrency: number, lanes: number[]}} Stage lease in ms
 */

/** The record cannot be read: it is left for a person, never overwritten. */
export class Unreadable extends Error {}

/** No answer came, or none that decides; the write may have been carried out or not. */
export class Undecided extends Error {}

export class Fabric {
  /** The server's time less this process's, in ms. */
  #offset = 0;
  #measured = false;
  #stepped = -Infinity;

  /**
   * @param {import("@nats-io/transport-node").NatsConnection} nc
   * @param {string} namespace
   */
  static async open(nc, namespace) {
    const f = new Fabric(nc, namespace, await jetstreamManager(nc), await new Kvm(nc).open(namespace));
    await f.measure();
    return f;
  }

  /**
   * @param {import("@nats-io/transport-node").NatsConnection} nc
   * @param {string} namespace
   * @param {import("@nats-io/jetstream").JetStreamManager} jsm
   * @param {import("@nats-io/kv").KV} kv
   */
  constructor(nc, namespace, jsm, kv) {
    this.nc = nc;
    this.namespace = namespace;
    this.bucket = `KV_${namespace}`;
    this.js = jetstream(nc);
    this.jsm = jsm;
    this.kv = kv;
    this.clock = setInterval(() => this.measure().catch(() => {}), CLOCK_EVERY);
    this.clock.unref();
  }

  close() {
    clearInterval(this.clock);
  }

  /** The server's time, in ms. */
  now() {
    return Math.trunc(Date.now() + this.#offset);
  }

  /** Measures the difference between the server's clock and this one's: of a few samples the quickest. */
  async measure() {
    let offset = 0;
    let shortest = Infinity;
    for (let i = 0; i < CLOCK_SAMPLES; i++) {
      const asked = Date.now();
      const { ts } = await this.jsm.streams.info(this.bucket);
      const way = Date.now() - asked;
      if (way < shortest) [shortest, offset] = [way, Date.parse(String(ts)) - (asked + way / 2)];
    }
    if (this.#measured && Math.abs(offset - this.#offset) > CLOCK_STEP + shortest) this.#stepped = Date.now();
    this.#offset = offset;
    this.#measured = true;
  }

  /** Whether deadlines may still be of the time before the server's clock was set. @param {number} lease */
  distrusted(lease) {
    return Date.now() - this.#stepped < CLOCK_EVERY + lease;
  }

  /** @param {string} stage @returns {Promise<Stage>} */
  async stage(stage) {
    const entry = await this.kv.get(`stage.${stage}`);
    if (!entry || entry.operation !== "PUT") {
      throw new Error(`there is no stage ${stage}; an enqueue or weft work makes it`);
    }
    const { lease, concurrency = 0, lanes = [] } = entry.json();
    return { lease: duration(lease), concurrency, lanes };
  }

  /**
   * Reads a key from the leader. Without an answer it asks again until the time.
   * @param {string} key @param {number} until local time in ms
   * @returns {Promise<Entry>}
   */
  async get(key, until) {
    const sm = await this.#repeat(until, () =>
      this.jsm.streams.getMessage(this.bucket, { last_by_subj: `$KV.${this.namespace}.${key}` }));
    if (!sm) return { revision: 0, exists: false, text: "", write: "" };
    const marker = sm.header?.get("KV-Operation") || sm.header?.get("Nats-Marker-Reason");
    return { revision: sm.seq, exists: !marker, text: new TextDecoder().decode(sm.data), write: sm.header?.get("Weft-Write") ?? "" };
  }

  /** @param {string} id @param {number} until @returns {Promise<Saved | {record?: undefined, revision: number}>} */
  async load(id, until) {
    return decoded(id, await this.get(`job.${id}`, until));
  }

  /**
   * One compare-and-set. Revision 0 means that the key has no value. It gives the
   * new revision, or what stands there if that is another one; when no answer
   * decides until the time it throws Undecided.
   * @param {string} key @param {string} text @param {number} revision
   * @param {{ttl?: number, until: number}} options ttl in ms, until in local time
   * @returns {Promise<{revision: number, current?: undefined} | {revision?: undefined, current: Entry}>}
   */
  async swap(key, text, revision, { ttl = 0, until }) {
    const mark = nuid.next();
    const creates = revision === 0;
    for (let pause = 5; ; pause = Math.min(2 * pause, 500)) {
      const h = headers();
      h.set("Weft-Write", mark);
      h.set("Nats-Expected-Last-Subject-Sequence", String(revision));
      if (ttl > 0) h.set("Nats-TTL", `${Math.max(1, Math.trunc(ttl / 1000))}s`);
      try {
        const ack = await this.js.publish(`$KV.${this.namespace}.${key}`, text, { headers: h, timeout: ANSWER_WAIT });
        return { revision: ack.seq };
      } catch (err) {
        if (isConflict(err)) {
          const current = await this.get(key, until);
          if (current.write === mark) return { revision: current.revision }; // a try whose answer was lost
          if (creates && !current.exists && current.revision !== revision) {
            revision = current.revision; // a marker, which a new value may replace
            continue;
          }
          if (current.revision !== revision) return { current };
        } else if (!this.#passes(err)) {
          throw err;
        }
        if (Date.now() + pause > until) throw new Undecided(`write ${key}: no answer that decides: ${err.message}`);
      }
      await sleep(pause);
    }
  }

  /**
   * Writes a record at the revision it was made from.
   * @param {JobRecord} record @param {number} revision @param {number} until
   * @returns {Promise<{saved: Saved, current?: undefined} | {saved?: undefined, current: Entry}>}
   */
  async save(record, revision, until) {
    const ttl = RETENTION[/** @type {keyof RETENTION} */ (record.state)];
    const { revision: saved, current } = await this.swap(`job.${record.get("id")}`, record.toString(), revision, { ttl, until });
    return current ? { current } : { saved: { record, revision: /** @type {number} */ (saved) } };
  }

  /**
   * Changes a record as it stands, until a write succeeds. change gives undefined
   * when there is nothing to change.
   * @param {Saved} at @param {(r: JobRecord) => JobRecord | undefined} change @param {number} until
   * @returns {Promise<Saved | undefined>} undefined if there was nothing to change
   */
  async transition(at, change, until) {
    const id = at.record.get("id");
    for (let i = 0; i < MAX_ROUNDS; i++) {
      const next = change(at.record);
      if (!next) return undefined;
      const { saved, current } = await this.save(next, at.revision, until);
      if (saved) return saved;
      const now = decoded(id, current);
      if (!now.record) return undefined;
      at = { record: now.record, revision: now.revision };
    }
    throw new Error(`job ${id}: the record changed at every try`);
  }

  /** Cancels a job, tells its holder and withdraws its item. @param {Saved} at @param {string} reason @param {number} until */
  async cancel(at, reason, until) {
    let holder;
    const done = await this.transition(at, (r) => {
      holder = r.get("worker_id");
      return r.ended ? undefined : cancel(r, reason, this.now());
    }, until);
    if (!done) return;
    const id = done.record.get("id");
    if (holder) this.nc.publish(`${this.namespace}.signal.${holder}`, id);
    // An item or a schedule that stays is void: its next taker acknowledges it.
  }

  /**
   * Publishes what a waiting job needs to come to a worker: nothing while it waits
   * for others, a schedule before its time, and then its item. Both replace what is
   * there. It tells which.
   * @param {Saved} at @param {number} until
   * @returns {Promise<"nothing" | "schedule" | "item">}
   */
  async offer({ record, revision }, until) {
    if (!record.waits || record.waitingOn.length > 0) return "nothing";
    const [id, stage, lane] = [record.get("id"), record.get("stage"), record.lane];
    const item = lane === 3
      ? `${this.namespace}.work.${stage}.${id}`
      : `${this.namespace}.lane.${stage}.${lane}.${id}`;
    const h = headers();
    h.set("Weft-Revision", String(revision));
    const later = record.time("available_at") > this.now();
    if (later) {
      h.set("Nats-Schedule", `@at ${iso(record.time("available_at"))}`);
      h.set("Nats-Schedule-Target", item);
    }
    const subject = later ? `${this.namespace}.later.${stage}.${id}` : item;
    await this.#repeat(until, () => this.js.publish(subject, record.toString(), { headers: h, timeout: ANSWER_WAIT }));
    return later ? "schedule" : "item";
  }

  /**
   * Moves the pointer of the job's key forward to it, unless it is ahead already.
   * @param {JobRecord} record @param {number} until
   * @returns {Promise<{id: string, order: bigint} | undefined>} what the pointer named before
   */
  async advance(record, until) {
    const key = currentKey(record.get("key"));
    const mine = { id: record.get("id"), order: BigInt(record.raw("key_order") ?? 0) };
    for (;;) {
      const entry = await this.get(key, until);
      const pointer = entry.exists ? JobRecord.parse(entry.text) : undefined;
      const before = pointer && { id: pointer.get("id"), order: BigInt(pointer.raw("key_order") ?? 0) };
      if (before && !ahead(mine, before)) return before;
      const text = `{"id":${JSON.stringify(mine.id)},"key_order":${mine.order}}`;
      const { current } = await this.swap(key, text, entry.exists ? entry.revision : 0, { ttl: POINTER_TTL, until });
      if (!current) return before;
    }
  }

  /**
   * The id of the job that supersedes this one, if one does.
   * @param {JobRecord} record @param {number} until
   */
  async supersededBy(record, until) {
    if (!record.get("key")) return undefined;
    const before = await this.advance(record, until);
    const mine = { id: record.get("id"), order: BigInt(record.raw("key_order") ?? 0) };
    return before && ahead(before, mine) ? before.id : undefined;
  }

  /**
   * Repeats a request that was not answered, until the time.
   * @template T @param {number} until @param {() => Promise<T>} request @returns {Promise<T>}
   */
  async #repeat(until, request) {
    for (let pause = 5; ; pause = Math.min(2 * pause, 500)) {
      try {
        return await request();
      } catch (err) {
        if (!this.#passes(err) || Date.now() + pause > until) throw err;
      }
      await sleep(pause);
    }
  }

  /** Whether an error leaves open if the request was carried out, or passes by itself. @param {unknown} err */
  #passes(err) {
    if (err instanceof JetStreamApiError) return err.status === 503 && !LASTING.includes(err.code);
    return !this.nc.isClosed();
  }
}

/** @param {string} id @param {Entry} entry @returns {Saved | {record?: undefined, revision: number}} */
export function decoded(id, entry) {
  if (!entry.exists) return { revision: entry.revision };
  try {
    return { record: JobRecord.decode(entry.text, id), revision: entry.revision };
  } catch (err) {
    throw new Unreadable(`job ${id}: ${err.message}`);
  }
}

/** @param {unknown} err */
const isConflict = (err) => err instanceof JetStreamApiError && CONFLICT.includes(err.code);

/**
 * Whether p supersedes q.
 * @param {{id: string, order: bigint}} p @param {{id: string, order: bigint}} q
 */
export function ahead(p, q) {
  return p.order > q.order || (p.order === q.order && p.id > q.id);
}

/** The KV key of a key's pointer. @param {string} key */
export function currentKey(key) {
  const escaped = [...new TextEncoder().encode(key)].map((byte) => {
    const c = String.fromCharCode(byte);
    return /[A-Za-z0-9_/-]/.test(c) ? c : `=${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  });
  return `current.${escaped.join("")}`;
}
