/** What one contender took, by round: milliseconds, and of this process's CPU. */
export type Times = { readonly wall: number[]; readonly cpu: number[] };

/**
 * Times each contender once a round, after one round that warms; one that is null has no
 * times. Each round begins with another one: what one leaves in the caches is in turn
 * each other's luck.
 */
export async function timeInRounds<Name extends string>(
  contenders: Readonly<Record<Name, (() => Promise<unknown>) | null>>,
  rounds: number,
): Promise<Record<Name, Times>> {
  const entered = Object.entries<(() => Promise<unknown>) | null>(contenders).map(
    ([name, ask]) => ({ name, ask, times: { wall: [], cpu: [] } as Times }),
  );
  const running = entered.filter(({ ask }) => ask !== null);
  for (let round = -1; round < rounds; round += 1) {
    const first = (round + 1) % running.length;
    for (const { ask, times } of [...running.slice(first), ...running.slice(0, first)]) {
      const cpuBefore = process.cpuUsage();
      const startedAt = performance.now();
      await ask?.();
      const wall = performance.now() - startedAt;
      const { user, system } = process.cpuUsage(cpuBefore);
      if (round < 0) continue;
      times.wall.push(wall);
      times.cpu.push((user + system) / 1000);
    }
  }
  return Object.fromEntries(entered.map(({ name, times }) => [name, times])) as Record<Name, Times>;
}
