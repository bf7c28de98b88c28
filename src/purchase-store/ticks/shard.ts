/** The organizations of one worker: id modulo `of` is `number - 1`. */
export type Shard = { readonly number: number; readonly of: number };

export const everyOrganization: Shard = { number: 1, of: 1 };

export const isOfShard = (organizationId: bigint, { number, of }: Shard): boolean =>
  organizationId % BigInt(of) === BigInt(number - 1);

/** The name of a worker's files. */
export const shardName = ({ number, of }: Shard): string => `${number}-of-${of}`;
