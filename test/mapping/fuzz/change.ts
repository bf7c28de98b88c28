import type { RandomSource } from '../../../src/seed/random-source.ts';
import type { Sites, Store } from './store.ts';

/** What an operator has to do after a change, by the documents. */
export type Need = 'views' | 'sources' | 'rights' | 'policies' | 'triggers' | 'apply';

export type Change = {
  readonly name: string;
  /** The statements of transactions, one after the other. */
  readonly transactions: readonly (readonly string[])[];
  readonly needs: readonly Need[];
};

export type Roles = Readonly<Record<'owner' | 'writer' | 'visitor', string>> & {
  /** Of the service; null if a superuser has all rights. */
  readonly migrations: string | null;
  readonly worker: string | null;
};

export type Circumstances = {
  readonly random: RandomSource;
  readonly roles: Roles;
  readonly sites: Sites;
  readonly isViewMissing: boolean;
  /** Reserves ids of new orders. */
  readonly reserve: (count: number) => number;
};

/** Changes the store's model, and returns the statements; null if the change is not possible. */
export type StoreChange = (store: Store, circumstances: Circumstances) => Change | null;

export const change = (name: string, statements: readonly string[], ...needs: Need[]): Change => ({
  name,
  transactions: [statements],
  needs,
});
