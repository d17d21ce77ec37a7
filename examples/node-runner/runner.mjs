#!/usr/bin/env node
// The command: node runner.mjs STAGE HANDLER [options]

import { randomUUID } from "node:crypto";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { connect } from "@nats-io/transport-node";
import { Fabric } from "./fabric.mjs";
import { duration } from "./values.mjs";
import { Worker } from "./worker.mjs";

const USAGE = `usage: node runner.mjs STAGE HANDLER [--server URL] [--namespace NS] [--slots N] [--drain D] [--id ID]

Runs the jobs of STAGE with the function handle(job, ctx) that the module HANDLER exports.

  --server URL     nats://127.0.0.1:4222, or NATS_URL
  --namespace NS   weft, or WEFT_NAMESPACE
  --slots N        jobs at once; 4
  --drain D        how long running jobs may go on after SIGTERM; 30s
  --id ID          the worker's id; a random one`;

/** @param {string} line @returns {never} */
function wrong(line) {
  console.error(`node-runner: ${line}\n${USAGE}`);
  process.exit(2);
}

function command() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        server: { type: "string", default: process.env.NATS_URL ?? "nats://127.0.0.1:4222" },
        namespace: { type: "string", default: process.env.WEFT_NAMESPACE ?? "weft" },
        slots: { type: "string", default: "4" },
        drain: { type: "string", default: "30s" },
        id: { type: "string", default: `rn_${randomUUID()}` },
        help: { type: "boolean", short: "h" },
      },
    });
    if (values.help) {
      console.log(USAGE);
      process.exit(0);
    }
    const [stage, handler, ...more] = positionals;
    const slots = Number(values.slots);
    if (!stage || !handler || more.length > 0) throw new Error("needs a stage and a handler module");
    if (!/^[a-z0-9][a-z0-9_-]{0,63}$/.test(stage)) throw new Error(`${stage} cannot be a stage`);
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(values.id)) throw new Error(`${values.id} cannot be a worker id`);
    if (!(Number.isInteger(slots) && slots > 0)) throw new Error("--slots must be a positive number");
    return { ...values, stage, handler, slots, drain: duration(values.drain) };
  } catch (err) {
    return wrong(err.message);
  }
}

const { server, namespace, stage, handler, slots, drain, id } = command();
const { handle } = await import(pathToFileURL(resolve(handler)).href);
if (typeof handle !== "function") wrong(`${handler} does not export a function handle`);

/** @param {string[]} what */
const log = (...what) => console.error(`${new Date().toISOString()} ${what.filter(Boolean).join(": ")}`);

const nc = await connect({ servers: server, name: `node-runner ${id}`, maxReconnectAttempts: -1 });
const fabric = await Fabric.open(nc, namespace);
const worker = new Worker(fabric, { id, stage, slots, handler: handle, log });

let stops = 0;
const stop = () => {
  worker.stop();
  if (stops++ > 0) return worker.abort(); // twice: at once
  log(`${id} drains`);
  setTimeout(() => worker.abort(), drain).unref();
};
process.on("SIGTERM", stop);
process.on("SIGINT", stop);

log(`${id} runs stage ${stage}`);
await worker.run();
fabric.close();
await nc.drain();
