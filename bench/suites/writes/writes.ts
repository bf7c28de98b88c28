import { type Connection, withConnection } from '../../../src/postgres/pool.ts';
import { pairedRatios, summarize } from '../../measure/statistics.ts';
import type { Plot } from '../../report/plots.ts';
import { percent, spread } from '../../report/tables.ts';
import type { ReportText, Suite } from '../../runner/suite.ts';
import { createDatabase } from '../../setup/postgres.ts';
import { seedShops } from '../../setup/shops.ts';
import { readUpdateCounts, switchTriggers, type TriggerState } from './change-log-triggers.ts';
import { createPurchaseWrites, type PurchaseWrite } from './purchase-writes.ts';

export const writes: Suite = {
  name: 'writes',
  description: "what the change log's triggers cost those who write purchases",
  isQuick: true,
  async run(bench) {
    const { purchases = 200_000, seed = 42, rounds = 20 } = bench.options;
    const { scope } = bench;
    const database = await createDatabase(bench);
    await seedShops(scope, database, { organizations: 1, purchases, seed });
    const sizes = {
      singles: Math.min(300, Math.floor(purchases / 4)),
      bulk: Math.min(10_000, Math.floor(purchases / 2)),
    };
    const figures = await withConnection(database.pool, async (connection) => {
      const { writes, tidyUp } = await createPurchaseWrites(connection, sizes);
      const measured = writes.map(createMeasured);
      for (let round = -warmUpRounds; round < rounds; round += 1) {
        const states: TriggerState[] = round % 2 === 0 ? ['with', 'without'] : ['without', 'with'];
        for (const state of states) {
          scope.signal.throwIfAborted();
          await switchTriggers(connection, state);
          for (const each of measured) await measure(connection, each, state, round >= 0);
          await tidyUp();
        }
      }
      return measured.map(compare);
    });
    return {
      options: { purchases, rounds, seed },
      text: describe(figures),
      plots: [plot(figures)],
      figures: { figures },
    };
  },
};

// Until the pages of the rows that are updated have room.
const warmUpRounds = 2;

type Measured = ReturnType<typeof createMeasured>;

function createMeasured(write: PurchaseWrite) {
  const none = () => ({ microsecondsPerRow: [] as number[], updated: 0, updatedHot: 0 });
  return { write, with: none(), without: none() };
}

async function measure(
  connection: Connection,
  measured: Measured,
  state: TriggerState,
  counts: boolean,
): Promise<void> {
  const before = await readUpdateCounts(connection);
  const microsecondsPerRow = await measured.write.measure();
  const after = await readUpdateCounts(connection);
  if (!counts) return;
  const taken = measured[state];
  taken.microsecondsPerRow.push(microsecondsPerRow);
  taken.updated += after.updated - before.updated;
  taken.updatedHot += after.updatedHot - before.updatedHot;
}

type Figures = ReturnType<typeof compare>;

function compare(measured: Measured) {
  const { write } = measured;
  const [with_, without] = [measured.with.microsecondsPerRow, measured.without.microsecondsPerRow];
  const hotShare = ({ updated, updatedHot }: Measured[TriggerState]) =>
    write.isUpdate ? updatedHot / updated : null;
  return {
    write: write.name,
    microsecondsPerRow: { with: summarize(with_), without: summarize(without) },
    extraMicrosecondsPerRow: summarize(with_.map((value, round) => value - (without[round] ?? 0))),
    ratio: summarize(pairedRatios(with_, without)),
    hotShare: { with: hotShare(measured.with), without: hotShare(measured.without) },
  };
}

function describe(figures: readonly Figures[]): ReportText {
  const share = (value: number | null) => (value === null ? '' : percent(value));
  const table = {
    head: [
      ...['µs per row', 'without triggers', 'with triggers', 'extra', 'ratio'],
      ...['HOT without', 'with'],
    ],
    rows: figures.map(({ write, microsecondsPerRow, extraMicrosecondsPerRow, ratio, hotShare }) => [
      write,
      spread(microsecondsPerRow.without),
      spread(microsecondsPerRow.with),
      spread(extraMicrosecondsPerRow),
      spread(ratio, 2),
      share(hotShare.without),
      share(hotShare.with),
    ]),
  };
  return [table, 'One connection, synchronous_commit off, no worker at work.'];
}

const plot = (figures: readonly Figures[]): Plot => ({
  kind: 'bars',
  title: 'What a write takes with the change log',
  note: 'Time with its triggers over time without them, round by round.',
  unit: '×',
  scale: 'log',
  baseline: 1,
  bars: figures.map(({ write, ratio }) => ({ label: write, value: ratio })),
});
