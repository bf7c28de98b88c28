import { type Change, type Circumstances, change, type Need, type StoreChange } from './change.ts';
import { quote, type Store } from './store.ts';
import { customersView, feeFunction, purchasesView, shownView } from './views.ts';

// Views, and the function that a view calls.

const dropViews = 'drop view if exists mapped_purchases, mapped_customers, store.shown';

export function createViews(
  store: Store,
  { roles, sites }: Pick<Circumstances, 'roles' | 'sites'>,
): string[] {
  const asMigrations =
    roles.migrations === null ? [] : [`set local role ${quote(roles.migrations)}`];
  const grants =
    roles.migrations === null ? [] : [`grant select on store.shown to ${quote(roles.migrations)}`];
  return [
    shownView(store),
    ...grants,
    ...asMigrations,
    customersView(store, sites),
    purchasesView(store, sites),
    'reset role',
  ];
}

/** Statements that Postgres refuses while views read the tables. */
export function withoutViews(
  name: string,
  statements: readonly string[],
  store: Store,
  circumstances: Circumstances,
): Change {
  const needs: readonly Need[] = ['rights', 'sources', 'triggers', 'apply'];
  if (circumstances.isViewMissing || circumstances.random.chance(0.3)) {
    return {
      name: `${name}, without views`,
      transactions: [[dropViews], statements],
      needs: ['views', ...needs],
    };
  }
  const all = [dropViews, ...statements, ...createViews(store, circumstances)];
  return { name, transactions: [all], needs };
}

const replaceFunction: StoreChange = (store, { random, isViewMissing }) => {
  store.fee = random.integer(1_000);
  const isOther = random.chance(0.2) && !isViewMissing;
  return change('replace a function', [
    isOther
      ? feeFunction(store).replace('immutable as', `stable set work_mem = '8MB' as`)
      : feeFunction(store),
  ]);
};

const replaceInnerView: StoreChange = (store, { random, isViewMissing }) => {
  if (isViewMissing) return null;
  store.minCents = random.pick([0, 0, 10, 50]);
  return change('replace a view that a view reads', [shownView(store)]);
};

const recreateViews: StoreChange = (store, circumstances) =>
  withoutViews('recreate views', [], store, circumstances);

export const viewChanges: readonly (readonly [weight: number, StoreChange])[] = [
  [3, replaceFunction],
  [2, replaceInnerView],
  [2, recreateViews],
];
