// Bare specs, which somebody published without a record: how they become jobs.

import { DEFAULT_LANE } from "./item.mjs";
import { RECORD_MEMBERS, JobRecord } from "./record.mjs";
import { duration, iso } from "./values.mjs";

const DEFAULT_ATTEMPTS = 3;

/**
 * The record of a bare spec, or one that says why it cannot become a job.
 * @param {import("./fabric.mjs").Fabric} fabric
 * @param {import("./item.mjs").Delivery} item @param {string} stage @param {number} asked when the item was stored
 * @param {number} until @returns {Promise<JobRecord>}
 */
export async function adopt(fabric, item, stage, asked, until) {
  try {
    return await adopted(fabric, item, stage, asked, until);
  } catch (err) {
    if (!(err instanceof Rejected)) throw err;
    return rejected(item.id, stage, `item rejected: ${err.message}`, fabric.now());
  }
}

/** @type {typeof adopt} */
async function adopted(fabric, item, stage, asked, until) {
  const spec = parsedSpec(item, stage);
  const waitingOn = [];
  for (const id of spec.get("dependencies") ?? []) {
    const { record } = await fabric.load(id, until);
    if (!record) throw new Rejected(`dependency ${id} does not exist`);
    if (record.state !== "succeeded") waitingOn.push(id);
  }
  const record = spec.with({
    id: item.id, stage,
    input_revision: spec.count("input_revision"),
    max_attempts: spec.count("max_attempts") || DEFAULT_ATTEMPTS,
    priority: spec.get("priority") || (item.lane === DEFAULT_LANE ? undefined : item.lane),
    waiting_on: waitingOn.length > 0 ? waitingOn : undefined,
    attempt: 0, fence: 0, state: "waiting",
    available_at: iso(spec.time("available_at") || asked), created_at: iso(asked), updated_at: iso(asked),
  });
  return record.get("key") ? record.withRaw("key_order", String(item.storedNanos)) : record;
}

class Rejected extends Error {}

/** What each member of a spec may be. @type {{[name: string]: (v: any, item: import("./item.mjs").Delivery, stage: string) => boolean}} */
const RULES = {
  id: (v, item) => !v || v === item.id,
  stage: (v, _, stage) => !v || v === stage,
  input_ref: (v) => typeof v === "string" && v !== "",
  input_revision: (v) => v === undefined || (Number.isInteger(v) && v >= 0),
  max_attempts: (v) => v === undefined || (Number.isInteger(v) && v >= 0),
  priority: (v) => v === undefined || [0, 1, 2, 3, 4].includes(v),
  key: (v) => v === undefined || (typeof v === "string" && Buffer.byteLength(v) <= 256),
  dependencies: (v, item) => v === undefined
    || (new Set(v).size === v.length && v.every((/** @type {string} */ d) => /^[\w=-]{1,128}$/.test(d) && d !== item.id)),
  on_dependency_failure: (v) => !v || v === "wait" || v === "cancel",
  timeout: (v) => v === undefined || duration(v) >= 0,
  available_at: (v) => v === undefined || Date.parse(v) >= 0,
  labels: (v) => v === undefined || Object.values(v).every((text) => typeof text === "string"),
};

/** @param {import("./item.mjs").Delivery} item @param {string} stage */
function parsedSpec(item, stage) {
  let spec;
  try {
    spec = JobRecord.parse(item.text);
  } catch (err) {
    throw new Rejected(`spec: ${err.message}`);
  }
  for (const [name, allows] of Object.entries(RULES)) {
    let fits = false;
    try {
      fits = allows(spec.get(name), item, stage);
    } catch { /* of a type that the rule did not think of */ }
    if (!fits) throw new Rejected(spec.raw(name) ? `spec: ${name} cannot be ${spec.raw(name)}` : `spec: ${name} is missing`);
  }
  const misplaced = spec.names().find((name) => RECORD_MEMBERS.includes(name));
  if (misplaced) throw new Rejected(`spec: ${misplaced} is a member of the record`);
  return spec;
}

/** @param {string} id @param {string} stage @param {string} reason @param {number} now */
function rejected(id, stage, reason, now) {
  return new JobRecord().with({
    id, stage, input_ref: "", input_revision: 0, max_attempts: 1, attempt: 0, fence: 0,
    state: "failed", reason, finished_at: iso(now), created_at: iso(now), updated_at: iso(now),
  });
}
