import { ApiError } from '../response/errors.ts';

/** What follows the first `?` of a URL. */
export function queryStringOf(url = ''): string {
  return /\?(.*)$/s.exec(url)?.[1] ?? '';
}

/**
 * Reads a query string strictly: a parameter that is repeated, or text that is
 * not percent-encoded UTF-8, is refused rather than guessed at.
 */
export function parseQueryString(text: string): Record<string, string> {
  const parameters: Record<string, string> = Object.create(null);
  for (const part of text.split('&')) {
    if (part === '') continue;
    const separator = part.indexOf('=');
    const name = decode(separator === -1 ? part : part.slice(0, separator));
    const value = separator === -1 ? '' : decode(part.slice(separator + 1), name);
    if (name in parameters) {
      throw new ApiError('validation_error', `The parameter ${name} is given more than once.`, {
        param: name,
      });
    }
    parameters[name] = value;
  }
  return parameters;
}

function decode(text: string, param?: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new ApiError(
      'invalid_request',
      'The query string is not valid percent-encoded UTF-8.',
      param === undefined ? {} : { param },
    );
  }
}
