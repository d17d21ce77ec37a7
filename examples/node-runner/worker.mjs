// A worker of one stage: it takes items, claims their jobs, keeps the leases
// while handlers run, and settles.

import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { createInbox, headers } from "@nats-io/transport-node";
import { adopt } from "./adopt.mjs";
import { Attempt, Draining } from "./attempt.mjs";
import { SHORTEST_RETENTION, Undecided, Unreadable, decoded } from "./fabric.mjs";
import { DEFAULT_LANE, Delivery, itemsRecord } from "./item.mjs";
import { claim, expire, refusal, release } from "./record.mjs";
import { iso } from "./values.mjs";

const MAX_ROUNDS = 32;
const STAGE_FRESH = 5000;
const PULL_EXPIRES = 10_000;
const ANNOUNCE_EVERY = 10_000;

export class Worker {
  /** @type {Map<string, Attempt>} one claim of a job in a process */
  held = new Map();
  #stopping = new AbortController();
  /** @type {{stage: import("./fabric.mjs").Stage, ackWait: number, read: number} | undefined} */
  #settings;

  /**
   * @param {import("./fabric.mjs").Fabric} fabric
   * @param {{id: string, stage: string, slots: number, handler: import("./attempt.mjs").Handler, log: (...what: string[]) => void}} options
   */
  constructor(fabric, { id, stage, slots, handler, log }) {
    this.fabric = fabric;
    this.id = id;
    this.stage = stage;
    this.slots = slots;
    this.handler = handler;
    this.log = log;
    this.started = fabric.now();
  }

