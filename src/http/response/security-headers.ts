/**
 * Headers of every response, also of those that no plugin's hook sees. No other site may embed a
 * response, even with CORS. Strict-Transport-Security is missing because only the proxy knows
 * whether there is TLS.
 */
export const securityHeaders = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
} as const;
