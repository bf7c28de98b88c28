import type { ExportWriter } from '../../src/http/services.ts';

/** Where no export is asked for. */
export const withoutExports: ExportWriter = () => {
  throw new Error('no export is measured here');
};
