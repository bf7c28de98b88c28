import { z } from 'zod';
import { encodeId } from '../domain/public-id.ts';
import { named, publicId } from '../http/response/wire.ts';
import { type ResourceRoutes, route } from '../http/route.ts';

const identitySchema = named(
  'Identity',
  z.object({
    object: z.literal('identity'),
    organization: z.object({ id: publicId('organization'), name: z.string() }),
    api_key: z.object({
      id: publicId('api_key'),
      name: z.string(),
      scopes: z.array(z.string()),
    }),
    livemode: z.boolean(),
  }),
);

/** Section 2.3. */
export const identity: ResourceRoutes = () => [
  route({
    url: '/me',
    summary: 'The organization and the API key of the request',
    description: 'Whose data the key reads. There is no other source of the organization.',
    path: z.strictObject({}),
    query: z.strictObject({}),
    response: identitySchema,
    handle: async ({ credential }) => ({
      asOf: undefined,
      result: {
        object: 'identity' as const,
        organization: {
          id: encodeId('organization', credential.organizationId),
          name: credential.organizationName,
        },
        api_key: {
          id: encodeId('api_key', credential.keyId),
          name: credential.keyName,
          scopes: [...credential.scopes],
        },
        // All keys have the live-mode format (section 5).
        livemode: true,
      },
    }),
  }),
];
