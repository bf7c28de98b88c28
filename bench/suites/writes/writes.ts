import { type Connection, withConnection } from '../../../src/postgres/connection/pool.ts';
import { inRounds } from '../../measure/rounds.ts';
import { ratioOf, summaryOf } from '../../measure/statistics.ts';
import { percent, spread, tableOf } from '../../report/tables.ts';
import { defineSuite } from '../../runner/suite.ts';
import { createDatabase } from '../../setup/postgres.ts';
import { seedShop } from '../../setup/shops.ts';
import { readUpdateCounts, switchTriggers, type TriggerState } from './change-log-triggers.ts';
import { measureMappedWrites } from './mapped-writes.ts';
import { createPurchaseWrites, type PurchaseWrite } from './purchase-writes.ts';

/** After these rounds, the pages of the updated rows have free space. */
const warmUps = 2;

export const writes = defineSuite({
  name: 'writes',
  description:
    'the cost of triggers for writers: of the change log, and of a mapping of own tables',
  isQuick: true,
  defaults: { purchases: 200_000, rounds: 20, seed: 42 },
  async run({ options: { purchases, rounds, seed }, scope, server }) {
    const database = await createDatabase({ scope, server });
    await seedShop(scope, database, { purchases, seed });
    const sizes = {
      singles: Math.min(300, Math.floor(purchases / 4)),
      bulk: Math.min(10_000, Math.floor(purchases / 2)),
    };
    const figures = await withConnection(database.pool, async (connection) => {
      const { writes, restore } = await createPurchaseWrites(connection, sizes);
      const measureAll = (state: TriggerState) => async () => {
        await switchTriggers(connection, state);
        const measured: Measured[] = [];
        for (const write of writes) measured.push(await measure(connection, write));
        await restore();
        return measured;
      };
      const tasks = { with: measureAll('with'), without: measureAll('without') };
      const measured = await inRounds(tasks, { rounds, warmUps, signal: scope.signal });
      return writes.map((write, index) =>
        compare(
          write,
          measured.with.map((ofRound) => ofRound[index] as Measured),
          measured.without.map((ofRound) => ofRound[index] as Measured),
        ),
      );
    });
    const mapped = await withConnection(database.pool, (connection) =>
      measureMappedWrites(connection, purchases, { rounds, warmUps, signal: scope.signal }),
    );
    const share = (value: number | null) => (value === null ? '' : percent(value));
    return {
      text: [
        tableOf(figures, {
          'µs per row': ({ write }) => write,
          'without triggers': ({ microsecondsPerRow }) => spread(microsecondsPerRow.without),
          'with triggers': ({ microsecondsPerRow }) => spread(microsecondsPerRow.with),
          extra: ({ extraMicrosecondsPerRow }) => spread(extraMicrosecondsPerRow),
          ratio: ({ ratio }) => spread(ratio, 2),
          'HOT without': ({ hotShare }) => share(hotShare.without),
          with: ({ hotShare }) => share(hotShare.with),
        }),
        tableOf(mapped, {
          "ms per statement, a shop's own tables": ({ write }) => write,
          'without mapping': ({ without }) => spread(without, 2),
          'with mapping': (figure) => spread(figure.with, 2),
          ratio: ({ ratio }) => spread(ratio, 2),
        }),
        'One connection, synchronous_commit off, no running worker.',
      ],
      figures: { figures, mapped },
    };
  },
});

type Measured = {
  readonly microsecondsPerRow: number;
  readonly updated: number;
  readonly updatedHot: number;
};

async function measure(connection: Connection, write: PurchaseWrite): Promise<Measured> {
  const before = await readUpdateCounts(connection);
  const microsecondsPerRow = await write.measure();
  const after = await readUpdateCounts(connection);
  return {
    microsecondsPerRow,
    updated: after.updated - before.updated,
    updatedHot: after.updatedHot - before.updatedHot,
  };
}

function compare(
  { name, isUpdate }: PurchaseWrite,
  withTriggers: readonly Measured[],
  without: readonly Measured[],
) {
  const perRow = ({ microsecondsPerRow }: Measured) => microsecondsPerRow;
  const pairs = withTriggers.map((each, round) => perRow(each) - perRow(without[round] ?? each));
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const hotShare = (measured: readonly Measured[]) =>
    isUpdate
      ? sum(measured.map(({ updatedHot }) => updatedHot)) /
        sum(measured.map(({ updated }) => updated))
      : null;
  return {
    write: name,
    microsecondsPerRow: {
      with: summaryOf(withTriggers, perRow),
      without: summaryOf(without, perRow),
    },
    extraMicrosecondsPerRow: summaryOf(pairs, (extra) => extra),
    ratio: ratioOf(withTriggers, without, perRow),
    hotShare: { with: hotShare(withTriggers), without: hotShare(without) },
  };
}
