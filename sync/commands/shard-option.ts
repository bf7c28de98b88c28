import { InvalidArgumentError } from 'commander';
import type { Shard } from '../../src/purchase-store/ticks/shard.ts';

/** Parses an option: `1/4` is the first of four shards. */
export function shardOption(text: string): Shard {
  const [, number, of] = /^(\d{1,4})\/(\d{1,4})$/.exec(text) ?? [];
  const shard = { number: Number(number), of: Number(of) };
  if (shard.number >= 1 && shard.number <= shard.of) return shard;
  throw new InvalidArgumentError('It must look like 1/4: the shard, and the number of shards.');
}
