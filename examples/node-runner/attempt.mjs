// A job in a worker's hands: its handler, its lease and its outcome.

import { Undecided, decoded } from "./fabric.mjs";
import { complete, discard, fail, release, renew } from "./record.mjs";
import { MAX_INLINE_OUTPUT, backoff, dataURI, duration, readDataURI } from "./values.mjs";

const MAX_PROGRESS = 8192;
/** The least time between two renewals that store progress. */
const PROGRESS_GAP = 1000;
const MAX_ROUNDS = 32;
/** How long a handler whose signal was aborted may take before its slot is taken from it. */
const STOP_GRACE = 5000;

/** Why a handler's signal is aborted. */
export class Cancelled extends Error {}
export class LeaseLost extends Error {}
export class TimedOut extends Error {}
export class Draining extends Error {}

/** The job is not this claim's any more; what it had to say counts for nothing. */
class Stale extends Error {}

/** Throw it (or any error with `permanent: true`) when another attempt would not do better. */
export class Permanent extends Error {
  permanent = true;
}

/**
 * @typedef {object} Context what a handler gets beside its job
 * @property {AbortSignal} signal aborted when the job is cancelled, its lease lost, its time over, or the runner stops
 * @property {number} fence
 * @property {() => Buffer} input the input, if input_ref is a data: URI
 * @property {(value: any) => void} progress stored with the next renewal, which comes at once
 *
 * @typedef {(job: any, ctx: Context) => unknown} Handler
 */

/** @typedef {import("./record.mjs").JobRecord} JobRecord */

export class Attempt {
  /** @type {any} */ lost;
  settled = false;
  controller = new AbortController();
  /** @type {any} */ #progress;
  #stored = 0;
  /** @type {NodeJS.Timeout | undefined} set while a renewal with progress is due */ #reporting;
  /** One compare-and-set of a claim at a time: each waits for the one before. */
  #writing = Promise.resolve();
  busy = 0;

  /** @param {import("./worker.mjs").Worker} worker @param {import("./item.mjs").Delivery} item @param {import("./fabric.mjs").Saved} at @param {number} lease */
  constructor(worker, item, at, lease) {
    this.worker = worker;
    this.fabric = worker.fabric;
    this.item = item;
    this.at = at;
    this.lease = lease;
    this.id = at.record.get("id");
    this.fence = at.record.count("fence");
    this.since = Date.now();
  }

  /** Whether a record is leased to this very claim. @param {JobRecord} r */
  holds(r) {
    return r.state === "leased" && r.get("worker_id") === this.worker.id && r.count("fence") === this.fence;
  }

