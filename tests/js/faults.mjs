// The bundle with faults put in from outside, and a look into its storage, for tests/tests/e2e/faults.rs: served in the place of
// index.js, never deployed.
//
// A trap is what a panic or a stack overflow in the wasm module is to JavaScript, a WebAssembly.RuntimeError that has come through its
// frames. It is made where the module asks the platform for something and expects no error.
import * as bundle from "./index.js";

const trap = () => {
  throw new WebAssembly.RuntimeError("unreachable");
};

/** Storage whose module traps as soon as it has written a decision into the audit log, which is the last thing that it writes. */
function trapping({ storage }) {
  const row = Object.defineProperty([0], 0, { get: trap });
  const exec = (statement, ...bindings) => {
    const cursor = storage.sql.exec(statement, ...bindings);
    return /^insert into audit/i.test(statement) ? { raw: () => ({ toArray: () => [row] }) } : cursor;
  };
  const get = (_, name) => {
    const value = name === "sql" ? { exec } : storage[name];
    return typeof value === "function" ? value.bind(storage) : value;
  };
  return { storage: new Proxy({}, { get }) };
}

/** A `TenantRequest` (verifier-wasm/src/objects/tenant.rs) as it crosses: version, length of the name, name, which call. */
function read(call) {
  const end = 2 + call[1];
  return { tenant: new TextDecoder().decode(call.subarray(2, end)), enrolment: call[end] === 0 };
}

/** Enrolments trap in tenant globex, and hang in tenant initech. */
export class Tenant extends bundle.Tenant {
  async decide(call) {
    const { tenant, enrolment } = read(call);
    if (enrolment && tenant === "initech") {
      await new Promise(() => {});
    }
    if (enrolment && tenant === "globex") {
      Object.defineProperty(this, "ctx", { value: trapping(this.ctx) });
    }
    const answer = await super.decide(call);
    await tell(tenant, this.ctx.storage);
    return answer;
  }
}

/** Writes into the log what a tenant's storage holds: its tables, and whether an alarm is set. */
async function tell(tenant, storage) {
  const names = storage.sql.exec("SELECT name FROM sqlite_master WHERE type = 'table'").raw().toArray().flat();
  const tables = names.filter((name) => !name.startsWith("_cf_")).length;
  const alarm = (await storage.getAlarm()) !== null;
  console.log(JSON.stringify({ event: "storage", tenant, tables, alarm }));
}

export const { Policy, Revocation } = bundle;

const methods = (type) => Object.getOwnPropertyNames(type.prototype).sort();

/** What other workers and the platform can call. */
const surface = () => ({
  exports: Object.keys(bundle).sort(),
  default: Object.keys(bundle.default),
  Tenant: methods(bundle.Tenant),
  Policy: methods(bundle.Policy),
  Revocation: methods(bundle.Revocation),
});

/** An Analytics Engine dataset that writes into the log, or fails. */
const dataset = (how) => ({
  writeDataPoint(point) {
    if (how === "fails") {
      throw new Error("no dataset");
    }
    console.log(JSON.stringify({ event: "data_point", ...point }));
  },
});

/** A rate limit that lets pass what asked it when told to. */
class Ratelimit {
  #told = Promise.withResolvers();

  limit() {
    return this.#told.promise;
  }

  tell() {
    this.#told.resolve({ success: true });
    return this.#told.promise;
  }
}

/**
 * Traps in an object between the end of a request's wait and its next step. Answers with the status of that request, and of one that was
 * begun after the trap and before the step.
 */
async function trapBetween(begin) {
  const limiter = new Ratelimit();
  const before = begin({ RATE_LIMITS: { value: "on" }, RATE_LIMIT: { value: limiter } });
  await scheduler.wait(50);
  const after = limiter.tell().then(() => {
    const storage = Object.defineProperty({ transactionSync: (step) => step() }, "sql", { get: trap });
    try {
      bundle.Policy.prototype.decide.call({ ctx: { storage } }, new Uint8Array());
    } catch {
      // What the object's caller learns.
    }
    return begin({});
  });
  const answers = await Promise.all([before, after]);
  return Response.json(answers.map(({ status }) => status));
}

/** What a `Policy` object makes of a call that is no octets. */
function calledWithText() {
  const storage = { transactionSync: (step) => step(), sql: {} };
  try {
    return bundle.Policy.prototype.decide.call({ ctx: { storage } }, '{"read":null}');
  } catch (error) {
    return error.message;
  }
}

export default {
  async fetch(request, bindings, context) {
    const fault = request.headers.get("x-fault");
    const how = request.headers.get("x-dataset");
    const env = how ? Object.create(bindings, { METRICS: { value: dataset(how) } }) : bindings;
    if (fault === "surface") {
      return Response.json(surface());
    }
    if (fault === "text") {
      return Response.json(calledWithText());
    }
    if (fault === "between") {
      return trapBetween((other) => bundle.default.fetch(request.clone(), Object.create(env, other), context));
    }
    if (fault === "trap") {
      Object.defineProperty(request, "url", { get: trap });
    }
    return bundle.default.fetch(request, env, context);
  },
};
