import type { InjectOptions } from 'fastify';
import { test } from '../support/fixtures.ts';
import { recordedLog } from './recorded-log.ts';

/** Tests that read the log of `api`, which queries Postgres. */
export const loggedTest = test
  .extend('recorded', { scope: 'file' }, () => recordedLog())
  .extend('apiOptions', { scope: 'file' }, ({ recorded }) => ({ log: recorded.log }))
  /** Sends any request with the key of `shop`. */
  .extend(
    'send',
    ({ api, shop }) =>
      (url: string, options: InjectOptions = {}) =>
        api.app.inject({
          method: 'GET',
          url,
          ...options,
          headers: { authorization: `Bearer ${shop.secret}`, ...options.headers },
        }),
  );
