// Runs the transitions against the fabric's own cases, one JSON object a line,
// and prints how many it looked at. It leaves out those of other programs: cases
// that are about tokens, which this runner has none of, and an operator's retry.

import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { JobRecord, cancel, claim, complete, discard, expire, fail, refusal, renew } from "../record.mjs";

const REFUSED = {
  ended: "terminal_job", held: "lease_held", early: "not_available", spent: "attempt_limit_reached",
};

const STEPS = {
  claim: (r, a, now) => claim(r, { worker: a.worker, now, lease: a.lease, seq: 1 }),
  renew: (r, a, now) => renew(r, { now, lease: a.lease }),
  complete: (r, a, now) => complete(r, a.output_ref, now),
  fail: (r, a, now) => fail(r, a.reason, now, a.retry_delay),
  fail_permanently: (r, a, now) => discard(r, a.reason, now),
  expire: (r, _, now) => expire(r, now),
  cancel: (r, a, now) => cancel(r, a.reason, now),
};

/** Members as values; times in one form, and without what the cases do not judge. */
function plain(job) {
  const { created_at, updated_at, waiting_on, item_seq, attempts_log, ...rest } = job;
  for (const name of ["available_at", "lease_expires_at", "finished_at"]) {
    if (rest[name]) rest[name] = Date.parse(rest[name]);
  }
  return rest;
}

let looked = 0;
for (const line of readFileSync(process.argv[2], "utf8").trim().split("\n")) {
  const { op, args, want } = JSON.parse(line);
  if (!STEPS[op]) continue;
  const record = JobRecord.parse(JSON.stringify(args.job));
  const now = Date.parse(args.now);
  let got;
  if (want.job) got = plain(JSON.parse(STEPS[op](record, args, now).toString()));
  else if (op === "claim" && want.refused.code !== "invalid_job") got = REFUSED[refusal(record, now)];
  else continue;
  const wanted = want.job ? plain(want.job) : want.refused.code;
  looked++;
  if (!isDeepStrictEqual(got, wanted)) {
    console.error(line, "\ngot", got, "\nwant", wanted);
    process.exitCode = 1;
  }
}
console.log(looked);
