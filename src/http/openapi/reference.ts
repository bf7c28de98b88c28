import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { serveFiles } from '../response/static-files.ts';
import type { Route } from '../route.ts';
import { describeApi } from './document.ts';
import { llmsText } from './questions.ts';

const page = `<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>API reference</title>
  <link rel="stylesheet" href="/docs/swagger-ui.css">
  <link rel="icon" href="/docs/favicon-32x32.png">
</head>
<body>
  <div id="reference"></div>
  <script src="/docs/swagger-ui-bundle.js"></script>
  <script src="/docs/start.js"></script>
</body>
</html>
`;

const startScript = `
SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  validatorUrl: null,
  tryItOutEnabled: true,
  defaultModelsExpandDepth: 0,
});
`;

// Swagger UI sets inline styles and shows inlined images.
const contentSecurityPolicy =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The OpenAPI document, Swagger UI for it, and a page for agents; without a key. */
export async function reference(
  app: FastifyInstance,
  { routes }: { readonly routes: readonly Route[] },
): Promise<void> {
  const description = JSON.stringify(describeApi(routes), null, 2);
  const assets = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  const asset = (name: string) => readFileSync(join(assets, name));

  serveFiles(app, contentSecurityPolicy, {
    '/openapi.json': description,
    '/llms.txt': llmsText,
    '/docs': page,
    '/docs/': page,
    '/docs/start.js': startScript,
    '/docs/swagger-ui.css': asset('swagger-ui.css'),
    '/docs/swagger-ui-bundle.js': asset('swagger-ui-bundle.js'),
    '/docs/favicon-32x32.png': asset('favicon-32x32.png'),
  });
}
