/** Drops the connection after some bytes of the answer, as a lost network does. */
export function droppingFetch(bytes) {
  let isFirst = true;
  return async (input, init) => {
    const response = await fetch(input, init);
    if (!isFirst) return response;
    isFirst = false;
    let left = bytes;
    const cut = new TransformStream({
      transform(chunk, controller) {
        left -= chunk.length;
        if (left < 0) controller.error(new TypeError("network error"));
        else controller.enqueue(chunk);
      },
    });
    return new Response(response.body.pipeThrough(cut), response);
  };
}
