import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { preferredMediaType } from '../http/formats/negotiation.ts';
import { unknownRoute } from '../http/response/errors.ts';
import { serveFiles, staticFile } from '../http/response/static-files.ts';
import { addVary } from '../http/response/vary.ts';
import { packageFile } from '../process/package-files.ts';
import { htmlFolders } from '../resources/record/record.ts';

const description = "A read-only HTTP API over a shop's customers, purchases and campaigns.";
const links = {
  docs: '/docs',
  openapi: '/openapi.json',
  agents: '/llms.txt',
  health: '/healthz',
} as const;

const source = (name: string): Buffer => readFileSync(packageFile(`src/page/${name}`));

const html = source('page.html');

/** The only inline script: the URLs of the libraries, which the modules import by name. */
const [, importMap = ''] = /<script type="importmap">(.*?)<\/script>/s.exec(String(html)) ?? [];
const importMapHash = createHash('sha256').update(importMap).digest('base64');

const contentSecurityPolicy = [
  "default-src 'none'",
  `script-src 'self' 'sha256-${importMapHash}'`,
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** In the order of the cascade. */
const styles = ['base', 'controls', 'layout', 'dashboard', 'totals', 'tables', 'print'];

/** Modules of the domain that the page's modules import. */
const domainModules = [
  'currency.js',
  'decimal.js',
  'period-limit.js',
  'purchase.js',
  'purchase-query.js',
  'purchase-report.js',
  'spreadsheet-text.js',
  'zone-offset.js',
];

/**
 * The page for people: `/` and, under `/app`, the views of records, such as those of `html_url`, and of lists. It reads the
 * data through /v1 with the key that its user enters, so nothing here needs a key.
 */
export async function page(app: FastifyInstance): Promise<void> {
  const sendPage = staticFile('/', html, contentSecurityPolicy);
  app.route({
    method: ['GET', 'HEAD'],
    url: '/',
    handler: async (request, reply) => {
      // The router treats the request target `*` as `/`.
      if (request.url.startsWith('*')) throw unknownRoute(request);
      addVary(reply, 'Accept');
      const available = ['application/json', 'text/html'];
      if (preferredMediaType(request.headers.accept, available) === 'text/html') {
        return sendPage(request, reply);
      }
      return { name: 'crm-data-service', description, ...links };
    },
  });
  const records = [...Object.values(htmlFolders), 'purchases'].map((name) => `${name}/:id`);
  const views = [...records, 'campaigns', 'segments', 'flows'].map((name) => `/app/${name}`);
  serveFiles(app, contentSecurityPolicy, {
    ...Object.fromEntries(['/app', '/app/', ...views].map((url) => [url, html])),
    // The page's rules override those of the chart library.
    '/assets/page.css': Buffer.concat([
      library('uplot', 'uPlot.min.css'),
      ...styles.map((name) => source(`styles/${name}.css`)),
    ]),
    '/assets/icon.svg': source('icon.svg'),
    ...modules('page/browser'),
    ...Object.fromEntries(domainModules.map((name) => module('domain', name))),
    '/assets/preact.js': library('preact'),
    '/assets/preact/hooks.js': library('preact/hooks'),
    '/assets/preact/jsx-runtime.js': library('preact/jsx-runtime'),
    '/assets/uplot.js': library('uplot', 'uPlot.esm.js'),
  });
}

const compiled = (folder: string) => packageFile(join('dist/src', folder));

/** A compiled module. Its URL has the path of its source, so that relative imports work. */
const module = (folder: string, name: string): [string, Buffer] => [
  `/assets/${folder}/${name}`,
  readFileSync(join(compiled(folder), name)),
];

function modules(folder: string): Record<string, Buffer> {
  const paths = readdirSync(compiled(folder), { recursive: true, encoding: 'utf8' });
  const names = paths.filter((path) => path.endsWith('.js'));
  return Object.fromEntries(names.map((name) => module(folder, name)));
}

const { resolve } = createRequire(import.meta.url);

/** The module of a package, or another file of its folder. */
const library = (name: string, file?: string): Buffer =>
  readFileSync(file === undefined ? resolve(name) : join(dirname(resolve(name)), file));
