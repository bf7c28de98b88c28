/** True at the first call and whenever `intervalMs` have passed since it was last true. */
export function every(intervalMs: number): () => boolean {
  let next = 0;
  return () => {
    const now = performance.now();
    if (now < next) return false;
    next = now + intervalMs;
    return true;
  };
}
