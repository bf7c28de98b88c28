import fc from 'fast-check';
import { type Shortcuts, shortcutSettings } from '../../../src/duckdb/shortcuts.ts';
import type { TestWorkerOptions } from '../../support/sync.ts';
import { hasClickHouse } from '../store.ts';

/** The engine, how the worker writes files, and how the API reads them. */
export type Settings = {
  readonly engine: 'duckdb' | 'postgres' | 'clickhouse';
  readonly worker: TestWorkerOptions;
  readonly shortcuts: Partial<Shortcuts>;
};

type Name = keyof Shortcuts;

const names = Object.keys(shortcutSettings) as Name[];

type Mode = 'usual' | 'off' | 'forced';
const mode = fc.constantFrom<Mode>('usual', 'off', 'forced');

/** Without those that are as usual. */
export const shortcutsIn = (modeOf: (name: Name) => Mode): Partial<Shortcuts> =>
  Object.fromEntries(
    names
      .filter((name) => modeOf(name) !== 'usual')
      .map((name) => [name, shortcutSettings[name][modeOf(name)]]),
  );

/** Together, and each one by itself: some shortcuts only matter if others are taken. */
const shortcuts: fc.Arbitrary<Partial<Shortcuts>> = fc.oneof(
  mode.map((all) => shortcutsIn(() => all)),
  fc
    .array(fc.tuple(fc.constantFrom(...names), mode), { maxLength: 6 })
    .chain((exceptions) =>
      mode.map((all) => shortcutsIn((name) => new Map(exceptions).get(name) ?? all)),
    ),
  fc
    .record(Object.fromEntries(names.map((name) => [name, mode])) as Record<Name, typeof mode>)
    .map((modes) => shortcutsIn((name) => modes[name])),
);

/** `npm run test:clickhouse` asks the engine over ClickHouse alone. */
const engine: fc.Arbitrary<Settings['engine']> = hasClickHouse
  ? fc.constant('clickhouse')
  : fc.oneof(
      { weight: 5, arbitrary: fc.constant('duckdb' as const) },
      { weight: 1, arbitrary: fc.constant('postgres' as const) },
    );

export const settings: fc.Arbitrary<Settings> = fc.record({
  engine,
  worker: fc.constantFrom<TestWorkerOptions>(
    { maxPurchasesWithoutBase: 0 },
    { maxPurchasesWithoutBase: 0, minUnsavedChanges: 1 },
    { maxPurchasesWithoutBase: 0 },
    // Few purchases have no base.
    {},
  ),
  shortcuts,
});
