/**
 * Settings of the worker's connections, in addition to those of each connection. `row_security = off`
 * makes a statement fail if a policy would hide rows.
 */
export const workerSettings = { lock_timeout: '5s', row_security: 'off' };
