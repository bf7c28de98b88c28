/** The instants of one organization's responses; microseconds since 1970. */
export type ServedInstants = {
  /** The instant that responses show. */
  readonly asOf: bigint;
  /** The instant of the worker's tick: a later one while the tick does not include the organization. */
  readonly tickAsOf: bigint;
};

/** The earliest instants of organizations; null without an organization. */
export function oldestOf([first, ...others]: readonly ServedInstants[]): ServedInstants | null {
  if (first === undefined) return null;
  return others.reduce(
    (oldest, { asOf, tickAsOf }) => ({
      asOf: asOf < oldest.asOf ? asOf : oldest.asOf,
      tickAsOf: tickAsOf < oldest.tickAsOf ? tickAsOf : oldest.tickAsOf,
    }),
    first,
  );
}
