import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { packageFile } from '../../src/process/package-files.ts';

const require = createRequire(import.meta.url);

/** The npm package of Chromium has a binary for this platform alone. */
export const hasBrowser = process.platform === 'linux' && process.arch === 'x64';

/** Also as root, without a GPU, and without requests of the browser itself. */
const flags = [
  '--no-sandbox',
  '--no-zygote',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-quic',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
];

export async function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: await unpackBrowser(), args: flags });
}

/** Unpacks Chromium once, beside the packages. The package itself would unpack it into /tmp. */
async function unpackBrowser(): Promise<string> {
  const { default: packed } = await import('@sparticuz/chromium');
  const manifest = readFileSync(
    join(require.resolve('@sparticuz/chromium'), '../../../package.json'),
    'utf8',
  );
  const folder = packageFile(`node_modules/.cache/chromium-${JSON.parse(manifest).version}`);
  if (existsSync(folder)) return join(folder, 'chromium');
  const unfinished = `${folder}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  const { TMPDIR } = process.env;
  process.env.TMPDIR = unfinished;
  try {
    await packed.executablePath();
    renameSync(unfinished, folder);
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    // Another run may have been faster.
    if (!existsSync(folder)) throw error;
  } finally {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
  }
  return join(folder, 'chromium');
}

/** The accessibility violations that axe-core finds. */
export async function violationsOf(page: Page): Promise<unknown> {
  await page.evaluate(readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8'));
  return page.evaluate(`axe.run().then(({ violations }) =>
    violations.map(({ id, nodes }) => [id, ...nodes.map(({ html, failureSummary }) => [html, failureSummary])]))`);
}

/** By how many pixels the content of an element is wider than the element. */
export const overflowOf = (page: Page, selector = 'html'): Promise<number> =>
  page.locator(selector).evaluate((element: { scrollWidth: number; clientWidth: number }) => {
    return element.scrollWidth - element.clientWidth;
  });