  /** Takes and runs jobs until stop, and then until those that run have ended. */
  async run() {
    const { nc, namespace } = this.fabric;
    const signals = nc.subscribe(`${namespace}.signal.${this.id}`, {
      callback: (_, msg) => { this.held.get(msg.string())?.renew(); }, // something happened to its job
    });
    await this.#fresh();
    this.#announce();
    const known = setInterval(() => this.#announce(), ANNOUNCE_EVERY);
    await Promise.all(Array.from({ length: this.slots }, (_, i) => this.#slot(i)));
    clearInterval(known);
    signals.unsubscribe();
    await this.fabric.kv.delete(`worker.${this.id}`).catch(() => {});
  }

  /** Takes no more jobs. */
  stop() {
    this.#stopping.abort();
  }

  /** Stops what still runs; it is given back at no charge. */
  abort() {
    this.stop();
    for (const a of this.held.values()) a.controller.abort(new Draining("the runner stops"));
  }

  /** One slot: a job at a time. @param {number} index */
  async #slot(index) {
    while (!this.#stopping.signal.aborted) {
      try {
        const { stage } = await this.#fresh();
        if (stage.concurrency > 0 && index >= stage.concurrency) {
          await sleep(1000, undefined, { signal: this.#stopping.signal }).catch(() => {});
          continue;
        }
        const item = await this.#pull();
        if (!item) continue;
        const a = await this.#take(item);
        if (!a) continue;
        if (this.#stopping.signal.aborted) a.controller.abort(new Draining("the runner stops"));
        try {
          // A claim that crossed the stop is not started.
          await (a.controller.signal.aborted ? a.settle((r) => release(r, this.fabric.now())) : a.run(this.handler));
        } finally {
          if (this.held.get(a.id) === a) this.held.delete(a.id);
        }
      } catch (err) {
        this.log("no job taken", this.stage, err.message); // an item stays, and comes again after ack-wait
        await sleep(500, undefined, { signal: this.#stopping.signal }).catch(() => {});
      }
    }
  }

  /** The stage's settings, at most a few seconds old. */
  async #fresh() {
    if (this.#settings && Date.now() - this.#settings.read < STAGE_FRESH) return this.#settings;
    const read = Date.now();
    const { fabric } = this;
    const stage = await fabric.stage(this.stage);
    const info = await fabric.jsm.consumers.info(this.#stream, "runners");
    this.#settings = { stage, ackWait: (info.config.ack_wait ?? 0) / 1e6, read };
    return this.#settings;
  }

  get #stream() {
    return `${this.fabric.namespace.toUpperCase()}_${this.stage}`;
  }

  /**
   * Takes one item: lane by lane what is there, and when there is nothing, what
   * comes first on any lane.
   * @returns {Promise<Delivery | undefined>}
   */
  async #pull() {
    const { stage, ackWait } = await this.#fresh();
    const lanes = [...new Set([DEFAULT_LANE, ...stage.lanes])].sort();
    if (lanes.length > 1) {
      for (const lane of lanes) {
        const item = await this.#request([lane], { batch: 1, no_wait: true }, ackWait);
        if (item) return item;
      }
    }
    return this.#request(lanes, { batch: 1, expires: PULL_EXPIRES * 1e6 }, ackWait);
  }

  /** @param {number[]} lanes @param {{batch: number, no_wait?: boolean, expires?: number}} pull @param {number} ackWait */
  async #request(lanes, pull, ackWait) {
    const { nc } = this.fabric;
    const { signal } = this.#stopping;
    if (signal.aborted) return undefined;
    /** @type {Delivery[]} */
    const items = [];
    let odd = "";
    let over = () => {};
    const first = new Promise((resolve) => { over = () => resolve(undefined); });
    const inbox = createInbox();
    const sub = nc.subscribe(inbox, {
      callback: (_, msg) => {
        const status = msg.headers?.code ?? 0;
        if (status === 0) items.push(new Delivery(msg, ackWait));
        else if (status !== 404 && status !== 408) odd = `${status} ${msg.headers?.description}`;
        over(); // 404: nothing there; 408: expired
      },
    });
    const timer = setTimeout(over, PULL_EXPIRES + 1000); // a server that went away answers nothing
    signal.addEventListener("abort", over);
    for (const lane of lanes) {
      const consumer = lane === DEFAULT_LANE ? "runners" : `runners-${lane}`;
      nc.publish(`$JS.API.CONSUMER.MSG.NEXT.${this.#stream}.${consumer}`, JSON.stringify(pull), { reply: inbox });
    }
    await first;
    clearTimeout(timer);
    signal.removeEventListener("abort", over);
    await sub.drain(); // the pulls end with their inbox, and what was on its way has arrived
    if (odd && items.length === 0) throw new Error(`consumer of stage ${this.stage}: ${odd}`);
    const taken = signal.aborted ? undefined : items.shift();
    for (const surplus of items) surplus.nak();
    return taken;
  }

  /**
   * Claims the job of an item, or does with the item what the job's record says.
   * @param {Delivery} item @returns {Promise<Attempt | undefined>}
   */
  async #take(item) {
    const { stage } = await this.#fresh();
    const until = Date.now() + stage.lease;
    const own = this.held.get(item.id);
    let at = own ? undefined : itemsRecord(item, this.stage);
    let guess = at !== undefined;
    for (let i = 0; i < MAX_ROUNDS; i++) {
      if (!at) {
        guess = false;
        try {
          at = await this.#found(item, await this.fabric.load(item.id, until), until);
        } catch (err) {
          if (!(err instanceof Unreadable)) throw err;
          this.log("record cannot be read, its item was removed", err.message);
          item.remove();
        }
        if (!at || (own && this.#heldHere(own, at, item, stage.lease))) return undefined;
      }
      const now = this.fabric.now();
      let why = refusal(at.record, now);
      if (why === undefined && at.record.state === "leased" && at.record.get("item_seq") !== item.seq) {
        // Only the clock says that the lease is over; else its own item would have come again.
        await this.fabric.measure();
        if (this.fabric.distrusted(stage.lease)) why = "held";
        else why = refusal(at.record, this.fabric.now());
      }
      if (why && guess) {
        at = undefined; // the item's copy may be old
        continue;
      }
      if (why) {
        await this.#refuse(why, at, item, until);
        return undefined;
      }
      const next = claim(at.record, { worker: this.id, now: this.fabric.now(), lease: stage.lease, seq: item.seq });
      const { saved, current } = await this.fabric.save(next, at.revision, until);
      if (saved) return this.#won(item, saved, stage.lease, until);
      at = undefined;
      if (current.exists) {
        try {
          at = await this.#found(item, decoded(item.id, current), until);
          guess = false;
        } catch {
          at = undefined; // the next round reads and reports
        }
      }
    }
    throw new Undecided(`job ${item.id}: the record changed at every try`);
  }

  /** @param {Delivery} item @param {import("./fabric.mjs").Saved} at @param {number} lease @param {number} until */
  async #won(item, at, lease, until) {
    const by = await this.fabric.supersededBy(at.record, until);
    if (by !== undefined) {
      await this.fabric.cancel(at, `superseded by ${by}`, until);
      item.ack();
      return undefined;
    }
    if (this.fabric.now() >= at.record.time("lease_expires_at")) {
      throw new Error(`job ${item.id}: claimed, but the lease ran out meanwhile`);
    }
    const a = new Attempt(this, item, at, lease);
    this.held.set(a.id, a);
    return a;
  }

  /**
   * @param {NonNullable<ReturnType<typeof refusal>>} why
   * @param {import("./fabric.mjs").Saved} at @param {Delivery} item @param {number} until
   */
  async #refuse(why, at, item, until) {
    const { record } = at;
    switch (why) {
      case "ended":
      case "blocked":
        return item.remove();
      case "held":
        if (record.get("item_seq") !== item.seq) return item.remove(); // a duplicate: the holder has another
        return item.nak(record.time("lease_expires_at") - this.fabric.now());
      case "early":
        if (await this.fabric.offer(at, until) === "schedule") item.ack();
        return;
      case "spent": { // its last attempt was lost with its worker
        const done = await this.fabric.transition(at, (r) =>
          r.state === "leased" && this.fabric.now() >= r.time("lease_expires_at") ? expire(r, this.fabric.now()) : undefined, until);
        if (!done) this.log("its record has no attempt left and is not leased, or was changed", item.id);
        if (done?.record.ended) item.ack();
        else if (done && await this.fabric.offer(done, until) === "schedule") item.ack();
      }
    }
  }

  /**
   * An item of a job that this process believes to hold. It must not hold it
   * twice. It gives false when that claim is over.
   * @param {Attempt} own @param {import("./fabric.mjs").Saved} at @param {Delivery} item @param {number} lease
   */
  #heldHere(own, at, item, lease) {
    const now = this.fabric.now();
    if (own.busy > 0 || own.at.revision > at.revision) {
      item.nak(lease / 3); // its own write decides
    } else if (own.settled || !own.holds(at.record)) {
      if (!own.settled) own.lose(at.record);
      return false;
    } else if (at.record.get("item_seq") !== item.seq) {
      item.remove();
    } else if (now < at.record.time("lease_expires_at")) {
      item.nak(at.record.time("lease_expires_at") - now);
    } else {
      own.renew();
      item.nak(lease / 3);
    }
    return true;
  }

  /**
   * Goes on with what a read has shown; undefined means that the item is done with.
   * @param {Delivery} item @param {import("./fabric.mjs").Saved | {record?: undefined, revision: number}} at @param {number} until
   * @returns {Promise<import("./fabric.mjs").Saved | undefined>}
   */
  async #found(item, at, until) {
    if (at.record && at.record.get("stage") !== this.stage) {
      this.log("item removed, its job belongs to another stage", item.id);
      return void item.remove();
    }
    if (at.record) return at;
    const record = await this.#made(item, at.revision, until);
    if (!record) {
      this.log("item removed, its job is gone", item.id);
      return void item.remove();
    }
    const plain = record.waits && !record.get("key") && record.waitingOn.length === 0;
    if (plain && record.time("available_at") <= this.fabric.now()) {
      return { record, revision: 0 }; // nothing stands before its claim, whose write makes the record
    }
    const { saved, current } = await this.fabric.save(record, 0, until);
    if (!saved) return this.#found(item, decoded(item.id, current), until);
    if (record.get("key") && !record.ended) await this.#makeCurrent(saved, until);
    return saved;
  }

  /**
   * The record of an item that has none: of a bare spec, or of a job whose record
   * the disk has lost. It gives undefined when the record had its time.
   * @param {Delivery} item @param {number} marker the revision of what an expired record left behind, or 0
   * @param {number} until
   */
  async #made(item, marker, until) {
    const stored = Number(item.storedNanos / 1_000_000n);
    const now = this.fabric.now();
    if (item.revision > 0) {
      return marker > 0 || now - stored >= SHORTEST_RETENTION ? undefined : itemsRecord(item, this.stage)?.record;
    }
    const record = await adopt(this.fabric, item, this.stage, Math.min(stored, now), until);
    if (record.ended) this.log("it cannot become a job", item.id, record.get("reason"));
    return record;
  }

  /** Moves the pointer of a new job's key to it and cancels the job that it named. @param {import("./fabric.mjs").Saved} at @param {number} until */
  async #makeCurrent(at, until) {
    const before = await this.fabric.advance(at.record, until);
    const id = at.record.get("id");
    // If the pointer is ahead the job's own claim finds that, and cancels it.
    if (!before || before.id === id || before.order > BigInt(/** @type {string} */ (at.record.raw("key_order")))) return;
    const old = await this.fabric.load(before.id, until);
    if (old.record && !old.record.ended) await this.fabric.cancel(old, `superseded by ${id}`, until);
  }

  /** Makes the worker known to people; nothing is decided by it. */
  async #announce() {
    const running = [...this.held.values()].map((a) => ({
      job_id: a.id, stage: this.stage, attempt: a.at.record.count("attempt"), fence: a.fence, since: iso(a.since),
    }));
    const h = headers();
    h.set("Nats-TTL", `${3 * ANNOUNCE_EVERY / 1000}s`);
    const { js, namespace } = this.fabric;
    await js.publish(`$KV.${namespace}.worker.${this.id}`, JSON.stringify({
      id: this.id, host: hostname(), pid: process.pid, stages: [this.stage], slots: this.slots, running,
      started: iso(this.started), seen: iso(this.fabric.now()),
    }), { headers: h }).catch(() => {});
  }
}

