// The handler of the tests: it does what the payload says.

import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** @type {import("../attempt.mjs").Handler} */
export async function handle(job, ctx) {
  const { ms = 0, fail, permanent, hang } = job.payload ?? {};
  if (fail) throw Object.assign(new Error(fail), { permanent });
  if (hang && job.fence === 1) {
    ctx.progress("hanging");
    await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
    writeFileSync(`heard-${job.id}`, ctx.signal.reason.message);
    throw ctx.signal.reason;
  }
  await sleep(ms);
  return "node";
}
