import { expect, it } from 'vitest';
import { drawPage } from '../bench/report/page.ts';
import { expectWholePage } from './support/pages.ts';

it('the page of measurements escapes markup in texts', () => {
  const hostile = `<script src=https://example.com/a.js>&"'</script>`;
  const page = drawPage({
    environment: {
      startedAt: '2026-01-31T12:00:00.000Z',
      commit: null,
      isChanged: false,
      machine: { processor: hostile, cores: 2, memoryBytes: 2 ** 30, platform: 'linux x64' },
      versions: { node: 'v20', duckdb: 'v1', postgres: '18' },
    },
    suites: [
      {
        name: 'example',
        description: hostile,
        command: 'npm run bench',
        options: {},
        loadAverage: 0.5,
        report: { text: [hostile, { head: [hostile], rows: [[hostile]] }], figures: {} },
      },
    ],
  });
  // A text may contain an address that the page does not load.
  expectWholePage(page.replaceAll('https://example.com', ''));
  expect(page).toContain('&#60;script src=');
});
