/** What a worker does when it is killed. */
export const activities = ['tick', 'join', 'load', 'catch up', 'compaction', 'save'] as const;
export type Activity = (typeof activities)[number];

const ofTicks = [
  'after the snapshot is read',
  'after the token is committed',
  'in the middle of an append',
  'after the first of several appends',
  'after all appends',
  'before the tick is published',
  'after the tick is published',
] as const;

const ofBuilds = [
  'after the new files are written',
  'before CURRENT is replaced',
  'after CURRENT is replaced',
] as const;

const ofBases = ['before the base is named', 'after the base is named'] as const;

const ofDeltas = ['before the delta is named', 'after the delta is named'] as const;

const ofReplacements = ['before old files are removed', 'after an old file is removed'] as const;

export type Step = (
  | typeof ofTicks
  | typeof ofBuilds
  | typeof ofBases
  | typeof ofDeltas
  | typeof ofReplacements
)[number];

const steps: Readonly<Record<Activity, readonly Step[]>> = {
  tick: ofTicks,
  // Organizations that are behind join one after the other.
  join: ofTicks.filter((step) => step !== 'after the first of several appends'),
  load: [...ofBases, ...ofBuilds],
  'catch up': [...ofBases, ...ofBuilds, ...ofReplacements],
  compaction: [...ofBases, ...ofBuilds, ...ofReplacements],
  save: ofDeltas,
};

export type Failpoint = { readonly activity: Activity; readonly step: Step };

export const failpoints: readonly Failpoint[] = activities.flatMap((activity) =>
  steps[activity].map((step) => ({ activity, step })),
);
