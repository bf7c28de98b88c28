import { describe, expect, it } from 'vitest';
import { drawPage } from '../bench/report/page.ts';
import type { Plot } from '../bench/report/plots.ts';
import type { ReportText } from '../bench/runner/suite.ts';
import { expectWholePage } from './support/pages.ts';

const exactly = (median: number) => ({ median, lowerQuartile: median, upperQuartile: median });

const pageOf = (plots: readonly Plot[], text: ReportText = []): string =>
  drawPage({
    environment: {
      startedAt: '2026-01-31T12:00:00.000Z',
      commit: null,
      isChanged: false,
      machine: { processor: 'one', cores: 2, memoryBytes: 2 ** 30, platform: 'linux x64' },
      versions: { node: 'v20', duckdb: 'v1', postgres: '18' },
    },
    suites: [
      {
        name: 'example',
        description: 'an example',
        command: 'npm run bench',
        options: {},
        loadAverage: 0.5,
        report: { text, plots, figures: {} },
      },
    ],
  });

const bars = (changes: Partial<Extract<Plot, { kind: 'bars' }>>): Plot => ({
  kind: 'bars',
  title: 'Bars',
  unit: '×',
  scale: 'log',
  baseline: 1,
  bars: [{ label: 'twice', value: exactly(2) }],
  ...changes,
});

const curves = (points: { x: number; y: number }[]): Plot => ({
  kind: 'curves',
  title: 'Curves',
  x: { label: 'rows', scale: 'log' },
  y: { label: 'ms', scale: 'log' },
  showsProportion: true,
  curves: [{ label: 'one', points }],
});

describe('the page of measurements', () => {
  it('escapes markup in texts', () => {
    const hostile = `<script src=https://example.com/a.js>&"'</script>`;
    const text = [hostile, { head: [hostile], rows: [[hostile]] }];
    const label = { label: hostile, value: exactly(2) };
    const page = pageOf(
      [bars({ title: hostile, note: hostile, unit: '<b>', bars: [label] })],
      text,
    );
    // A text may contain an address that the page does not load.
    expectWholePage(page.replaceAll('https://example.com', ''));
    expect(page).toContain('&#60;script src=');
  });

  it('draws nothing for a missing value, or a value without a position on its axis', () => {
    const values = [Number.NaN, Number.POSITIVE_INFINITY, 0, -1];
    const points = values.flatMap((x) => values.map((y) => ({ x, y })));
    const unmeasured = values.map((value) => ({ label: String(value), value: exactly(value) }));
    const page = pageOf([
      bars({ bars: unmeasured }),
      bars({ bars: unmeasured, scale: 'linear', baseline: 0 }),
      bars({ bars: [], baseline: null }),
      curves(points),
      curves([]),
      curves([{ x: 1000, y: 5 }]),
    ]);
    expectWholePage(page);
    expect(page).not.toMatch(/="[^"]*(NaN|Infinity|undefined)/);
  });
});
