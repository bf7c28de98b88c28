/**
 * What a browser may do with an answer: nothing but hand it to the page that asked. A
 * list of our own, for answers are also written where no plugin's hook runs. Embedding
 * is for no other site, also with CORS, which is not about embedding. No
 * Strict-Transport-Security: whether there is TLS, the proxy before this knows.
 */
export const securityHeaders = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
} as const;
