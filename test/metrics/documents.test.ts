import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type ApiState, createApiMetrics } from '../../src/metrics/api.ts';
import { createRegistry } from '../../src/metrics/registry.ts';
import { packageFile } from '../../src/process/package-files.ts';
import { createWorkerMetrics } from '../../sync/metrics/metrics.ts';

/** The metrics of the API and of the worker. Only a scrape would read the state. */
const api = createRegistry();
createApiMetrics(api, {} as ApiState);
const worker = createRegistry();
createWorkerMetrics(worker);
const registered = [...api.getMetricsAsArray(), ...worker.getMetricsAsArray()];
const all = new Set(registered.map(({ name }) => name));
const own = [...all].filter((name) => name.startsWith('crm_')).sort();

/** The metrics that a document names, without the suffixes of histograms. */
function namedIn(path: string): Set<string> {
  const text = readFileSync(packageFile(path), 'utf8');
  const names = text.match(/\b(crm|nodejs|process)_[a-z][a-z0-9_]*[a-z0-9]\b/g) ?? [];
  return new Set(names.map((name) => name.replace(/_(bucket|count|sum)$/, '')));
}

describe('the documents of the metrics', () => {
  it.each([
    'docs/metrics.md',
    'docs/monitoring/dashboard.json',
    'docs/monitoring/alerts.yml',
    'docs/monitoring/alerts.test.yml',
  ])('name no metric that does not exist: %s', (path) => {
    const named = namedIn(path);
    expect(named.size).toBeGreaterThan(0);
    expect([...named].filter((name) => !all.has(name))).toEqual([]);
  });

  it.each(['docs/metrics.md', 'docs/monitoring/dashboard.json'])(
    'name every metric of the API and of the worker: %s',
    (path) => {
      const named = namedIn(path);
      expect(own.filter((name) => !named.has(name))).toEqual([]);
    },
  );
});

/** The text of an alert's rule. */
const rules = new Map(
  readFileSync(packageFile('docs/monitoring/alerts.yml'), 'utf8')
    .split('- alert: ')
    .slice(1)
    .map((rule) => [/\w+/.exec(rule)?.[0] as string, rule]),
);

describe('the alert rules', () => {
  it('each have a unit test of firing and one of not firing, with the sentences of the rule', () => {
    const tests = readFileSync(packageFile('docs/monitoring/alerts.test.yml'), 'utf8')
      .split('- alertname: ')
      .slice(1);
    expect(rules.size).toBeGreaterThan(0);
    for (const [name, rule] of rules) {
      const own = tests.filter((test) => new RegExp(`^${name}\\b`).test(test));
      const firing = own.filter((test) => !test.includes('exp_alerts: []'));
      expect([firing.length > 0, firing.length < own.length], name).toEqual([true, true]);
      const [action] = /action: .*/.exec(rule) ?? [];
      for (const test of firing) expect(test).toContain(action);
    }
  });

  it('name only labels that their metrics have', () => {
    const targets = ['job', 'instance', 'le'];
    const text = [...rules.values()].join('\n');
    const selectors = [...text.matchAll(/\b(crm_\w+?)(?:_bucket|_count|_sum)?\{([^}]*)\}/g)];
    expect(selectors).not.toHaveLength(0);
    for (const [selector, name, matchers = ''] of selectors) {
      const { labelNames } = registered.find((each) => each.name === name) as unknown as {
        readonly labelNames: readonly string[];
      };
      const named = [...matchers.matchAll(/(\w+)(?:=|!)/g)].map(([, label]) => label as string);
      const known = [...labelNames, ...targets];
      expect(
        named.filter((label) => !known.includes(label)),
        selector,
      ).toEqual([]);
    }
  });

  const promtool = (...args: string[]) =>
    spawnSync('promtool', args, { cwd: packageFile('docs/monitoring'), encoding: 'utf8' });

  it.skipIf(promtool('--version').status !== 0)(
    'are valid and pass their unit tests (skipped without promtool on the PATH)',
    () => {
      for (const args of [
        ['check', 'rules', 'alerts.yml'],
        ['test', 'rules', 'alerts.test.yml'],
      ]) {
        const { status, stdout, stderr } = promtool(...args);
        expect(status, stdout + stderr).toBe(0);
      }
    },
  );
});

describe('a metric', () => {
  it('has a unit or total at the end of its name, where it has one', () => {
    for (const { name, type } of registered as { name: string; type: unknown }[]) {
      if (!name.startsWith('crm_')) continue;
      if (String(type) === 'counter') expect(name).toMatch(/_total$/);
      else expect(name).not.toMatch(/_total$/);
      if (String(type) === 'histogram') expect(name).toMatch(/_seconds$/);
    }
  });
});
