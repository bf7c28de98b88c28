import { z } from 'zod';
import { encodeId } from '../domain/public-id.ts';
import { named, publicId } from '../http/response/wire.ts';
import { type Route, route } from '../http/route.ts';

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
export function identity(): readonly Route[] {
  return [
    route({
      url: '/me',
      summary: 'Which organization and key a request speaks for',
      path: z.strictObject({}),
      query: z.strictObject({}),
      response: identitySchema,
      etag: true,
      handle: async ({ credential }) => ({
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
        // Keys have a live-mode format only (section 5).
        livemode: true,
      }),
    }),
  ];
}
