import type { FastifyInstance } from 'fastify';
import { preferredMediaType } from '../formats/negotiation.ts';
import { unknownRoute } from '../response/errors.ts';
import { addVary } from '../response/vary.ts';

const links = { docs: '/docs', openapi: '/openapi.json', health: '/healthz' } as const;
const description = "A read-only HTTP API over a shop's customers, purchases and campaigns.";

const page = `<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>crm-data-service</title>
</head>
<body>
  <h1>crm-data-service</h1>
  <p>${description}</p>
  <ul>
    <li><a href="${links.docs}">API reference</a>: all endpoints, to read and to try out</li>
    <li><a href="${links.openapi}">OpenAPI description</a>, for programs</li>
    <li><a href="${links.health}">Health check</a></li>
  </ul>
  <p>Paths under <code>/v1</code> need the header <code>Authorization: Bearer &lt;API_KEY&gt;</code>.</p>
</body>
</html>
`;

/** `/`: HTML for a browser, JSON for other clients; without a key. */
export async function home(app: FastifyInstance): Promise<void> {
  app.route({
    method: ['GET', 'HEAD'],
    url: '/',
    handler: async (request, reply) => {
      // The router treats the request target `*` as `/`.
      if (request.url.startsWith('*')) throw unknownRoute(request);
      addVary(reply, 'Accept');
      const available = ['application/json', 'text/html'];
      if (preferredMediaType(request.headers.accept, available) === 'text/html') {
        return reply.type('text/html; charset=utf-8').send(page);
      }
      return { name: 'crm-data-service', description, ...links };
    },
  });
}
