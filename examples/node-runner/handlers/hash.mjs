// The SHA-256 of a job's input.

import { createHash } from "node:crypto";

/** @type {import("../attempt.mjs").Handler} */
export async function handle(job, ctx) {
  return createHash("sha256").update(ctx.input()).digest("hex");
}