  /** @param {Handler} handler */
  async run(handler) {
    const beat = setInterval(() => this.renew(), Math.min(this.lease, this.item.ackWait) / 3);
    const limit = this.at.record.get("timeout");
    const timer = limit && setTimeout(
      () => this.controller.abort(new TimedOut(`attempt timed out after ${limit}`)), duration(limit));
    let outcome;
    try {
      outcome = this.outcome(await this.#work(handler));
    } catch (err) {
      outcome = this.failure(err);
    } finally {
      clearTimeout(timer);
      clearTimeout(this.#reporting);
      clearInterval(beat);
    }
    try {
      if (this.lost) throw new Stale();
      await this.settle(outcome);
    } catch (err) {
      if (err instanceof Stale) this.worker.log("outcome dropped", this.id, this.lost?.message ?? "");
      else this.worker.log("outcome not recorded, the job will be offered again", this.id, err.message);
    }
  }

  /** The handler, or at the latest the grace after its signal. @param {Handler} handler */
  async #work(handler) {
    const { signal } = this.controller;
    const given = new Promise((_, reject) => {
      signal.addEventListener("abort", () => setTimeout(() => reject(signal.reason), STOP_GRACE).unref());
    });
    given.catch(() => {});
    const job = JSON.parse(this.at.record.toString());
    return await Promise.race([given, (async () => handler(job, {
      signal,
      fence: this.fence,
      input: () => readDataURI(job.input_ref),
      progress: (value) => this.progress(value),
    }))()]);
  }

  /** @param {unknown} output @returns {(r: JobRecord) => JobRecord} */
  outcome(output) {
    const bytes = output instanceof Uint8Array ? output : String(output ?? "");
    if (Buffer.byteLength(bytes) > MAX_INLINE_OUTPUT) {
      return this.failure(new Permanent(`the output is larger than ${MAX_INLINE_OUTPUT} bytes; store it and return where it is`));
    }
    const ref = dataURI(bytes);
    return (r) => complete(r, ref, this.fabric.now());
  }

  /**
   * What an error amounts to. An end that an aborted signal may have caused is not the handler's doing.
   * @param {any} err @returns {(r: JobRecord) => JobRecord}
   */
  failure(err) {
    const { reason } = this.controller.signal;
    const text = reason instanceof TimedOut ? reason.message : String(err?.message ?? err) || "handler failed";
    if (err?.permanent && !(reason instanceof TimedOut)) return (r) => discard(r, text, this.fabric.now());
    if (reason instanceof Draining) return (r) => release(r, this.fabric.now());
    return (r) => fail(r, text, this.fabric.now(), Math.max(0, err?.retryAfter ?? backoff(r.count("attempt"))));
  }

  /** @param {any} value */
  progress(value) {
    const text = JSON.stringify(value);
    if (text === undefined || Buffer.byteLength(text) > MAX_PROGRESS) {
      throw new Error(`progress must be JSON of at most ${MAX_PROGRESS} bytes`);
    }
    this.#progress = value;
    if (this.#reporting) return;
    const wait = Math.max(0, this.#stored + PROGRESS_GAP - Date.now());
    this.#reporting = setTimeout(() => {
      this.#reporting = undefined;
      this.#stored = Date.now();
      this.renew();
    }, wait);
  }

  /** Extends the lease, first in the record and only then in the work stream. */
  async renew() {
    if (this.busy > 0 && this.#progress === undefined) return; // what is under way says as much
    try {
      await this.#change((r) => {
        const progress = this.#progress;
        this.#progress = undefined;
        return renew(r, { now: this.fabric.now(), lease: this.lease, progress });
      });
      this.item.inProgress();
    } catch (err) {
      if (!(err instanceof Stale)) this.worker.log("lease not renewed", this.id, err.message);
    }
  }

  /** Ends the claim, first in the record and then in the work stream. @param {(r: JobRecord) => JobRecord} step */
  async settle(step) {
    if (this.fabric.now() >= this.at.record.time("lease_expires_at")) await this.renew();
    await this.#change(step, true);
    this.settled = true;
    if (this.at.record.ended) return this.item.ack();
    try {
      // An item published anew has replaced the one that would be acknowledged.
      if (await this.fabric.offer(this.at, this.#until()) !== "item") this.item.ack();
    } catch (err) {
      this.worker.log("job recorded, but not offered again yet", this.id, err.message);
    }
  }

  /**
   * One write of the holder. When the record moved but is still leased to this
   * claim, an earlier write has arrived late, and the step is taken from there;
   * otherwise somebody else has decided.
   * @param {(r: JobRecord) => JobRecord} step
   */
  #change(step, last = false) {
    this.busy++;
    const write = this.#writing.then(async () => {
      for (let i = 0; i < MAX_ROUNDS; i++) {
        if (this.lost || this.settled) throw new Stale();
        const { saved, current } = await this.fabric.save(step(this.at.record), this.at.revision, this.#until());
        if (saved) {
          this.at = saved;
          if (last) this.settled = true;
          return;
        }
        let now;
        try {
          now = decoded(this.id, current);
        } catch {
          now = undefined;
        }
        if (!now?.record || !this.holds(now.record)) {
          this.lose(now?.record);
          throw new Stale();
        }
        this.at = /** @type {import("./fabric.mjs").Saved} */ (now);
      }
      throw new Undecided("the record changed at every try");
    }).finally(() => { this.busy--; });
    this.#writing = write.catch(() => {});
    return write;
  }

  /** Somebody else has decided: the handler is told to stop. @param {JobRecord} [r] what they wrote */
  lose(r) {
    this.lost ??= r?.state === "cancelled"
      ? new Cancelled(`job cancelled: ${r.get("reason") ?? ""}`)
      : new LeaseLost("the lease was lost");
    this.controller.abort(this.lost);
  }

  #until() {
    return Date.now() + this.lease;
  }
}

