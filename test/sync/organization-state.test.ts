import { describe, expect, it } from 'vitest';
import { createOrganizationState } from '../../sync/schedule/organization-state.ts';

describe('the state of an organization', () => {
  it('is following after the load that an insufficient change log required', () => {
    const state = createOrganizationState();
    expect(state.name()).toBe('following');
    state.logInsufficient('it was pruned');
    expect([state.name(), state.requiredLoad()]).toEqual([
      'load required',
      { reason: 'it was pruned', isLiveUsable: false },
    ]);
    state.buildQueued('load', 'it was pruned');
    expect(state.name()).toBe('queued');
    state.buildStarted('load');
    expect(state.name()).toBe('loading');
    state.buildPublished('load');
    expect([state.name(), state.requiredLoad()]).toEqual(['following', null]);
  });

  it('requires a requested load until a load succeeds, and the live file stays usable', () => {
    const state = createOrganizationState();
    state.buildQueued('load', 'a rebuild was requested');
    state.buildStarted('load');
    state.buildFailed();
    expect([state.name(), state.requiredLoad()]).toEqual([
      'load required',
      { reason: 'a rebuild was requested', isLiveUsable: true },
    ]);
    state.buildQueued('load', 'a rebuild was requested');
    state.buildFailed();
    expect(state.name()).toBe('load required');
  });

  it('requires a load after a failed compaction only if the change log became insufficient', () => {
    const state = createOrganizationState();
    state.buildQueued('compact', '30000 rows of changes');
    state.buildStarted('compact');
    state.buildFailed();
    expect(state.name()).toBe('following');
    state.buildQueued('compact', '30000 rows of changes');
    state.buildStarted('compact');
    state.logInsufficient('it was pruned');
    expect(state.name()).toBe('compacting');
    state.buildFailed();
    expect(state.name()).toBe('load required');
  });

  it('requires a load also after a compaction that succeeded', () => {
    const state = createOrganizationState();
    state.buildQueued('compact', '30000 rows of changes');
    state.buildStarted('compact');
    state.logInsufficient('it was pruned');
    state.buildPublished('compact');
    expect(state.name()).toBe('load required');
  });

  it('throws an error for an event that is not possible in the present state', () => {
    const state = createOrganizationState();
    expect(() => state.buildPublished('load')).toThrow(
      'build published: not possible in the state following',
    );
    expect(state.name()).toBe('following');
  });
});
