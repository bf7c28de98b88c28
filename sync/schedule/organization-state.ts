import type { BuildKind } from './replicator.ts';

export type StateName = 'following' | 'load required' | 'queued' | 'loading' | 'compacting';

type Event =
  /** The change log does not have all changes since the live file's watermark. */
  | 'log insufficient'
  | 'build queued'
  | 'load started'
  | 'compaction started'
  | 'build published'
  | 'build failed';

/**
 * The states of one organization, and the state that each event leads to. While a load is
 * required, `load required` takes the place of `following`.
 */
const transitions: Readonly<Record<StateName, Partial<Record<Event, StateName>>>> = {
  following: { 'log insufficient': 'load required', 'build queued': 'queued' },
  'load required': { 'log insufficient': 'load required', 'build queued': 'queued' },
  queued: {
    'log insufficient': 'queued',
    'load started': 'loading',
    'compaction started': 'compacting',
    'build failed': 'following',
  },
  loading: {
    'log insufficient': 'loading',
    'build published': 'following',
    'build failed': 'following',
  },
  compacting: {
    'log insufficient': 'compacting',
    'build published': 'following',
    'build failed': 'following',
  },
};

type RequiredLoad = {
  readonly reason: string;
  /** Whether runs can still apply changes to the live file. */
  readonly isLiveUsable: boolean;
};

export type OrganizationState = {
  name(): StateName;
  /** Set until a load succeeds: a failed one is repeated. */
  requiredLoad(): RequiredLoad | null;
  logInsufficient(reason: string): void;
  buildQueued(kind: BuildKind, reason: string): void;
  buildStarted(kind: BuildKind): void;
  buildPublished(kind: BuildKind): void;
  buildFailed(): void;
};

/** Throws on an event that the table does not list for the present state. */
export function createOrganizationState(): OrganizationState {
  let name: StateName = 'following';
  let required: RequiredLoad | null = null;

  const dispatch = (event: Event): void => {
    const next = transitions[name][event];
    if (next === undefined) throw new Error(`${event}: not possible in the state ${name}`);
    name = next === 'following' && required !== null ? 'load required' : next;
  };

  return {
    name: () => name,
    requiredLoad: () => required,
    logInsufficient(reason) {
      required = { reason, isLiveUsable: false };
      dispatch('log insufficient');
    },
    buildQueued(kind, reason) {
      if (kind === 'load') required ??= { reason, isLiveUsable: true };
      dispatch('build queued');
    },
    buildStarted: (kind) => dispatch(kind === 'compact' ? 'compaction started' : 'load started'),
    buildPublished(kind) {
      if (kind === 'load') required = null;
      dispatch('build published');
    },
    buildFailed: () => dispatch('build failed'),
  };
}
