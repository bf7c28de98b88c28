import { InvalidArgumentError } from 'commander';

/** The organizations of one worker: id modulo `of` is `number - 1`. */
export type Shard = { readonly number: number; readonly of: number };

export const everyOrganization: Shard = { number: 1, of: 1 };

export const isOfShard = (organizationId: bigint, { number, of }: Shard): boolean =>
  organizationId % BigInt(of) === BigInt(number - 1);

/** The name of a worker's files. */
export const shardName = ({ number, of }: Shard): string => `${number}-of-${of}`;

/** Parses an option: `1/4` is the first of four shards. */
export function shardOption(text: string): Shard {
  const [, number, of] = /^(\d{1,4})\/(\d{1,4})$/.exec(text) ?? [];
  const shard = { number: Number(number), of: Number(of) };
  if (shard.number >= 1 && shard.number <= shard.of) return shard;
  throw new InvalidArgumentError('It must look like 1/4: the shard, and the number of shards.');
}
