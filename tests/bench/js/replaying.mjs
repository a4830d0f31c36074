// Wraps our bundle to find what one object carries by itself: what the workers asked of it is kept, and asked again of an object that is new,
// without the workers. `POST /replay` takes {object, count, at_once} and answers when so many calls were made.
import * as ours from "OURS";

const calls = [];
let replaying = false;

/** The class of an object; that of the tenants keeps its calls. */
function wrapped(Original, name) {
  if (name !== "Tenant") {
    return Original;
  }
  return class extends Original {
    decide(call) {
      if (!replaying) {
        calls.push(call);
      }
      return super.decide(call);
    }
  };
}

// CLASSES

async function replay(stub, played, atOnce) {
  const rest = played.values();
  let allowed = 0;
  const one = async () => {
    for (const call of rest) {
      const answer = await stub.decide(call);
      // The version of the message, then which of Ok and Denied (verifier-wasm/src/objects/shell.rs).
      allowed += answer[1] === 0 ? 1 : 0;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, one));
  return allowed;
}

export default {
  async fetch(request, env, ctx) {
    if (new URL(request.url).pathname !== "/replay") {
      return ours.default.fetch(request, env, ctx);
    }
    const { object, count, at_once: atOnce } = await request.json();
    replaying = true;
    const allowed = await replay(env.TENANT.getByName(object), calls.splice(0, count), atOnce);
    replaying = false;
    return Response.json({ allowed, left: calls.length });
  },
};
