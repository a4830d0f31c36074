// The least that a worker can be: how fast the machine is today.
export default {
  fetch() {
    return new Response("hello");
  },
};
