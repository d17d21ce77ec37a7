// Items of a work stream, and how their server is told what becomes of them.

import { JobRecord } from "./record.mjs";

export const DEFAULT_LANE = 3;

/** An item in the hands of this process. */
export class Delivery {
  /** @param {import("@nats-io/transport-node").Msg} msg @param {number} ackWait ms */
  constructor(msg, ackWait) {
    // $JS.ACK.[domain.account.]stream.consumer.deliveries.stream seq.consumer seq.time.pending[.token]
    const tokens = (msg.reply ?? "").split(".");
    const [, , , seq, , time] = tokens.slice(tokens.length < 11 ? 2 : 4);
    this.msg = msg;
    this.seq = Number(seq);
    this.storedNanos = BigInt(time);
    this.id = msg.subject.split(".").at(-1) ?? "";
    this.revision = Number(msg.headers?.get("Weft-Revision") || 0);
    this.ackWait = ackWait;
    this.touched = Date.now();
  }

  get text() { return this.msg.string(); }

  /** The lane that the item came on: weft.lane.<stage>.<priority>.<id>. */
  get lane() {
    const tokens = this.msg.subject.split(".");
    return tokens[1] === "lane" ? Number(tokens[3]) : DEFAULT_LANE;
  }

  /** Whether nobody else can have been given the item yet. */
  get mine() {
    const held = Date.now() - this.touched;
    return held >= 0 && held < this.ackWait * 7 / 8;
  }

  /** For who has just settled the job. */
  ack() { if (this.mine) this.msg.respond("+ACK"); }

  /** For an item that is void for everybody. */
  remove() { this.msg.respond("+ACK"); }

  /** @param {number} [delay] ms */
  nak(delay = 0) {
    if (this.mine) this.msg.respond(delay > 0 ? `-NAK {"delay":${Math.ceil(delay * 1e6)}}` : "-NAK");
  }

  /** Only after a renewal was written. */
  inProgress() {
    this.msg.respond("+WPI");
    this.touched = Date.now();
  }
}

/** The record that an item carries, if it does. @param {Delivery} item @param {string} stage */
export function itemsRecord(item, stage) {
  if (item.revision === 0) return undefined;
  try {
    const record = JobRecord.decode(item.text, item.id);
    return record.get("stage") === stage ? { record, revision: item.revision } : undefined;
  } catch {
    return undefined;
  }
}

