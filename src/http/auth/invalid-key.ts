import { ApiError } from '../response/errors.ts';

/** The same error for missing, malformed, unknown, expired and revoked keys. */
export const invalidKey = (): ApiError =>
  new ApiError(
    'authentication_error',
    'A valid API key is required, sent as `Authorization: Bearer <API_KEY>`.',
  );
